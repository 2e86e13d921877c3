"""What the first states of a bistable field do to its filter, from scores at the truth.

With the mean score ``s`` of a path, its covariance J and the information H of a path, an estimate
from n paths is off by ``H^-1 s`` and has the covariance ``H^-1 J H^-1 / n`` to first order, so
hundreds of paths tell bias and spread without one fit. Allen-Cahn, 9 modes, 16 points, 30 % gaps,
noise 0.1, 60 steps of 0.1, seen from a Gaussian start on or from later on, when most places are in
a well; terms of the likelihood before ``burn`` do not count. Run
``python -m benchmarks.bench_semilinear_start``.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks._timing import table, versions, write_results

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.processes.specification import InitialState  # isort: skip
from spdelaw.infer.semilinear.layout import Layout, layout  # isort: skip
from spdelaw.statespace.collapse import Collapsed, collapse

from spdelaw.statespace.filter import filter_scores  # isort: skip

COMMAND = "python -m benchmarks.bench_semilinear_start"
N, POINTS, STEPS, DT, WELLS = 9, 16, 60, 0.1, 60
#: Paths of the data set whose standard errors are the unit.
PATHS = 12
BURNS = (0.0, 0.7, 1.5)
#: Differences of scores are taken over this part of a standard error.
PART = 0.3


def data(n_paths: int, skip: int) -> tuple[sl.Semilinear, Collapsed, InitialState]:
    """Observations from step ``skip`` on, and a start with the variances of all times."""
    start = sl.Gaussian(0.0, 1.0 / np.arange(1.0, N + 1.0) ** 2)
    e = sl.catalogue.allen_cahn(N, initial=start, times=DT * np.arange(skip + STEPS + 1))
    x = e.domain.grid(POINTS)
    fields = sl.simulate(e, n_paths, grid=x, seed=21, observation_std=0.1)[:, skip:]
    values = sl.mask(fields, fraction=0.3, seed=21).values
    h = e.domain.eigenfunctions(x, N)
    rough = np.where(np.isnan(values), 0.0, values) @ np.linalg.pinv(h).T / 0.7
    prior = InitialState("gaussian", np.zeros(N), (rough**2).mean((0, 1)))
    return e, collapse(values, DT * np.arange(STEPS + 1), h), prior


def scores(form: Layout, x: np.ndarray, seen: Collapsed, burn: float) -> np.ndarray:
    """Score of each path at the free parameters; (P, n_free)."""
    full = form.vector(dict.fromkeys(form.names, 1.0))
    full[form.free] = x
    space = form.state_space(full)
    found = [filter_scores(block, space, burn=burn).by for block in seen.blocks]
    return np.concatenate([form.scores(full, by) for by in found])[:, form.free]


def first_order(form: Layout, x: np.ndarray, seen: Collapsed, burn: float) -> Any:
    """Bias in standard errors of `PATHS` paths, its Monte-Carlo error, and spread over these."""
    own = scores(form, x, seen, burn)
    spread = np.cov(own.T)
    width = PART * np.sqrt(np.diag(np.linalg.inv(spread)) / len(own))
    rows = [
        (scores(form, x - d, seen, burn) - scores(form, x + d, seen, burn)).mean(0)
        for d in np.diag(width)
    ]
    information = np.array(rows) / (2.0 * width[:, None])
    covariance = np.linalg.inv(0.5 * (information + information.T))
    error = np.sqrt(np.diag(covariance) / PATHS)
    true = np.diag(covariance @ spread @ covariance)
    ratio = np.sqrt(true / np.diag(covariance))
    return covariance @ own.mean(0) / error, np.sqrt(true / len(own)) / error, ratio


def main(n_paths: int = 300) -> int:
    """Both starts, all burn-ins; print and write the table."""
    rows, found = [], []
    for name, skip in (("Gaussian", 0), ("in the wells", WELLS)):
        e, seen, prior = data(n_paths, skip)
        form = layout(e.domain, N, list(e.terms), prior=prior, observation_variance=None)
        truth = {"nu": 0.05, "scale": 0.1, "exponent": 1.5, "observation_std": 0.1}
        x = form.vector({**truth, **e.terms})[form.free]
        for burn in BURNS:
            bias, error, ratio = first_order(form, x, seen, burn)
            shown = ", ".join(f"{k} {b:+.2f}" for k, b in zip(form.free_names, bias, strict=True))
            rows.append([name, f"{burn}", shown, f"{error.max():.2f}",
                         f"{ratio.min():.2f} to {ratio.max():.2f}"])  # fmt: skip
            found.append({"start": name, "burn": burn, "bias": bias.tolist(),
                          "error": error.tolist(), "spread": ratio.tolist()})  # fmt: skip
    header = ["start", "burn", "bias in standard errors", "its error", "spread"]
    text = "\n".join(
        ["# First states of a bistable field behind gaps and noise", "",
         f"First-order bias of {PATHS} paths and their spread over the standard errors that the "
         f"information promises, from scores of {n_paths} paths at the truth.", "",
         table(header, rows), "", f"Command: `{COMMAND} {n_paths}`. Versions: "
         f"{', '.join(f'{k} {v}' for k, v in versions('numpy', 'scipy').items())}.", ""]
    )  # fmt: skip
    write_results("semilinear_start", {"command": f"{COMMAND} {n_paths}", "rows": found}, text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:])))
