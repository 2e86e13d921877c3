"""What a semilinear fit sees of the fields: their states, or observations of them.

Where every row that observes anything determines all modes, and shows no noise, the rows are the
states, on whatever clock, and their transitions have the likelihood of the closure (`States`).
Otherwise the closure is the prediction of a filter (`Behind`).

Noise in the rows shows in the errors e of the predictions: what one row has too much, the next one
lacks. With ``F`` the factor of a step and ``r / G`` the variance of noise in the modes,

    Cov(e_{t+1}, e_t) = -r F / G,    so    s_t = -sum_n e_{t+1,n} e_{t,n} F_n / (G_n Omega_n^2)

has mean zero without noise, whatever the weights, and ``sum s / sqrt(sum s^2)`` is a normal score.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from spdelaw.data import Observed, check_change
from spdelaw.equation import decay_mean
from spdelaw.errors import ConvergenceError, DataError, SpdeLawWarning
from spdelaw.infer._design import point_weights
from spdelaw.infer._filter_route import n_states
from spdelaw.infer._model import Model
from spdelaw.infer._moment_estimates import gram_diagonal, mean_gram
from spdelaw.infer._nuisance import residual_correlation
from spdelaw.infer._statistics_route import statistics_of
from spdelaw.infer.semilinear import SemilinearFit, fit_complete, fit_filtered
from spdelaw.model import Collapsed, Statistics, collapse, transition_innovations, transitions

Array = np.ndarray
#: Share of the energy outside the modes that is rounding.
ROUNDING = 1e-14
#: Normal score from which on the rows show noise; one in 4,000 false alarms costs only time.
NOISE_Z = 3.5
#: Least eigenvalue of a row's Gram matrix, relative to its largest, that determines all modes.
DETERMINED = 1e-6
#: Transitions that the test for noise looks at.
TESTED = 4000
#: Variance that stands for none in the filter, relative to the energy of a value.
WORKING_VARIANCE = 1e-8
#: Lag-one correlation from which on what the modes leave over is finer modes and not noise.
CORRELATED = 0.1
#: Share of the energy beyond the modes from which on the coefficients may depend on the cut.
CUT_SHARE = 0.003
CUT = (
    "{:.1f} % of the energy lies beyond the modes: coefficients are those at this number of modes; "
    "use more modes, or add the term '1' for the push that finer ones give to the mean"
)
FINER = (
    "what the modes leave over is correlated over time ({:.2f}): finer modes are in it, and the "
    "noise is learned inside the modes alone; coefficients are those at this number of modes"
)


@dataclasses.dataclass(frozen=True, eq=False)
class States:
    """Rows that are states.

    Attributes:
        observed: the fields.
        c: coefficients (P, T, N), NaN where a row observes nothing.
        gram: mean diagonal of ``Phi' Phi``, (N,).
        outside: variance of what the modes leave over, 0 where it is rounding.
        is_held: whether the modes hold the fields to rounding, on more points than modes.
        statistics: sums over complete fields on one clock, else None.
    """

    observed: Observed
    c: Array
    gram: Array
    outside: float
    is_held: bool
    statistics: Statistics | None
    route = "closure of transitions"

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say about modes that were left out."""
        share = (
            self.outside * len(self.observed.points) / float(np.nanmean((self.c**2) @ self.gram))
        )
        return (CUT.format(100 * share),) if share > CUT_SHARE else ()

    def fit(self, terms: Any, words: Mapping[str, Any]) -> SemilinearFit:
        """Fit of these terms."""
        with _without_warnings():
            return fit_complete(self.c, self.observed.times, self.observed.domain, terms, **words)

    def shows_noise(self, fit: SemilinearFit) -> bool:
        """Whether the errors of predictions are those of noisy rows."""
        if self.is_held:
            return False
        return noise_score(fit, self.c, self.observed.times, self.gram) > NOISE_Z


@dataclasses.dataclass(frozen=True, eq=False)
class Behind:
    """States behind gaps or noise.

    Attributes:
        observed: the fields.
        collapsed: observations on the modes.
        known: variance of their noise where it is held, relative to the weights of points.
        point_variance: known variance of each point, else None.
        outside: variance of what finer modes leave over, 0 where all of it is noise.
        is_quiet: whether the known variance only conditions the filter.
    """

    observed: Observed
    collapsed: Collapsed
    known: float | None
    point_variance: Array | None = None
    outside: float = 0.0
    notes: tuple[str, ...] = ()
    is_quiet: bool = False
    route = "closure filter"

    def fit(self, terms: Any, words: Mapping[str, Any]) -> SemilinearFit:
        """Fit of these terms."""
        words = {"observation_variance": self.known, **words}
        with _without_warnings():
            return fit_filtered(self.collapsed, self.observed.domain, terms, **words)


Sight = States | Behind


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """A fit that is tried says nothing; the law of the fit that is kept does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpdeLawWarning)
        yield


def look(
    observed: Observed, n_modes: int, model: Model, terms: Any, words: Mapping[str, Any]
) -> tuple[Sight, SemilinearFit]:
    """How the fields are seen, and the fit of the terms that decided it."""
    if not isinstance(model.known_variance, np.ndarray):
        observed = observed.where_seen()
    tried = _tried(observed, n_modes, model, terms, words)
    if "scheme" in words:
        return _complete(tried, str(words["scheme"]))
    if tried is not None and (model.noise_word == "none" or not tried[0].shows_noise(tried[1])):
        return tried
    behind = _behind(observed, n_modes, model)
    try:
        return behind, behind.fit(terms, words)
    except ConvergenceError:
        if tried is None:
            raise
        return tried  # so little noise that its variance ran off to zero


def _complete(
    tried: tuple[States, SemilinearFit] | None, scheme: str
) -> tuple[States, SemilinearFit]:
    """Fields of a scheme are seen at each of its steps, without noise: it has no steps between."""
    if tried is None:
        expected = f"complete fields without noise for scheme={scheme!r}, one for each of its steps"
        fix = "leave scheme out: the fields then follow the equation"
        raise DataError("data", expected=expected, got="gaps, noise or few points", fix=fix)
    return tried


def _tried(
    observed: Observed, n_modes: int, model: Model, terms: Any, words: Mapping[str, Any]
) -> tuple[States, SemilinearFit] | None:
    """Fit of rows as states; None where they are not, or where noise may be why there is none."""
    states = states_of(observed, n_modes) if model.noise_word in ("auto", "none") else None
    if states is None:
        return None
    try:
        return states, states.fit(terms, words)
    except ConvergenceError:
        if model.noise_word == "none" or states.is_held:
            raise
        return None


def states_of(observed: Observed, n_modes: int) -> States | None:
    """Rows as states, or None where some row leaves modes open."""
    statistics = statistics_of(observed, n_modes)
    if statistics is not None:
        s = statistics
        check_change((s.square[1:] - 2.0 * s.cross + s.square[:-1]).max(), s.square.max())
        phi = observed.basis(n_modes)
        operator = np.linalg.pinv(phi).T
        c = np.concatenate([chunk @ operator for chunk in observed.chunks()])
        spare = int(s.n_values) - c.size
        left = _left(s.outside, spare, s.energy)
        return States(observed, c, (phi**2).sum(0), left, spare > 0 and not left, s)
    values = np.asarray(observed.values)
    observed.check_change()
    collapsed = collapse(values, observed.times, observed.basis(n_modes))
    c = np.full((*values.shape[:2], n_modes), np.nan)
    for block in collapsed.blocks:
        seen, whole = _rows(block.gram)
        if (seen & ~whole).any():
            return None
        rows = np.broadcast_to(whole, (len(whole), len(block.paths)))
        c[block.paths] = np.where(rows[:, None], block.estimate, np.nan).transpose(2, 0, 1)
    spare = collapsed.n_values - np.isfinite(c).sum()
    outside = _left(collapsed.misfit, spare, float(np.nansum(values**2)))
    return States(observed, c, mean_gram(collapsed), outside, spare > 0 and not outside, None)


def _left(misfit: float, spare: float, energy: float) -> float:
    """Variance of what the modes leave over."""
    return float(misfit / spare) if spare > 0 and misfit > ROUNDING * energy else 0.0


def _rows(gram: Array) -> tuple[Array, Array]:
    """Which rows observe anything, and which determine all modes; (T, B) each."""
    if gram.ndim == 3:
        return np.any(gram > 0, axis=1), np.all(gram > 0, axis=1)
    values = np.linalg.eigvalsh(np.moveaxis(gram, -1, 1))
    largest = values[..., -1]
    return largest > 0, values[..., 0] > DETERMINED * np.maximum(largest, 1e-300)


def noise_score(fit: SemilinearFit, c: Array, times: Array, gram: Array) -> float:
    """Normal score for noise in the rows, at a fit that has none."""
    data, closure = transitions(c, times), fit.layout.closure(fit.x)
    data = data.take(np.arange(min(len(data.dt), TESTED)))
    z = transition_innovations(closure, data, fit.diagnostics["n_steps"])
    follows = (data.before[1:] == data.after[:-1]).all(1)
    decay = closure.rates * float(np.median(data.dt))
    omega = closure.noise * np.median(data.dt) * decay_mean(2.0 * decay)
    weight = np.exp(-np.clip(decay, -1.0, 50.0)) / (gram * omega)
    s = -(z[1:] * z[:-1] * weight).sum(1)[follows]
    return float(s.sum() / np.sqrt((s**2).sum())) if s.any() else 0.0


def _behind(observed: Observed, n_modes: int, model: Model) -> Behind:
    values, known = np.asarray(observed.values), model.known_variance
    weights, variance = None, None
    observed.check_change()
    if isinstance(known, np.ndarray):
        variance, weights, known = known, point_weights(known, len(observed.points)), 1.0
    basis, products = observed.basis(n_modes), observed.products(n_modes)
    collapsed = collapse(values, observed.times, basis, weights, products)
    _check_coupled(collapsed)
    energy = float(np.nanmean(values**2))
    if known == 0.0:
        return Behind(observed, collapsed, WORKING_VARIANCE * energy, is_quiet=True)
    spare = collapsed.n_values - n_states(collapsed)
    if known is not None or spare <= 0:
        return Behind(observed, collapsed, known, variance)
    if model.noise_word == "auto" and collapsed.misfit <= ROUNDING * energy * collapsed.n_values:
        return Behind(observed, collapsed, WORKING_VARIANCE * energy, is_quiet=True)
    correlation, _ = residual_correlation(observed, basis)
    if correlation <= CORRELATED:
        return Behind(observed, collapsed, None)
    outside = collapsed.misfit / spare
    return Behind(observed, _inside(collapsed), None, None, outside, (FINER.format(correlation),))


def _inside(collapsed: Collapsed) -> Collapsed:
    """The same without what the modes leave over: only numbers that tell of the states."""
    blocks = []
    for block in collapsed.blocks:
        n = np.broadcast_to((gram_diagonal(block) > 0).sum((0, 1)), len(block.paths))
        none = np.zeros(len(block.paths))
        blocks.append(block._replace(misfit=none, n_values=n.astype(float)))
    return collapsed._replace(blocks=tuple(blocks))


def _check_coupled(collapsed: Collapsed) -> None:
    if collapsed.decoupled:
        expected = "few enough modes for gaps that differ from path to path"
        got = f"{collapsed.n_modes} modes and {collapsed.n_paths} paths"
        fix = "use fewer modes, or fewer paths"
        raise DataError("n_modes", expected=expected, got=got, fix=fix)
