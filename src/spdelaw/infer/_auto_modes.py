"""How many modes: the number with the least Bayesian information criterion.

Every candidate explains all observed values, with white noise for what its modes leave over,
so the criteria compare like with like: ``BIC = -2 log p + k log(number of rows)``.
"""

from __future__ import annotations

import functools

import numpy as np

from spdelaw.data import Observed
from spdelaw.errors import ConvergenceError
from spdelaw.infer._estimate import Decision
from spdelaw.infer._model import Model
from spdelaw.infer._moment_estimates import from_coefficients
from spdelaw.infer._nuisance import first_paths, likeliest_total
from spdelaw.infer._parametrisation import Parametrisation
from spdelaw.infer._parametrise import parametrise, starting_vector
from spdelaw.infer._posterior import estimate, log_posterior
from spdelaw.model import Collapsed, collapse, evaluate_likelihood

Array = np.ndarray
#: Coordinates of a law by group.
Parameters = dict[str, Array]

#: Paths that the choice looks at, and the most modes it considers.
PATHS, MOST = 40, 32
#: The most with gaps, and of coupled modes; rows of data for each number in a row of their drift.
MOST_GAPPY, MOST_COUPLED, ROWS = 20, 12, 10
#: Times of a record with gaps that the choice looks at.
TIMES_GAPPY = 400
#: Share of a mode, relative to the largest, that those before it do not hold: less is none.
ALIKE = 1e-10
#: Energy beyond the modes, relative to the field's, that counts as none.
NOTHING_LEFT = 1e-16


def choose_modes(observed: Observed, couples: bool = False) -> tuple[int, str]:
    """Number of modes by BIC on the first paths, and a sentence that says so.

    Args:
        observed: the data.
        couples: whether the modes will be coupled. They are judged as single ones all the same, but
            are no more than the data can tell the couplings of.
    """
    values, times = first_paths(observed, PATHS)
    is_gappy = bool(np.isnan(values).any())
    if is_gappy:
        values, times = values[:, :TIMES_GAPPY], times[..., :TIMES_GAPPY]
    per_row = int((~np.isnan(values)).sum(-1).max())
    # Points where every mode vanishes, such as Dirichlet ends, carry none.
    wide = observed.basis(observed.domain.available(min(MOST + 1, len(observed.points))))
    apart = min(int(np.linalg.matrix_rank(wide)) - 1, _told_apart(wide))
    most = min(MOST, max(min(per_row - 1, apart), 1))
    most = min(most, MOST_GAPPY) if is_gappy else most
    if couples:
        rows = observed.n_paths * observed.times.shape[-1]
        most = min(most, MOST_COUPLED, max(rows // ROWS, 1))
    energy = float(np.nansum(values**2))

    @functools.cache
    def collapsed(n: int) -> Collapsed:
        return collapse(values, times, observed.basis(n))

    for n in range(1, most + 1):
        if collapsed(n).misfit <= NOTHING_LEFT * energy:
            return n, f"{n} modes chosen: they hold the fields to rounding"
    laws: dict[int, Parameters] = {}
    best = likeliest_total(lambda n: -_bic(observed, collapsed(n), laws), 1, most)
    sentence = f"{best} modes chosen by BIC on {len(values)} paths among 1 to {most}"
    if best == most:
        sentence += "; the criterion would take more"
    return best, sentence


def _told_apart(basis: Array) -> int:
    """How many of the first modes the points tell apart.

    Two levels of a box do not tell its first modes apart, however many points there are.
    """
    diagonal = np.abs(np.diag(np.linalg.qr(basis, mode="r")))
    alike = diagonal < ALIKE * diagonal.max()
    return int(alike.argmax()) if alike.any() else len(diagonal)


def _bic(observed: Observed, collapsed: Collapsed, laws: dict[int, Parameters]) -> float:
    """The criterion of as many modes as are collapsed; their law joins ``laws``."""
    n = collapsed.n_modes
    n_rows = collapsed.n_paths * len(collapsed.blocks[0].times)
    variance = max(collapsed.misfit / max(collapsed.n_values - n * n_rows, 1.0), 1e-300)
    moments = from_coefficients(collapsed, variance)
    kind = Decision("deterministic", {})
    free = parametrise(Model(), observed.domain, n, kind, moments, known_variance=None)
    first = np.concatenate([block.estimate[0] for block in collapsed.blocks], axis=1).mean(1)
    moments = moments._replace(mean=first)
    evaluate = functools.partial(evaluate_likelihood, collapsed)
    start = _continued(free, starting_vector(free, moments), laws)
    try:
        found = estimate(log_posterior(free, evaluate, moments, Model(), start), rough=True)
    except ConvergenceError:
        return np.inf
    laws[n] = {name: found.full[where] for name, where in free.slices.items()}
    return -2.0 * found.log_likelihood + found.n_free * np.log(n_rows)


def _continued(free: Parametrisation, start: Array, laws: dict[int, Parameters]) -> Array:
    """A start in which the first modes are those of the nearest law that is known."""
    n = free.n_modes
    if laws:
        for name, known in laws[min(laws, key=lambda m: abs(m - n))].items():
            own = start[free.slices[name]]  # a view
            own[: len(known)] = known[: len(own)]
    return start
