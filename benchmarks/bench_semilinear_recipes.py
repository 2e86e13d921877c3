"""Two published recipes of fields that follow a scheme: how few paths their laws need.

Mathpati et al. (arXiv:2306.15873): Allen-Cahn and Nagumo equations on [0, 20] with insulated ends,
65 points, finite differences, semi-implicit Euler steps, noise with covariance exp(-|x - y|). From
2,000 paths their variational Bayes reports a coefficient error (Euclidean, of u_xx and the true
terms) of 0.056 and 0.033. Run ``python -m benchmarks.bench_semilinear_recipes``.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from benchmarks._timing import table, versions, write_results

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.equation import bind  # isort: skip
from spdelaw.infer.semilinear import Layout, fit_transitions, select  # isort: skip
from spdelaw.model import Transitions, transitions  # isort: skip

COMMAND = "python -m benchmarks.bench_semilinear_recipes"
LENGTH, CELLS = 20.0, 64
DOMAIN = sl.Interval(0.0, LENGTH, "neumann")
GRID = DOMAIN.grid(CELLS + 1)
LIBRARY = ("1", "u", "u^2", "u^3")
RECIPES: dict[str, dict[str, Any]] = {
    "Allen-Cahn": {
        "steps": 400, "start": np.sin, "terms": {"u": 1.0, "u^3": -1.0}, "theirs": 0.0561,
    },
    "Nagumo": {
        "steps": 500, "start": lambda x: 4.0 * np.cos(x),
        "terms": {"u": 0.5, "u^2": 0.5, "u^3": -1.0}, "theirs": 0.0328,
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


def one(name: str, n_paths: int, seed: int) -> dict[str, Any]:
    """Error of the coefficients, support and seconds from one set of paths."""
    fields, times = simulate(name, n_paths, seed)
    truth = {"nu": 1.0, **RECIPES[name]["terms"]}
    clock = time.perf_counter(), time.process_time()
    data = transitions(coefficients(fields), times)
    fit = fit_transitions(form(tuple(RECIPES[name]["terms"])), data, scheme="semi_implicit")
    wall, cpu = time.perf_counter() - clock[0], time.process_time() - clock[1]
    found = select(_fit(LIBRARY, data), lambda terms: _fit(terms, data), bootstrap=0)
    error = np.sqrt(sum((fit.values[k] - v) ** 2 for k, v in truth.items()))
    z = {k: (fit.values[k] - v) / fit.robust_errors[k] for k, v in truth.items()}
    return {
        "error": float(error), "z": z, "exact": set(found.terms) == set(RECIPES[name]["terms"]),
        "terms": found.terms, "seconds": wall, "cpu": cpu,
    }  # fmt: skip


def _fit(terms: tuple[str, ...], data: Transitions) -> Any:
    return fit_transitions(form(terms), data, scheme="semi_implicit")


def main(n_paths: int = 100, runs: int = 100) -> int:
    """Both recipes; print and write the table."""
    rows, found = [], {}
    for name, recipe in RECIPES.items():
        results = [one(name, n_paths, seed) for seed in range(runs)]
        errors = np.array([r["error"] for r in results])
        covered = np.mean([abs(z) < 1.96 for r in results for z in r["z"].values()])
        exact, seconds = (
            sum(r["exact"] for r in results),
            np.median([r["seconds"] for r in results]),
        )
        cpu = np.median([r["cpu"] for r in results])
        found[name] = {
            "error": float(np.sqrt((errors**2).mean())), "theirs": recipe["theirs"], "exact": exact,
            "runs": runs, "paths": n_paths, "coverage": float(covered), "seconds": float(seconds),
            "cpu": float(cpu),
        }  # fmt: skip
        rows.append(
            [name, f"{found[name]['error']:.3f}", f"{recipe['theirs']:.3f}", f"{exact} of {runs}",
             f"{100 * covered:.0f}", f"{seconds:.1f}", f"{cpu:.1f}"]
        )  # fmt: skip
    text = "\n".join(
        [
            "# Published recipes that follow a scheme",
            "",
            f"{n_paths} paths each, against 2,000 in the publication; error of the coefficients of "
            "u_xx and the true terms (root of the mean square over runs), support chosen from "
            f"{', '.join(LIBRARY)}, coverage of 95 % intervals (sandwich), time of one fit.",
            "",
            table(["recipe", "error", "published", "right support", "coverage [%]", "wall [s]",
                   "cpu [s]"], rows),
            "",
            f"Command: `{COMMAND} {n_paths} {runs}`. Versions: "
            f"{', '.join(f'{k} {v}' for k, v in versions('numpy', 'scipy').items())}.",
            "",
        ]
    )  # fmt: skip
    write_results("semilinear_recipes", {"command": f"{COMMAND} {n_paths} {runs}", **found}, text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:])))
