"""How many modes: the number with the least Bayesian information criterion.

Every candidate explains all observed values, with white noise for what its modes leave over,
so the criteria compare like with like: ``BIC = -2 log p + k log(number of rows)``.
"""

from __future__ import annotations

import numpy as np

from spdelaw.data import Observed
from spdelaw.errors import ConvergenceError
from spdelaw.infer._coordinates import Single
from spdelaw.infer._model import Model
from spdelaw.infer._moment_estimates import from_coefficients
from spdelaw.infer._nuisance import likeliest_total
from spdelaw.infer._parametrisation import Parametrisation
from spdelaw.infer._posterior import estimate, log_posterior
from spdelaw.model import Collapsed, Evaluation, StateSpace, collapse, evaluate_likelihood

Array = np.ndarray

#: Paths that the choice looks at, and the most modes it considers.
PATHS, MOST = 40, 32
#: Energy beyond the modes, relative to the field's, that counts as none.
NOTHING_LEFT = 1e-16


def choose_modes(observed: Observed) -> tuple[int, str]:
    """Number of modes by BIC on the first paths, and a sentence that says so."""
    values = observed.first(PATHS)
    times = observed.times[..., : values.shape[1]]
    times = times if times.ndim == 1 else times[:PATHS]
    per_row = int((~np.isnan(values)).sum(-1).max())
    # Points where every mode vanishes, such as Dirichlet ends, carry none.
    wide = observed.basis(observed.domain.available(min(MOST + 1, len(observed.points))))
    most = min(MOST, max(min(per_row, int(np.linalg.matrix_rank(wide))) - 1, 1))
    energy = float(np.nansum(values**2))
    collapses: dict[int, Collapsed] = {}

    def collapsed(n: int) -> Collapsed:
        if n not in collapses:
            collapses[n] = collapse(values, times, observed.basis(n))
        return collapses[n]

    for n in range(1, most + 1):
        if collapsed(n).misfit <= NOTHING_LEFT * energy:
            return n, f"{n} modes chosen: they hold the fields to rounding"
    best = likeliest_total(lambda n: -_bic(collapsed(n), times), 1, most)
    sentence = f"{best} modes chosen by BIC on {len(values)} paths among 1 to {most}"
    if best == most:
        sentence += "; the criterion would take more"
    return best, sentence


def _bic(collapsed: Collapsed, times: Array) -> float:
    n = collapsed.n_modes
    n_rows = collapsed.n_paths * times.shape[-1]
    variance = max(collapsed.misfit / max(collapsed.n_values - n * n_rows, 1.0), 1e-300)
    moments = from_coefficients(collapsed, variance)
    parts = {
        "drift": Single("eigenvalue", n),
        "noise": Single("noise_variance", n),
        "observation": Single("observation_std", None, power=2),
        "initial_mean": Single("initial_mean", n, power=0),
    }
    free = Parametrisation(parts, "deterministic", np.zeros(n))
    first = np.concatenate([block.estimate[0] for block in collapsed.blocks], axis=1).mean(1)
    moments = moments._replace(mean=first)

    def evaluate(p: StateSpace) -> Evaluation:
        return evaluate_likelihood(collapsed, p)

    try:
        found = estimate(log_posterior(free, evaluate, moments, Model()), polish=False)
    except ConvergenceError:
        return np.inf
    return -2.0 * found.log_likelihood + found.n_free * np.log(n_rows)
