"""Semilinear laws through the door of every fit."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from spdelaw.checks import one_of
from spdelaw.data import Observed
from spdelaw.domain import AbstractDomain, Fields
from spdelaw.equation import MOST_DENSE
from spdelaw.errors import InputError
from spdelaw.infer._engine import Engine
from spdelaw.infer._model import Model
from spdelaw.infer._semilinear_law import ENGINE, law_of
from spdelaw.infer._semilinear_sight import Sight, look
from spdelaw.infer.semilinear import NOISES, SCHEMES, SemilinearFit
from spdelaw.law import Law

METHODS = ("auto", "closure", "one_pass")
#: Words of a model that are assumed where ``terms`` are given and nothing else is said.
ASSUMED = {"drift": "parametric", "noise": "parametric"}


@dataclasses.dataclass(frozen=True)
class SemilinearEngine(Engine):
    """Likelihood of the Gaussian closure, with terms beyond the linear drift.

    Complete fields go through their transitions; gaps, noise, clocks of their own and few sensors
    through a filter. The drift is ``lambda_n = kappa + nu mu_n``, kappa held at 0 beside ``u``.

    Args:
        terms: names such as ("u", "u^3"); see `spdelaw.Semilinear`.
        method: "closure", or "one_pass" for complete fields of several variables with many modes;
            "auto" takes the first up to 160 modes.
        scheme: "exact", or "semi_implicit" for complete fields that this scheme made, one step from
            time to time: their coefficients are then those of the scheme.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> equation = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(41))
        >>> law = sl.fit(sl.simulate(equation, 10), equation.domain, 5, terms=("u", "u^3"))
        >>> row = law.parameters.coefficient.sel(term="u^3")
        >>> bool(row.sel(statistic="lower") < -1.0 < row.sel(statistic="upper"))
        True
    """

    terms: Sequence[str] = ("u", "u^3")
    method: str = "auto"
    scheme: str = "exact"
    name = ENGINE
    honours = frozenset({"drift", "noise", "fixed", "observation_noise"})

    def __post_init__(self) -> None:
        """A single name would be taken letter by letter."""
        check_term_names("terms", self.terms)
        one_of("scheme", self.scheme, SCHEMES)

    def check(self, model: Model, bootstrap: int) -> None:
        """Refuse what is not there: other words of the model, replicates."""
        super().check(model, bootstrap)
        check_semilinear(model, self.terms)
        if bootstrap:
            fix = "leave it out: the intervals are those of the observed information"
            raise InputError("bootstrap", expected="0 beside terms", got=str(bootstrap), fix=fix)

    def learn(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model, **run: Any
    ) -> Law:
        """Law of the fields with these terms."""
        clock = time.perf_counter()
        sight, found = self.seen(observed, domain, n_modes, model)
        law = law_of(found, sight, run["level"])
        return law.with_info(seconds={"maximise": round(time.perf_counter() - clock, 4)})

    def words(self, model: Model) -> dict[str, Any]:
        """Words of a fit."""
        own = {} if self.scheme == "exact" else {"scheme": self.scheme}
        return {"noise": str(model.noise), "fixed": model.fixed, **own}

    def seen(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model
    ) -> tuple[Sight, SemilinearFit]:
        """What is seen of the fields, and the fit of all terms to it."""
        one_pass = takes_one_pass(self.method, domain, n_modes) and self.scheme == "exact"
        return look(observed, n_modes, model, self.terms, self.words(model), one_pass)


def takes_one_pass(method: str, domain: AbstractDomain, n_modes: int) -> bool:
    """Whether a fit of so many modes goes by increments."""
    one_of("method", method, METHODS)
    several = isinstance(domain, Fields)
    if method == "one_pass" and not several:
        expected = "'closure' for one field"
        raise InputError("method", expected=expected, got="'one_pass'", fix="leave method out")
    return method == "one_pass" or (method == "auto" and several and n_modes > MOST_DENSE)


def check_term_names(what: str, names: Any) -> None:
    """Refuse what is no sequence of names."""
    listed = isinstance(names, Sequence) and not isinstance(names, str)
    if not (listed and all(isinstance(name, str) for name in names)):
        fix = f"pass {what}=('u', 'u^3')"
        raise InputError(what, expected="names in a tuple", got=repr(names), fix=fix)


def check_semilinear(model: Model, terms: Sequence[str]) -> None:
    """Refuse words that a semilinear law does not have."""
    if model.drift != "parametric":
        same = "u" in terms and model.drift in ("diagonal", "dense")
        expected = "'parametric' (kappa + nu mu) beside terms"
        got = f"{model.drift!r}" + (", of which the term 'u' is already a part" if same else "")
        fix = "leave drift out: it is then nu times the Laplacian"
        raise InputError("drift", expected=expected, got=got, fix=fix)
    if model.noise not in NOISES:
        expected = f"one of {NOISES} beside terms"
        fix = "leave noise out: it is then scale n^-exponent"
        raise InputError("noise", expected=expected, got=repr(model.noise), fix=fix)
    if model.noise_word == "per_point":
        expected = "'auto', 'none', 'estimate' or known standard deviations beside terms"
        fix = "pass the standard deviation of each point, or observation_noise='estimate'"
        raise InputError("observation_noise", expected=expected, got="'per_point'", fix=fix)
