"""Two published recipes of fields that follow a scheme: how few paths their laws need.

Mathpati et al. (arXiv:2306.15873): Allen-Cahn and Nagumo equations on [0, 20] with insulated ends,
65 points, finite differences, semi-implicit Euler steps, noise with covariance exp(-|x - y|). From
2,000 paths their variational Bayes reports a coefficient error (Euclidean, of u_xx and the true
terms) of 0.056 and 0.033. Run ``python -m benchmarks.bench_semilinear_recipes run`` and ``report``;
a run appends and goes on where it stopped.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from benchmarks._recovery import Cases, Record, compare, main, timed

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.processes.terms import bind  # isort: skip
from spdelaw.infer.semilinear.fits import SemilinearFit, fit_transitions
from spdelaw.infer.semilinear.layout import Layout

from spdelaw.infer.discovery import select  # isort: skip
from spdelaw.statespace.transitions import transitions  # isort: skip

LENGTH, CELLS = 20.0, 64
DOMAIN = sl.Interval(0.0, LENGTH, "neumann")
GRID = DOMAIN.grid(CELLS + 1)
LIBRARY = ("1", "u", "u^2", "u^3")
PATHS = 100
RECIPES: dict[str, dict[str, Any]] = {
    "allen_cahn": {
        "steps": 400, "start": np.sin, "terms": {"u": 1.0, "u^3": -1.0},
    },
    "nagumo": {
        "steps": 500, "start": lambda x: 4.0 * np.cos(x),
        "terms": {"u": 0.5, "u^2": 0.5, "u^3": -1.0},
    },
}  # fmt: skip


def simulate(name: str, n_paths: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Fields (path, time, point) and times of a recipe, in its own finite differences."""
    recipe = RECIPES[name]
    n, h = recipe["steps"], LENGTH / CELLS
    dt = 1.0 / n
    second = np.diag(np.full(CELLS + 1, -2.0)) + np.eye(CELLS + 1, k=1) + np.eye(CELLS + 1, k=-1)
    second[0, 1] = second[-1, -2] = 2.0
    implicit = np.linalg.inv(np.eye(CELLS + 1) - dt * second / h**2)
    root = np.linalg.cholesky(np.exp(-np.abs(GRID[:, None] - GRID[None, :])))
    generator = np.random.default_rng(seed)
    out = np.empty((n_paths, n + 1, CELLS + 1))
    out[:, 0] = recipe["start"](GRID)
    for k in range(n):
        u = out[:, k]
        reaction = sum(c * u ** int(t[2:] or 1) for t, c in recipe["terms"].items())
        kick = np.sqrt(dt) * generator.standard_normal(u.shape) @ root.T
        out[:, k + 1] = (u + dt * reaction + kick) @ implicit.T
    return out, np.arange(n + 1) * dt


def form(terms: tuple[str, ...]) -> Layout:
    """Parameters of a law on the recipe's own grid: nu, the terms, one noise variance per mode."""
    n = CELLS + 1
    mu = (2.0 * CELLS / LENGTH * np.sin(0.5 * np.pi * np.arange(n) / CELLS)) ** 2
    reaction = bind(terms, DOMAIN, n, (GRID, DOMAIN.grid_weights(GRID)))
    names = ("nu", "kappa", *reaction.names, *(f"q_{k}" for k in range(1, n + 1)))
    return Layout(mu, reaction, "diagonal", names, {"kappa": 0.0})


def coefficients(fields: np.ndarray) -> np.ndarray:
    """All 65 cosines of the grid; the last one has twice the norm there, and is what it is."""
    h = DOMAIN.eigenfunctions(GRID, CELLS + 1)
    return fields @ np.linalg.inv(h).T


def one(name: str, seed: int) -> Record:
    """The coefficients of the true terms from one set of paths, and the terms it chooses."""
    fields, times = simulate(name, PATHS, seed)
    terms = RECIPES[name]["terms"]

    def fitted(chosen: tuple[str, ...]) -> SemilinearFit:
        return fit_transitions(form(chosen), data, scheme="semi_implicit")

    data = transitions(coefficients(fields), times)
    fit, clock = timed(lambda: fitted(tuple(terms)))
    (found, *_), choice = timed(lambda: select(fitted(LIBRARY), fitted, bootstrap=0))
    truth = {"nu": 1.0, **terms}
    return compare(truth, fit.values, fit.standard_errors, fit.robust_errors) | clock | {
        "choice_cpu": choice["cpu"], "chosen": sorted(found.layout.terms),
        "true_terms": sorted(terms),
    }  # fmt: skip


CASES: Cases = {f"mathpati_{name}": (partial(one, name), 100) for name in RECIPES}
LEGEND = (
    f"{PATHS} paths each, against 2,000 in the publication, whose errors are 0.056 (Allen-Cahn) "
    "and 0.033 (Nagumo): distance of the coefficients of u_xx and the true terms from the truth, "
    f"root of the mean square over data sets. Terms chosen from {', '.join(LIBRARY)}. Bias in "
    "standard errors, coverage of 95 % intervals (robust: with the errors of the sandwich), median "
    "processor time of the fit and of the choice of terms. Code: the commit whose package made "
    "the row."
)


if __name__ == "__main__":
    columns = ["data sets", "error", "right terms", "bias in standard errors", "largest",
               "coverage [%]", "robust [%]", "cpu [s]", "choice, cpu [s]", "failed",
               "code"]  # fmt: skip
    title = "Published recipes that follow a scheme"
    sys.exit(main("semilinear_recipes", title, columns, CASES, offset=0, legend=LEGEND))
