"""Two fields at once: FitzHugh-Nagumo by the closure, Gray-Scott by the one-pass estimator.

Run ``python -m benchmarks.bench_fields run fitzhugh_nagumo --sets 20`` for one case (``list`` names
them) and ``python -m benchmarks.bench_fields report`` for the table. A run appends one line per
data set to ``<work>/<case>.jsonl`` and goes on where it stopped; every data set has its own seed.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks._recovery import Cases, Record, compare, coverage, main, timed

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip

AHEAD = 10

#: All monomials up to degree 3.
MONOMIALS = ("1", "u", "v", "u^2", "u v", "v^2", "u^3", "u^2 v", "u v^2", "v^3")
LIBRARY = {"u": MONOMIALS, "v": MONOMIALS}
EXCITABLE = {"u": ("u", "u^3", "v"), "v": ("1", "u", "v")}


def record(law: sl.Law, truth: dict[str, float], clock: Record) -> Record:
    """One line of results."""
    info = law.info
    found = compare(truth, *(info[k] for k in ("estimates", "standard_errors", "robust_errors")))
    return found | clock | {k: info["closure"][k] for k in ("rate_dt", "step_shift")}


def excitable(seed: int, recovery: float, fixed: dict[str, float]) -> Record:
    """15 modes of each field, 10 paths of 100 steps of 0.1; ten more steps are forecast."""
    noise = sl.PowerLaw(1.5, recovery) if recovery else sl.White(0.0)
    e = sl.catalogue.fitzhugh_nagumo(15, recovery_noise=noise, times=0.1 * np.arange(101.0 + AHEAD))
    fields = sl.simulate(e, 10, seed=seed)
    seen, later = fields.isel(time=slice(None, -AHEAD)), fields.isel(time=[-1])
    law, clock = timed(lambda: sl.fit(seen, e.domain.domain, 15, terms=EXCITABLE, fixed=fixed))
    truth = {"nu u": 0.1, "nu v": 0.0, "scale u": 0.1, "exponent u": 1.5}
    truth |= {**e.terms, "scale v": recovery, "exponent v": 1.5}
    return record(law, truth, clock) | {"forecast": forecast(law, seen, later)}


def forecast(law: sl.Law, seen: Any, later: Any) -> Record:
    """Coverage at 50, 80 and 95 %, ten steps ahead: by the closure, and by an ensemble."""
    found = law.forecast(seen, later["time"].values, n_samples=200, seed=1)
    draws = found["sample"].transpose("draw", *later.dims).values
    return coverage(later.values, found["mean"].values, found["std_field"].values, draws)


def point_slider(seed: int) -> Record:
    """Gray-Scott, 64 x 64 points, 797 modes of each field, 200 steps of 0.5; 10 terms a field."""
    e = sl.catalogue.gray_scott(times=np.arange(0.0, 100.5, 0.5))
    fields = sl.simulate(e, 1, seed=seed)
    found, clock = timed(lambda: sl.discover(fields, e.domain.domain, 797, LIBRARY, bootstrap=0))
    truth = {"nu u": 0.16, "nu v": 0.08, "scale u": 1e-4, "scale v": 1e-4}
    truth |= {"exponent u": 0.0, "exponent v": 0.0, **e.terms}
    truth = {name: 0.0 for name in found.terms} | truth
    terms = {"chosen": sorted(found.terms), "true_terms": sorted(e.terms)}
    return record(found.law, truth, clock) | terms


CASES: Cases = {
    "fitzhugh_nagumo": (lambda seed: excitable(seed, 0.02, {}), 20),
    "fitzhugh_nagumo_quiet_recovery": (
        lambda seed: excitable(seed, 0.0, {"nu v": 0.0, "scale v": 0.0}), 10,
    ),
    "gray_scott": (point_slider, 10),
}  # fmt: skip


if __name__ == "__main__":
    columns = ["data sets", "right terms", "bias in standard errors", "largest", "coverage [%]",
               "robust [%]", "closure forecast", "ensemble forecast", "rate dt", "cpu [s]",
               "failed", "code"]  # fmt: skip
    title = "Two fields at once: bias, coverage, terms and time"
    sys.exit(main("fields", title, columns, CASES, offset=200_000))
