"""The free vector of a semilinear law and what it stands for.

    lambda_n = kappa + nu mu_n^s,   q_n = scale n^-exponent or one q_n per mode,   theta_t per term,

and of several fields the same for each field, but for kappa: a damping of its own is a term there.
``nu``, ``kappa``, the exponent and theta are free as they are; scales and variances as logarithms.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.equation import Closure, Reaction, bind
from spdelaw.errors import InputError

Array = np.ndarray
NOISES = ("parametric", "diagonal")
#: Name of the variance of the noise of observations.
OBSERVATION = "observation_variance"


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """Which numbers are free, in which order, and how they make a `Closure`.

    Attributes:
        mu: ``mu_n^s`` of the modes of one field.
        reaction: terms on the modes.
        noise: "parametric" or "diagonal".
        names: of all parameters, free or not.
        fixed: values that are held, by name.
        fields: names of several fields, whose modes take turns; none where there is one.
    """

    mu: Array
    reaction: Reaction
    noise: str
    names: tuple[str, ...]
    fixed: Mapping[str, float]
    fields: tuple[str, ...] = ()

    @property
    def has_observation(self) -> bool:
        """Whether the noise of observations is among the parameters."""
        return OBSERVATION in self.names

    @property
    def unobserved(self) -> Layout:
        """The same without the noise of observations."""
        names = tuple(name for name in self.names if name != OBSERVATION)
        held = {name: value for name, value in self.fixed.items() if name != OBSERVATION}
        return dataclasses.replace(self, names=names, fixed=held)

    @property
    def free(self) -> Array:
        """Positions of the free parameters."""
        return np.array([i for i, name in enumerate(self.names) if name not in self.fixed], int)

    @property
    def free_names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.names[i] for i in self.free)

    @property
    def is_log(self) -> Array:
        """Which parameters are free as logarithms; (n_parameters,)."""
        logs, start = ("scale", OBSERVATION), ("scale ", "q ") if self.fields else "q_"
        return np.array([name in logs or name.startswith(start) for name in self.names])

    def whole(self, x: Array) -> Array:
        """All parameters in their own units from the free vector."""
        out = np.array([float(self.fixed.get(name, 0.0)) for name in self.names])
        out[self.free] = x
        log = self.is_log.copy()
        log[[i for i, name in enumerate(self.names) if name in self.fixed]] = False
        out[log] = np.exp(out[log])
        return out

    def vector(self, values: Mapping[str, float]) -> Array:
        """The free vector of given values by name."""
        log = dict(zip(self.names, self.is_log, strict=True))
        return np.array([np.log(values[n]) if log[n] else values[n] for n in self.free_names])

    def values(self, x: Array) -> dict[str, float]:
        """All parameters by name."""
        return dict(zip(self.names, map(float, self.whole(x)), strict=True))

    def units(self, x: Array) -> Array:
        """Derivative of each free parameter in its own units by its entry of the vector."""
        return np.where(self.is_log[self.free], self.whole(x)[self.free], 1.0)

    def closure(self, x: Array) -> Closure:
        """The equations at x."""
        p, n, first = self.whole(x), len(self.fields) or 1, len(self.fields) or 2
        after = first + len(self.reaction.names)
        noise = p[after : len(p) - self.has_observation].reshape(n, -1)
        if self.noise == "parametric":
            noise = noise[:, :1] * self._index ** (-noise[:, 1:])
        rates = np.outer(p[:n], self.mu) + (0.0 if self.fields else p[1])
        return Closure(self.reaction, p[first:after], rates.T.ravel(), noise.T.ravel())

    @property
    def _index(self) -> Array:
        return np.arange(1.0, len(self.mu) + 1.0)

    def observation_variance(self, x: Array) -> float:
        """Variance of the noise of observations."""
        return float(self.values(x)[OBSERVATION])

    def pull(
        self,
        x: Array,
        rate: Array,
        noise: Array,
        coefficient: Array,
        observation: Array | None = None,
    ) -> Array:
        """Scores by the free vector, (n, n_free), from those by the numbers of the closure."""
        own = [slice(f, None, len(self.fields) or 1) for f in range(len(self.fields) or 1)]
        parts = [(rate[:, at] @ self.mu)[:, None] for at in own]
        parts += [coefficient] if self.fields else [rate.sum(1)[:, None], coefficient]
        q = self.closure(x).noise
        for at in own:
            if self.noise == "parametric":
                columns = np.stack([q[at], -q[at] * np.log(self._index)], axis=1)
                parts.append(noise[:, at] @ columns)
            else:
                parts.append(noise[:, at] * q[at])
        if observation is not None:
            parts.append((observation * self.observation_variance(x))[:, None])
        return np.concatenate(parts, axis=1)[:, self.free]


def layout_of_one(
    domain: AbstractDomain, n_modes: int, terms: Any, noise: str, fixed: Mapping[str, Any]
) -> Layout:
    """Layout of a law of one field.

    ``kappa`` is held at 0 beside the term ``u``, which is minus kappa; otherwise it is free.
    """
    reaction = bind(terms, domain, n_modes)
    spectrum = ("scale", "exponent")
    if noise == "diagonal":
        spectrum = tuple(f"q_{n}" for n in range(1, n_modes + 1))  # type: ignore[assignment]
    names = ("nu", "kappa", *reaction.names, *spectrum)
    held = {"kappa": 0.0, **fixed} if "u" in reaction.names else dict(fixed)
    s = held.pop("s", 1.0)
    check_held(held, names)
    _check_kappa(held, reaction)
    return Layout(domain.eigenvalues(n_modes) ** float(s), reaction, noise, names, numbers(held))


def numbers(held: Mapping[str, Any]) -> dict[str, float]:
    """Values that are held; None frees a parameter."""
    return {name: float(value) for name, value in held.items() if value is not None}


def check_held(held: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Refuse names that are no parameters, and values that are no numbers."""
    unknown = [name for name in held if name not in names]
    if unknown:
        fix = "fix 'nu', 'kappa', 's', 'scale', 'exponent' or the coefficient of a term"
        raise InputError("fixed", expected=f"names among {names}", got=repr(unknown[0]), fix=fix)
    for name, value in held.items():
        if value is not None and not (isinstance(value, Real) and math.isfinite(value)):
            fix = f"pass fixed={{{name!r}: 0.0}}"
            raise InputError("fixed", expected=f"a number for {name!r}", got=repr(value), fix=fix)


def _check_kappa(held: Mapping[str, Any], reaction: Reaction) -> None:
    if "u" in reaction.names and held["kappa"] is None and held.get("u") is None:
        expected = "a value to hold beside the term 'u'"
        fix = "leave kappa at 0: the coefficient of u is minus kappa"
        raise InputError("kappa", expected=expected, got="both free", fix=fix)
