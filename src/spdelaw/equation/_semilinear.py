"""Semilinear SPDEs with additive noise: a linear equation plus a polynomial of the field."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from spdelaw.checks import numbers
from spdelaw.domain import AbstractDomain, Fields
from spdelaw.equation._closure import Closure
from spdelaw.equation._description import in_html
from spdelaw.equation._field_terms import flat_terms
from spdelaw.equation._reacting import Reacting
from spdelaw.equation._spde import SpectralSPDE
from spdelaw.equation._terms import Reaction, check_names
from spdelaw.errors import EquationError

Array = np.ndarray


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Semilinear:
    """``dX = (A X + sum_t theta_t g_t(X)) dt + dW`` on the modes of a domain.

    Args:
        linear: the linear part, its noise and its initial state; modes not coupled.
        terms: coefficient ``theta_t`` by the name of each term: "1", "u", "u^2", "u^3", "u u_x",
            "u_x^2", "|grad u|^2", or a polynomial of your own such as "u - u^3". Of several fields
            (`spdelaw.Fields`) by field, ``{"u": {"u": 1.0, "v": -1.0}, "v": {"u": 0.5}}``.

    Products are exact on the modes that are kept (dealiased); derivatives need an `Interval` or a
    `Box`, polynomials of u any domain.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> heat = sl.SpectralSPDE(
        ...     sl.Interval(0, 2 * np.pi, "periodic"),
        ...     5,
        ...     sl.OperatorFormula(nu=0.05),
        ...     noise=sl.White(0.01),
        ... )
        >>> equation = sl.Semilinear(heat, {"u": 1.0, "u^3": -1.0})
        >>> equation.parameters["coefficient"]
        array([ 1., -1.])
    """

    linear: SpectralSPDE
    terms: Mapping[str, float]
    dynamics: Reacting = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Check the parts and bind the terms to the domain."""
        got, fix = type(self.linear).__name__, "pass sl.catalogue.heat()"
        if not isinstance(self.linear, SpectralSPDE):
            raise EquationError("linear", expected="a SpectralSPDE", got=got, fix=fix)
        if self.linear.is_coupled or self.linear.forcing or self.linear.season:
            expected = "modes that are not coupled, without forcing or season"
            got, fix = "a linear part with one of them", "leave it out of the linear part"
            raise EquationError("linear", expected=expected, got=got, fix=fix)
        terms = self.terms
        if isinstance(self.domain, Fields):
            terms = flat_terms(terms, self.domain.names)
        names, values = _checked(terms)
        object.__setattr__(self, "terms", dict(zip(names, values, strict=True)))
        rates, noise = self.linear.eigenvalues, self.linear.noise_variance
        dynamics = Reacting(self.domain, names, np.array(values), rates, noise)
        object.__setattr__(self, "dynamics", dynamics)

    # -- what it shares with its linear part --------------------------------------------

    @property
    def domain(self) -> AbstractDomain:
        """Where the field lives."""
        return self.linear.domain

    @property
    def n_modes(self) -> int:
        """Number of modes."""
        return int(self.linear.n_modes)

    @property
    def times(self) -> Array:
        """Observation times used where none are given."""
        return self.linear.times

    @property
    def label(self) -> str:
        """A name for people."""
        return self.linear.label

    def default_grid(self) -> Array:
        """The domain's regular grid."""
        return self.linear.default_grid()

    # -- dynamics -----------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, Array]:
        """``lambda`` and ``q`` of each mode and ``theta`` of each term, by name."""
        return {
            "eigenvalue": self.linear.eigenvalues,
            "noise_variance": self.linear.noise_variance,
            "coefficient": np.array(list(self.terms.values())),
        }

    @property
    def reaction(self) -> Reaction:
        """The terms on the modes."""
        return self.dynamics.reaction

    @property
    def closure(self) -> Closure:
        """The same as numbers that move Gaussians."""
        return self.dynamics.closure

    # -- files and people -----------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain description (JSON types only) that `from_dict` turns back into an equal one."""
        return {"kind": "semilinear", "linear": self.linear.to_dict(), "terms": dict(self.terms)}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Semilinear:
        """Equation from the plain description of `to_dict`."""
        try:
            return cls(SpectralSPDE.from_dict(description["linear"]), description["terms"])
        except (KeyError, TypeError) as error:
            expected = "the plain description of Semilinear.to_dict()"
            got, fix = f"{type(error).__name__}: {error}", "write it with to_dict()"
            raise EquationError("equation", expected=expected, got=got, fix=fix) from error

    def __eq__(self, other: object) -> bool:
        """Equal when they describe the same law on the same default times."""
        return isinstance(other, Semilinear) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Hash of what equality compares first."""
        return hash((self.linear, tuple(self.terms.items())))

    def __repr__(self) -> str:
        """The linear part, then the terms."""
        shown = " ".join(f"{value:+.4g} {name}" for name, value in self.terms.items())
        text = repr(self.linear).replace("SpectralSPDE", "Semilinear", 1)
        return text.replace("dX = A X dt", "dX = (A X + f(X)) dt", 1) + f"\n  f(u)    {shown}"

    def _repr_html_(self) -> str:
        """The same with a table, for notebooks."""
        return in_html(self.linear, repr(self))


def _checked(terms: Any) -> tuple[tuple[str, ...], list[float]]:
    if not isinstance(terms, Mapping):
        expected, fix = "a coefficient for each term", "pass terms={'u': 1.0, 'u^3': -1.0}"
        raise EquationError("terms", expected=expected, got=type(terms).__name__, fix=fix)
    values = numbers(list(terms.values()))
    if values.shape != (len(terms),) or not np.isfinite(values).all():
        got, fix = str(dict(terms)), "pass terms={'u': 1.0}"
        raise EquationError("terms", expected="finite numbers", got=got, fix=fix)
    return check_names(list(terms)), values.tolist()
