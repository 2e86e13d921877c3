"""Recovery of semilinear laws: bias, coverage and time over many data sets.

Run ``python -m benchmarks.bench_semilinear run allen_cahn_0.1 --sets 200`` for one case (``list``
names them) and ``python -m benchmarks.bench_semilinear report`` for the table. A run appends one
line per data set to ``<work>/<case>.jsonl`` and goes on where it stopped; every data set has a
seed of its own.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks._recovery import Cases, Record, compare, coverage, main, timed

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.processes.semilinear import Reacting

from spdelaw.processes.closure import advance  # isort: skip
from spdelaw.infer.semilinear.fits import SemilinearFit

from spdelaw.infer.semilinear.fits import fit_complete, fit_filtered  # isort: skip
from spdelaw.statespace.collapse import collapse  # isort: skip


def spread(n_modes: int, scale: float = 1.0) -> sl.Gaussian:
    """Random starts with fronts: variance ``scale / n^2`` of coefficient n."""
    return sl.Gaussian(0.0, scale / np.arange(1.0, n_modes + 1.0) ** 2)


def coefficients(equation: sl.Semilinear, n_paths: int, seed: int) -> np.ndarray:
    """Coefficients (path, time, mode) of simulated fields."""
    fields = sl.simulate(equation, n_paths, seed=seed)
    return equation.domain.analyse(fields, equation.n_modes, method="dense").values


def record(fit: SemilinearFit, truth: dict[str, float], clock: Record) -> Record:
    """One line of results."""
    found = compare(truth, fit.values, fit.standard_errors, fit.robust_errors)
    more = {k: v for k, v in fit.diagnostics.items() if isinstance(v, (bool, int, float))}
    return found | clock | more


def complete(
    equation: sl.Semilinear, n_paths: int, seed: int, truth: dict[str, float], **words: Any
) -> Record:
    """Fit of complete coefficients; the last ten times are left out and, in some sets, forecast."""
    c, ahead = coefficients(equation, n_paths, seed), 10
    seen, times = c[:, :-ahead], equation.times[:-ahead]
    fit, clock = timed(
        lambda: fit_complete(seen, times, equation.domain, list(equation.terms), **words)
    )
    out = record(fit, truth, clock)
    return out | ({"forecast": forecast(fit, equation, c, ahead)} if is_forecast(seed) else {})


def is_forecast(seed: int) -> bool:
    """The first ten sets of a case and every tenth: a forecast costs as much as a fit."""
    return seed % 1000 < 10 or seed % 10 == 0


def forecast(fit: SemilinearFit, e: sl.Semilinear, c: np.ndarray, ahead: int = 10) -> Record:
    """Coverage at 50, 80 and 95 % of field values ``ahead`` steps after the last one used.

    Once by the closure and once by an ensemble; both from the estimated law.
    """
    found = fit.layout.closure(fit.estimate.full)
    law = Reacting(e.domain, tuple(e.terms), found.coefficients, found.rates, found.noise)
    h = e.domain.eigenfunctions(e.default_grid(), e.n_modes)
    now, later, dt = c[:, -1 - ahead], c[:, -1] @ h.T, float(e.times[1] - e.times[0])
    step, _ = advance(law.closure, now, None, ahead * dt, 2 * ahead)
    mean, std = step.mean @ h.T, np.sqrt(np.einsum("xn,bnm,xm->bx", h, step.covariance, h))
    draws = np.tile(now, (400, 1, 1)).reshape(-1, e.n_modes)
    draws = law.sample(draws, 0.0, ahead * dt, np.random.default_rng(0), n_steps=4 * ahead)
    fields = (draws @ h.T).reshape(400, *later.shape)
    return coverage(later, mean, std, fields)


def allen_cahn(rate_dt: float, seed: int) -> Record:
    """31 modes (32 points), 20 paths of 100 steps; nu, a, b, scale and exponent."""
    e = sl.catalogue.allen_cahn(initial=spread(31), times=rate_dt * np.arange(111))
    return complete(e, 20, seed, _truth(e, nu=0.05, scale=0.1, exponent=1.5))


def allen_cahn_gaps(rate_dt: float, seed: int) -> Record:
    """The same fields with 30 % of the values missing and noise of 0.1; one parameter more."""
    e = sl.catalogue.allen_cahn(initial=spread(31), times=rate_dt * np.arange(101))
    fields = sl.simulate(e, 20, seed=seed, observation_std=0.1)
    values = sl.mask(fields, fraction=0.3, seed=seed).values
    h = e.domain.eigenfunctions(fields["x"].values, 31)
    truth = _truth(e, nu=0.05, scale=0.1, exponent=1.5, observation_std=0.1)
    fit, clock = timed(lambda: fit_filtered(collapse(values, e.times, h), e.domain, list(e.terms)))
    return record(fit, truth, clock)


def small_gaps(rate_dt: float, seed: int) -> Record:
    """9 modes on 16 points, 12 paths of 60 steps, gaps and noise as above, through `sl.fit`."""
    e = sl.catalogue.allen_cahn(9, initial=spread(9), times=rate_dt * np.arange(61))
    fields = sl.simulate(e, 12, grid=e.domain.grid(16), seed=seed, observation_std=0.1)
    seen = sl.mask(fields, fraction=0.3, seed=seed)
    law, clock = timed(lambda: sl.fit(seen, e.domain, 9, terms=tuple(e.terms)))
    truth = _truth(e, nu=0.05, scale=0.1, exponent=1.5, observation_std=0.1)
    info = law.info
    names = ("estimates", "standard_errors", "robust_errors")
    return compare(truth, *(info[name] for name in names)) | clock | info["closure"]


def _truth(e: sl.Semilinear, **more: float) -> dict[str, float]:
    return {**more, **e.terms}


def burgers(seed: int) -> Record:
    """15 modes, 10 paths of 100 steps of 0.1."""
    e = sl.catalogue.burgers(15, times=0.1 * np.arange(111), initial=spread(15, 0.3))
    truth = _truth(e, nu=0.1, kappa=0.1, scale=0.3, exponent=1.5)
    return complete(e, 10, seed, truth, fixed={"kappa": None})


def kpz(seed: int) -> Record:
    """15 modes, 10 paths of 100 steps of 0.1, with a free constant."""
    e = sl.catalogue.kpz(15, times=0.1 * np.arange(111), initial=spread(15, 0.3))
    e = sl.Semilinear(e.linear, {**e.terms, "1": 0.0})
    truth = _truth(e, nu=0.2, kappa=0.1, scale=0.3, exponent=1.5)
    return complete(e, 10, seed, truth, fixed={"kappa": None})


def fisher_kpp(seed: int) -> Record:
    """15 modes, 10 paths of 100 steps of 0.1."""
    e = sl.catalogue.fisher_kpp(15, times=0.1 * np.arange(111))
    return complete(e, 10, seed, _truth(e, nu=0.05, scale=0.0064, exponent=1.5))


def nagumo(seed: int) -> Record:
    """15 modes, 10 paths of 100 steps of 0.1."""
    e = sl.catalogue.nagumo(15, times=0.1 * np.arange(111))
    return complete(e, 10, seed, _truth(e, nu=0.05, scale=0.01, exponent=1.5))


def allen_cahn_2d(seed: int) -> Record:
    """37 modes of a square, 10 paths of 100 steps of 0.1."""
    e = sl.catalogue.allen_cahn_2d(37, times=0.1 * np.arange(111), initial=spread(37, 3.0))
    return complete(e, 10, seed, _truth(e, nu=0.05, scale=0.3, exponent=1.0))


CASES: Cases = {
    "allen_cahn_0.02": (lambda seed: allen_cahn(0.02, seed), 200),
    "allen_cahn_0.1": (lambda seed: allen_cahn(0.1, seed), 200),
    "allen_cahn_0.3": (lambda seed: allen_cahn(0.3, seed), 200),
    "allen_cahn_gaps_0.1": (lambda seed: allen_cahn_gaps(0.1, seed), 50),
    "small_gaps_0.1": (lambda seed: small_gaps(0.1, seed), 100),
    "burgers": (burgers, 10),
    "kpz": (kpz, 10),
    "fisher_kpp": (fisher_kpp, 10),
    "nagumo": (nagumo, 10),
    "allen_cahn_2d": (allen_cahn_2d, 10),
}


if __name__ == "__main__":
    columns = ["data sets", "bias in standard errors", "largest", "coverage [%]", "robust [%]",
               "closure forecast", "ensemble forecast", "wall [s]", "cpu [s]", "failed",
               "code"]  # fmt: skip
    title = "Semilinear laws: bias, coverage and time"
    sys.exit(main("semilinear", title, columns, CASES, offset=100_000))
