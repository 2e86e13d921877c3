"""Decisions of a fit on data made without what they look for, and with it.

    python -m benchmarks.calibration_decisions               # 1,000 and 200 data sets of every kind
    python -m benchmarks.calibration_decisions --nuisance 100 --mean 20

Nuisance modes where there are none, and a mean where there is none, may be taken in 1 % of data
sets, and three Monte-Carlo errors more. Paths are Ornstein-Uhlenbeck modes on (0, pi), made here
without the package's simulator. The test for a mean stops where one Newton step predicts less than
0.6 of what is needed: each data set is also decided without that stop, and the decisions compared.
A mean of so many deviations of the first mode shows the power.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks._timing import table, write_results

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.infer import _mean_decision  # isort: skip
from spdelaw.infer._design import make_design  # isort: skip
from spdelaw.infer._model import Model  # isort: skip
from spdelaw.infer._observed import observe  # isort: skip

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


def paths(rng: np.random.Generator, rates: Array, n_paths: int, n_times: int, dt: float) -> Array:
    """Stationary modes of noise variance ``1 / n``; (P, T, N)."""
    spread = np.sqrt(0.5 / (rates * np.arange(1, len(rates) + 1)))
    out, kept = np.empty((n_paths, n_times, len(rates))), np.exp(-rates * dt)
    out[:, 0] = spread * rng.standard_normal(out[:, 0].shape)
    for t in range(1, n_times):
        new = np.sqrt(1.0 - kept**2) * spread * rng.standard_normal(out[:, 0].shape)
        out[:, t] = kept * out[:, t - 1] + new
    return out


def basis(n: int) -> Array:
    """Dirichlet modes at the points, (N, M)."""
    return np.sqrt(2.0 / np.pi) * np.sin(np.outer(np.arange(1, n + 1), POINTS))


def has_nuisance(pattern: str, share: float, n_paths: int, n_times: int, seed: int) -> bool:
    """Whether nuisance modes are taken for gaps in noisy fields of the three modes fitted."""
    rng = np.random.default_rng([seed, n_times])
    states = paths(rng, np.array([1.0, 4.0, 9.0]), n_paths, n_times, 0.05)
    values = states @ basis(3) + 0.1 * rng.standard_normal((n_paths, n_times, len(POINTS)))
    fields = sl.as_fields(values, times=0.05 * np.arange(n_times), points=POINTS)
    seen = observe(sl.mask(fields, pattern, share, seed=seed), DOMAIN)
    return bool(make_design(seen.where_seen(), 3, Model(), []).n_nuisance)


def has_mean(kind: Slow, seed: int) -> tuple[bool, bool]:
    """Whether a mean is taken, with the early stop and without it."""
    rng, rates = np.random.default_rng([seed, kind.n_paths]), np.array([1.0, 2.5])
    dt = kind.decays / 60
    states = paths(rng, rates, kind.n_paths, 61, dt) + kind.mean / np.sqrt(2.0) * np.array([1, 0])
    size = {"times": dt * np.arange(61), "points": POINTS, "initial": "stationary"}
    stop, found = _mean_decision.NEARLY, []
    for nearly in (stop, -np.inf):
        _mean_decision.NEARLY = nearly
        law = sl.fit(states @ basis(2), DOMAIN, 2, observation_noise="none", nuisance=0, **size)
        found.append(law.info["decisions"]["mean"]["answer"] == "constant")
    _mean_decision.NEARLY = stop
    return found[0], found[1]


def rows(n_nuisance: int, n_mean: int) -> Iterator[dict[str, Any]]:
    """Rows of the table, one after the other."""
    allowed = {n: RATE + 3.0 * np.sqrt(RATE * (1.0 - RATE) / n) for n in (n_nuisance, n_mean) if n}
    for pattern, share, n_paths, n_times in SPARSE if n_nuisance else ():
        case = (pattern, share, n_paths, n_times)
        taken = sum(has_nuisance(*case, seed) for seed in range(n_nuisance))
        name = f"nuisance modes: {pattern}, {share:.0%} missing, {n_paths} paths of {n_times}"
        holds = bool(taken <= allowed[n_nuisance] * n_nuisance)
        yield {"kind": name, "sets": n_nuisance, "taken": taken, "other": None, "holds": holds}
    for kind in (*SLOW, *SHIFTED) if n_mean else ():
        both = np.array([has_mean(kind, seed) for seed in range(n_mean)])
        taken, other = int(both[:, 0].sum()), int((both[:, 0] != both[:, 1]).sum())
        holds = None if kind.mean else bool(taken <= allowed[n_mean] * n_mean)
        name = f"mean: {kind.name}"
        yield {"kind": name, "sets": n_mean, "taken": taken, "other": other, "holds": holds}


HEAD = ["decision", "sets", "taken", "other without the early stop", "holds"]


def main(arguments: list[str] | None = None) -> int:
    """Run and write the table; 1 where a rate is above what it may be."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--nuisance", type=int, default=1000, help="sets of each kind, or none")
    parser.add_argument("--mean", type=int, default=200, help="sets of each kind, or none")
    options = parser.parse_args(arguments)
    command = f"python -m benchmarks.{NAME} --nuisance {options.nuisance} --mean {options.mean}"
    done: list[dict[str, Any]] = []
    for row in rows(options.nuisance, options.mean):
        done.append(row)
        print(row, flush=True)
        write_results(NAME, {"command": command, "rows": done}, _markdown(command, done))
    return int(any(row["holds"] is False for row in done))


def _markdown(command: str, done: list[dict[str, Any]]) -> str:
    words = {True: "yes", False: "no", None: "power"}
    cells = [
        [row["kind"], str(row["sets"]), f"{row['taken']} ({row['taken'] / row['sets']:.1%})",
         "–" if row["other"] is None else str(row["other"]), words[row["holds"]]]
        for row in done
    ]  # fmt: skip
    text = "what a fit takes that is not there may be 1 % and three Monte-Carlo errors"
    return f"### Decisions\n\n`{command}`: {text}\n\n{table(HEAD, cells)}\n"


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.exit(main())
