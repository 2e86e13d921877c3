"""Decisions of a fit on data made without what they look for, and with it.

    python -m benchmarks.calibration_decisions               # 1,000 or 200 data sets of every kind
    python -m benchmarks.calibration_decisions --nuisance 100 --mean 20 --coupled 60

Nuisance modes where there are none, and a mean where there is none, may be taken in 1 % of data
sets, and three Monte-Carlo errors more. Paths are Ornstein-Uhlenbeck modes on (0, pi), made here
without the package's simulator. The test for a mean stops where one Newton step predicts less than
0.6 of what is needed: each data set is also decided without that stop, and the decisions compared.
A mean of so many deviations of the first mode shows the power. Rows that are not run again, or that
rest on more data sets, stay as they were.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks._timing import RESULTS, current_commit, table, write_results

import numpy as np  # isort: skip
from scipy import linalg  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.data.observed import observe  # isort: skip
from spdelaw.infer.engines import mean as mean_module  # isort: skip
from spdelaw.infer.engines.design import make_design  # isort: skip
from spdelaw.infer.model import Model  # isort: skip

Array = np.ndarray

NAME, RATE = "calibration_decisions", 0.01
DOMAIN, POINTS = sl.Interval(0.0, np.pi), np.linspace(0.0, np.pi, 17)
#: Pattern of what is missing, share of it, paths and times.
SPARSE = (
    ("random", 0.3, 10, 31), ("random", 0.8, 10, 31), ("random", 0.9, 20, 31),
    ("sensors", 0.6, 10, 31), ("blocks", 0.4, 10, 31), ("random", 0.3, 1, 300),
)  # fmt: skip


class Slow(NamedTuple):
    """Paths over a time of so many decay times of the first mode, around a mean or around zero."""

    decays: float
    n_paths: int
    mean: float = 0.0

    @property
    def name(self) -> str:
        """Such as ``lambda T = 0.05, 1 paths, mean of 3 deviations``."""
        own = f", mean of {self.mean:g} deviations" if self.mean else ""
        return f"lambda T = {self.decays:g}, {self.n_paths} paths{own}"


SLOW = tuple(Slow(decays, n) for n in (1, 20) for decays in (0.05, 0.2, 1.0, 5.0, 20.0))
SHIFTED = tuple(
    Slow(decays, n, mean)
    for decays, n, mean in ((20.0, 1, 1.0), (20.0, 1, 2.0), (5.0, 20, 0.5), (1.0, 20, 1.0))
)


class Coupled(NamedTuple):
    """Modes that all drive one another, with noise that goes together, around zero."""

    n_modes: int
    n_paths: int
    n_times: int

    @property
    def name(self) -> str:
        """Such as ``10 coupled modes, 1 paths of 300``."""
        return f"{self.n_modes} coupled modes, {self.n_paths} paths of {self.n_times}"


COUPLED = (
    Coupled(3, 20, 41), Coupled(5, 1, 100), Coupled(10, 1, 300), Coupled(10, 20, 41),
    Coupled(20, 1, 400),
)  # fmt: skip


def coupled_paths(kind: Coupled, seed: int) -> Array:
    """Stationary states at unit steps, rates about 0.05 to 0.5; (P, T, N)."""
    n, rng = kind.n_modes, np.random.default_rng(0)
    turn, more, factor = 0.1 * rng.normal(size=(3, n, n))
    drift = np.diag(np.linspace(0.05, 0.5, n)) + 0.5 * (turn - turn.T) + 0.2 * more / np.sqrt(n)
    root = np.tril(3.0 * factor / np.sqrt(n), -1) + np.eye(n)
    f = linalg.expm(-drift)
    spread = linalg.solve_continuous_lyapunov(drift, root @ root.T)
    shock, rng = np.linalg.cholesky(spread - f @ spread @ f.T), np.random.default_rng([seed, n])
    out = rng.standard_normal((kind.n_paths, kind.n_times, n))
    out[:, 0] = out[:, 0] @ np.linalg.cholesky(spread).T
    for t in range(1, kind.n_times):
        out[:, t] = out[:, t - 1] @ f.T + out[:, t] @ shock.T
    return out


def has_coupled_mean(kind: Coupled, seed: int) -> bool:
    """Whether a mean is taken for coupled modes around zero."""
    n, points = kind.n_modes, np.linspace(0.0, np.pi, 2 * kind.n_modes + 3)
    values = coupled_paths(kind, seed) @ basis(n, points)
    words = {"observation_noise": "none", "nuisance": 0, "drift": "dense", "noise": "dense"}
    law = sl.fit(values, DOMAIN, n, times=np.arange(float(kind.n_times)), points=points, **words)
    return bool(law.info["decisions"]["mean"]["answer"] == "constant")


def paths(rng: np.random.Generator, rates: Array, n_paths: int, n_times: int, dt: float) -> Array:
    """Stationary modes of noise variance ``1 / n``; (P, T, N)."""
    spread = np.sqrt(0.5 / (rates * np.arange(1, len(rates) + 1)))
    out, kept = np.empty((n_paths, n_times, len(rates))), np.exp(-rates * dt)
    out[:, 0] = spread * rng.standard_normal(out[:, 0].shape)
    for t in range(1, n_times):
        new = np.sqrt(1.0 - kept**2) * spread * rng.standard_normal(out[:, 0].shape)
        out[:, t] = kept * out[:, t - 1] + new
    return out


def basis(n: int, points: Array = POINTS) -> Array:
    """Dirichlet modes at the points, (N, M)."""
    return np.sqrt(2.0 / np.pi) * np.sin(np.outer(np.arange(1, n + 1), points))


def has_nuisance(pattern: str, share: float, n_paths: int, n_times: int, seed: int) -> bool:
    """Whether nuisance modes are taken for gaps in noisy fields of the three modes fitted."""
    rng = np.random.default_rng([seed, n_times])
    states = paths(rng, np.array([1.0, 4.0, 9.0]), n_paths, n_times, 0.05)
    values = states @ basis(3) + 0.1 * rng.standard_normal((n_paths, n_times, len(POINTS)))
    fields = sl.as_fields(values, times=0.05 * np.arange(n_times), points=POINTS)
    seen = observe(sl.mask(fields, pattern, share, seed=seed), DOMAIN)
    return bool(make_design(seen.where_observed(), 3, Model(), []).n_nuisance)


def has_mean(kind: Slow, seed: int) -> tuple[bool, bool]:
    """Whether a mean is taken, with the early stop and without it."""
    rng, rates = np.random.default_rng([seed, kind.n_paths]), np.array([1.0, 2.5])
    dt = kind.decays / 60
    states = paths(rng, rates, kind.n_paths, 61, dt) + kind.mean / np.sqrt(2.0) * np.array([1, 0])
    size = {"times": dt * np.arange(61), "points": POINTS, "initial": "stationary"}
    stop, found = mean_module.NEWTON_DECIDES_BELOW, []
    for nearly in (stop, -np.inf):
        mean_module.NEWTON_DECIDES_BELOW = nearly
        law = sl.fit(states @ basis(2), DOMAIN, 2, observation_noise="none", nuisance=0, **size)
        found.append(law.info["decisions"]["mean"]["answer"] == "constant")
    mean_module.NEWTON_DECIDES_BELOW = stop
    return found[0], found[1]


def rows(n_nuisance: int, n_mean: int, n_coupled: int) -> Iterator[dict[str, Any]]:
    """Rows of the table, one after the other."""
    for case in SPARSE if n_nuisance else ():
        pattern, share, n_paths, n_times = case
        taken = sum(has_nuisance(*case, seed) for seed in range(n_nuisance))
        name = f"nuisance modes: {pattern}, {share:.0%} missing, {n_paths} paths of {n_times}"
        yield _row(name, n_nuisance, taken)
    for kind in (*SLOW, *SHIFTED) if n_mean else ():
        both = np.array([has_mean(kind, seed) for seed in range(n_mean)])
        other = int((both[:, 0] != both[:, 1]).sum())
        yield _row(f"mean: {kind.name}", n_mean, int(both[:, 0].sum()), other, bool(kind.mean))
    for coupled in COUPLED if n_coupled else ():
        taken = sum(has_coupled_mean(coupled, seed) for seed in range(n_coupled))
        yield _row(f"mean: {coupled.name}", n_coupled, taken)


def _row(
    name: str, sets: int, taken: int, other: int | None = None, power: bool = False
) -> dict[str, Any]:
    allowed = RATE + 3.0 * np.sqrt(RATE * (1.0 - RATE) / sets)
    holds = None if power else bool(taken <= allowed * sets)
    row = {"kind": name, "sets": sets, "taken": taken, "other": other, "holds": holds}
    return row | {"commit": current_commit()}


HEAD = ["decision", "sets", "taken", "other without the early stop", "holds", "commit"]


def main(arguments: list[str] | None = None) -> int:
    """Run and write the table; 1 where a rate is above what it may be."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--nuisance", type=int, default=1000, help="sets of each kind, or none")
    parser.add_argument("--mean", type=int, default=200, help="sets of each kind, or none")
    parser.add_argument("--coupled", type=int, default=200, help="likewise, a mean that couples")
    options = parser.parse_args(arguments)
    file = RESULTS / f"{NAME}.json"
    kept = json.loads(file.read_text())["rows"] if file.exists() else []
    done = {row["kind"]: row for row in kept}
    command = f"python -m benchmarks.{NAME}"
    for row in rows(options.nuisance, options.mean, options.coupled):
        print(row, flush=True)
        if row["sets"] >= done.get(row["kind"], row)["sets"]:
            done[row["kind"]] = row
        table_ = list(done.values())
        write_results(NAME, {"command": command, "rows": table_}, _markdown(command, table_))
    return int(any(row["holds"] is False for row in done.values()))


def _markdown(command: str, done: list[dict[str, Any]]) -> str:
    words = {True: "yes", False: "no", None: "power"}
    cells = [
        [row["kind"], str(row["sets"]), f"{row['taken']} ({row['taken'] / row['sets']:.1%})",
         "–" if row["other"] is None else str(row["other"]), words[row["holds"]],
         row.get("commit", "–")]
        for row in done
    ]  # fmt: skip
    text = "what a fit takes that is not there may be 1 % and three Monte-Carlo errors"
    return f"### Decisions\n\n`{command}`: {text}\n\n{table(HEAD, cells)}\n"


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.exit(main())
