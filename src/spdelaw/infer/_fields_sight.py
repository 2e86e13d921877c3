"""Complete states of many modes of several fields, for the one-pass estimator.

With more modes than the closure can carry, fields have to be complete and free of noise. Noise in
the rows shows as in `_semilinear_sight`: what one row has too much, the next one lacks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from spdelaw.checks import one_of
from spdelaw.data import Observed
from spdelaw.domain import Fields
from spdelaw.equation import MOST_DENSE
from spdelaw.errors import DataError, InputError
from spdelaw.infer._model import Model
from spdelaw.infer._semilinear_sight import CUT, CUT_SHARE, NOISE_Z, ROUNDING, States
from spdelaw.infer.semilinear import SemilinearFit, fit_one_pass, layout, residuals
from spdelaw.model import transitions

Array = np.ndarray

METHODS = ("auto", "closure", "one_pass")


@dataclasses.dataclass(frozen=True, eq=False)
class ManyStates(States):
    """Rows that are states of many modes; ``share`` is that of the energy beyond the modes."""

    share: float = 0.0
    route = "one pass over the increments"

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say about modes that were left out."""
        return (CUT.format(100 * self.share),) if self.share > CUT_SHARE else ()

    def fit(self, terms: Any, words: Mapping[str, Any]) -> SemilinearFit:
        """Fit of these terms."""
        form = layout(self.observed.domain, self.c.shape[2], terms, **words)
        return fit_one_pass(form, transitions(self.c, self.observed.times))

    def shows_noise(self, fit: SemilinearFit) -> bool:
        """Whether neighbouring errors of predictions have opposite signs."""
        return not self.is_held and _noise_score(self, fit) > NOISE_Z


def takes_one_pass(method: str, domain: Any, n_modes: int) -> bool:
    """Whether a fit of so many modes goes by increments."""
    one_of("method", method, METHODS)
    if not isinstance(domain, Fields) and method == "one_pass":
        expected = "'closure' for one field"
        raise InputError("method", expected=expected, got="'one_pass'", fix="leave method out")
    return method == "one_pass" or (
        method == "auto" and isinstance(domain, Fields) and n_modes > MOST_DENSE
    )


def look_once(
    observed: Observed, n_modes: int, model: Model, terms: Any, words: Mapping[str, Any]
) -> tuple[ManyStates, SemilinearFit]:
    """States of complete fields, and the fit of the terms to their increments."""
    states = _states(observed, n_modes)
    if model.noise_word not in ("auto", "none"):
        raise _needs("no noise of observations", repr(model.observation_noise))
    found = states.fit(terms, words)
    if model.noise_word == "auto" and states.shows_noise(found):
        got = "errors of predictions that noise makes"
        raise _needs("fields without noise of observations", got)
    return states, found


def _states(observed: Observed, n_modes: int) -> ManyStates:
    values, domain = np.asarray(observed.values), observed.domain
    if np.isnan(values).any():
        raise _needs("complete fields", f"{int(np.isnan(values).sum())} missing values")
    observed.check_change()
    domain = cast("Fields", domain)
    which, x = domain.split(observed.points)
    c = np.empty((*values.shape[:2], n_modes))
    gram, misfit, n = np.empty(n_modes), 0.0, n_modes // domain.n_fields
    for f in range(domain.n_fields):
        own = slice(f, None, domain.n_fields)
        phi = domain.domain.eigenfunctions(x[which == f], n)
        product = phi.T @ phi
        rows = values[..., which == f]
        c[..., own] = np.linalg.solve(product, (rows @ phi).reshape(-1, n).T).T.reshape(
            *rows.shape[:2], n
        )
        misfit += float(((rows - c[..., own] @ phi.T) ** 2).sum())
        gram[own] = np.diag(product)
    energy, spare = float((values**2).sum()), values.size - c.size
    outside = misfit / spare if spare > 0 and misfit > ROUNDING * energy else 0.0
    return ManyStates(observed, c, gram, outside, not outside, None, misfit / energy)


def _noise_score(states: ManyStates, fit: SemilinearFit) -> float:
    """Normal score for noise in the rows: neighbouring errors of predictions of opposite sign."""
    data = transitions(states.c, states.observed.times)
    error, closure = residuals(fit, data), fit.layout.closure(fit.x)
    dt = float(np.median(data.dt))
    weight = np.exp(-np.clip(closure.rates * dt, -1.0, 50.0)) / (states.gram * closure.noise * dt)
    s = -(error[1:] * error[:-1] * weight).sum(1)[data.path[1:] == data.path[:-1]]
    return float(s.sum() / np.sqrt((s**2).sum())) if s.any() else 0.0


def _needs(expected: str, got: str) -> DataError:
    expected = f"{expected} for more than {MOST_DENSE} modes of all fields"
    fix = f"fit at most {MOST_DENSE // 2} modes of each of two fields, which the filter does"
    return DataError("data", expected=expected, got=got, fix=fix)
