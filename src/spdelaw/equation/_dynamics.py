"""What a state does over a step: the seam that every law of the coefficients fits."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from spdelaw.errors import EquationError

Array = np.ndarray
#: From gradients by the next mean, its covariance and the cross-covariance to those by the mean and
#: the covariance before, and by each parameter.
PullBack = Callable[[Array, Array, Array], tuple[Array, Array, dict[str, Array]]]


class Step(NamedTuple):
    """Gaussian moments after a step.

    Attributes:
        mean: ``E c(t + dt)``, (N,).
        covariance: ``Cov c(t + dt)``, (N, N).
        cross: ``Cov(c(t), c(t + dt))``, (N, N), which a smoother needs.
        pull_back: gradients back to what the step started from.
    """

    mean: Array
    covariance: Array
    cross: Array
    pull_back: PullBack


class Dynamics(abc.ABC):
    """Law of the coefficients in time.

    A subclass with a ``name`` of its own can be read back from a document by `dynamics_from_dict`.
    """

    name: ClassVar[str]
    registry: ClassVar[dict[str, type[Dynamics]]] = {}

    def __init_subclass__(cls, **settings: Any) -> None:
        """Enter the registry."""
        super().__init_subclass__(**settings)
        if "name" in cls.__dict__:
            Dynamics.registry[cls.name] = cls

    @property
    @abc.abstractmethod
    def n_modes(self) -> int:
        """Number of modes N."""

    @property
    @abc.abstractmethod
    def parameters(self) -> dict[str, Array]:
        """Numbers by name."""

    @abc.abstractmethod
    def moments(self, mean: Array, covariance: Array, t: float, dt: float) -> Step:
        """Mean and covariance after a step from N(mean, covariance)."""

    @abc.abstractmethod
    def sample(self, state: Array, t: float, dt: float, generator: np.random.Generator) -> Array:
        """A draw of the state after a step, from states (..., N)."""

    def response(self, times: Array) -> Array:
        """Mean that a known forcing adds to the state, zero without one; (*times.shape, N)."""
        return np.zeros((*np.shape(times), self.n_modes))

    @abc.abstractmethod
    def leading(self, n: int) -> Dynamics:
        """Law of the first ``n`` modes alone."""

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Numbers, lists and arrays by name, which `from_dict` turns back."""

    @classmethod
    @abc.abstractmethod
    def from_dict(cls, description: dict[str, Any]) -> Dynamics:
        """Inverse of `to_dict`."""


def dynamics_from_dict(name: str, description: dict[str, Any]) -> Dynamics:
    """Dynamics registered under a name, from the result of its ``to_dict``."""
    if name not in Dynamics.registry:
        expected, fix = f"one of {sorted(Dynamics.registry)}", "import the package that defines it"
        raise EquationError("dynamics", expected=expected, got=repr(name), fix=fix)
    return Dynamics.registry[name].from_dict(description)
