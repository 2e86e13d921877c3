"""Domains whose modes are computed once and kept: graphs, meshes, patterns of data.

What is kept is the table itself, not the recipe: eigenvectors of equal eigenvalues may be turned
into one another, and a law must find the same modes again on every machine.
"""

from __future__ import annotations

import abc
import dataclasses
import hashlib
from typing import Any

import numpy as np
import scipy

from spdelaw.domain._base import AbstractDomain, Array
from spdelaw.errors import DomainError


class TabulatedDomain(AbstractDomain):
    """Modes as columns of a table at nodes, orthonormal under the weights of the nodes.

    Attributes:
        nodes: where the modes are tabulated; (n_nodes,) or (n_nodes, d).
        node_weights: weights of a rule on the nodes; (n_nodes,).
        spectrum: ``mu_n``, (N,).
        modes: ``h_n`` at the nodes, (n_nodes, N).
    """

    nodes: Any
    node_weights: Any
    spectrum: Array
    modes: Array

    @property
    def most_modes(self) -> int:
        """Columns of the table."""
        return len(self.spectrum)

    @property
    def volume(self) -> float:
        """Sum of the weights."""
        return float(self.node_weights.sum())

    def eigenvalues(self, n_modes: int) -> Array:
        """First entries of the spectrum."""
        return self.spectrum[: self.check_modes(n_modes)].copy()

    def weight(self, points: Array) -> Array:
        """One: the nodes carry the weights."""
        return np.ones(len(points))

    def quadrature(self, n_points: int) -> tuple[Array, Array]:
        """The nodes and their weights, whatever the number asked for."""
        return self.nodes.copy(), self.node_weights.copy()

    def quadrature_for(self, n_modes: int) -> tuple[Array, Array]:
        """The same rule for any number of modes."""
        return self.quadrature(self.check_modes(n_modes))

    def grid(self, n_points: int) -> Array:
        """The nodes, whatever the number asked for."""
        return self.nodes.copy()

    def _store(self, **settings: Any) -> None:
        """Set fields; arrays become read-only copies."""
        for key, value in settings.items():
            if isinstance(value, np.ndarray):
                value = np.array(value)
                value.setflags(write=False)
            object.__setattr__(self, key, value)

    @classmethod
    def from_settings(cls, **settings: Any) -> TabulatedDomain:
        """Domain from its table; nothing is computed."""
        _check_names(cls, settings)
        domain = object.__new__(cls)
        domain._restore(**settings)
        domain._check_tables()
        return domain

    def _check_tables(self) -> None:
        """Raise `DomainError` where restored tables do not belong together."""
        shape = len(self.nodes), len(self.spectrum)
        together = self.spectrum.ndim == 1 and self.spectrum.size and self.modes.shape == shape
        finite = np.isfinite(self.modes).all() and np.isfinite(self.spectrum).all()
        if not together or not finite or self.node_weights.shape != shape[:1]:
            expected = f"finite modes {shape} at {shape[0]} nodes"
            got = f"modes {self.modes.shape}, weights {self.node_weights.shape}"
            fix = "write it with domain.to_dict()"
            raise DomainError(self.name, expected=expected, got=got, fix=fix)

    @abc.abstractmethod
    def _restore(self, **settings: Any) -> None:
        """Take over what `settings` gave, through JSON or arrays of floats."""

    def __eq__(self, other: object) -> bool:
        """Equal when every entry of the tables is."""
        if not isinstance(other, type(self)):
            return False
        mine, theirs = self.settings(), other.settings()
        return mine.keys() == theirs.keys() and all(
            np.array_equal(mine[key], theirs[key]) for key in mine
        )

    def __hash__(self) -> int:
        """Hash of the table."""
        return hash(hashlib.sha256(self.modes.tobytes()).digest())


def _check_names(cls: type[TabulatedDomain], settings: dict[str, Any]) -> None:
    wanted = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if settings.keys() != wanted:
        expected = f"the fields {', '.join(sorted(wanted))}"
        got, fix = ", ".join(sorted(map(str, settings))) or "none", "write it with domain.to_dict()"
        raise DomainError(cls.name, expected=expected, got=got, fix=fix)


def lowest_modes(stiffness: Any, mass: Any, n_modes: int, shift: float) -> tuple[Array, Array]:
    """Least eigenvalues and vectors of ``K v = mu M v``, ``v' M v = 1``, by shift-invert.

    ``shift > 0`` moves the spectrum away from zero, where K may be singular. The sign of a
    vector makes its largest entry positive.
    """
    n = stiffness.shape[0]
    if n_modes > n:
        expected = f"at most {n}, one a free node"
        raise DomainError("n_modes", expected=expected, got=str(n_modes), fix=f"pass n_modes={n}")
    if n <= 500 or 2 * n_modes > n:
        mu, v = scipy.linalg.eigh(
            stiffness.toarray(), mass.toarray(), subset_by_index=(0, n_modes - 1)
        )
    else:
        start = np.random.default_rng(0).standard_normal(n)
        mu, v = scipy.sparse.linalg.eigsh(
            scipy.sparse.csc_matrix(stiffness),
            n_modes,
            scipy.sparse.csc_matrix(mass),
            sigma=-shift,
            v0=start,
        )
        order = np.argsort(mu)
        mu, v = mu[order], v[:, order]
    # Rounding leaves the zero eigenvalue of a constant at a tiny number of either sign.
    mu = np.maximum.accumulate(np.where(np.abs(mu) < 1e-10 * shift, 0.0, mu))
    return mu, v * np.sign(v[np.abs(v).argmax(0), np.arange(n_modes)])
