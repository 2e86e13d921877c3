"""Do 95 % intervals hold the truth 95 times in 100, where standard errors do not?

    python -m benchmarks.calibration_intervals                # 400 data sets of every kind
    python -m benchmarks.calibration_intervals --quick        # 60 of every complete kind
    python -m benchmarks.calibration_intervals --kinds slow   # kinds whose names hold a word

Two modes on (0, pi), made here without the package's simulator, start in their stationary law and
are fitted with default options but for the mean, which is zero, or, in kinds of their own,
estimated together with a stationary start: ends are then those of the restricted profile. Slow
kinds have ``lambda T`` from 0.05 to 5, fast ones ``lambda dt`` from 3 to 20; one path or 20;
complete, noisy, or noisy with half of the values missing; eight modes of 5 paths, whose ends are
found together (`spdelaw.infer.uncertainty`). Every reported number and the stationary
variance count. A kind holds if the share of intervals with the truth inside lies within 95 +- 1 %
and three Monte-Carlo errors of it; more is allowed, as a boundary makes intervals cautious.

Runs are resumed: each kind is kept in ``results/calibration_intervals.json`` as it grows.
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

import spdelaw as sl  # isort: skip
from spdelaw.errors import SpdeLawError  # isort: skip

Array = np.ndarray

NAME = "calibration_intervals"
LEVEL, NORMAL = 0.95, 1.959964
#: Data sets of a kind, in all and with ``--quick``; how many are run before they are kept.
SETS, QUICK, CHUNK = 400, 60, 20
#: Share of misses above the nominal one that is allowed in addition to three Monte-Carlo errors.
MARGIN = 0.01
N_TIMES, MANY = 60, 8
#: Means, in deviations of the modes.
MEAN = np.array([2.0, 1.0])
#: Observation noise, relative to the deviation of a step of the first mode.
NOISE_SHARE = 0.5


class Kind(NamedTuple):
    """Data of one kind: how slow or fast, how many paths, what of them is seen."""

    speed: str
    number: float
    n_paths: int
    seen: str
    mean: str = "zero"
    n_modes: int = 2

    @property
    def rates(self) -> Array:
        """Of the modes, relative to the rate of the kind: 1, 1.5, 2 and so on."""
        return 1.0 + 0.5 * np.arange(self.n_modes)

    @property
    def noise(self) -> Array:
        """Their noise variances: 1, 0.6, 3/7 and so on."""
        return 1.0 / (1.0 + np.arange(self.n_modes) / 1.5)

    @property
    def points(self) -> Array:
        """Points of observation."""
        return np.linspace(0.0, np.pi, 10 + self.n_modes)

    @property
    def name(self) -> str:
        """Such as ``slow 0.05, 1 path, noisy``."""
        own = "" if self.mean == "zero" else ", mean estimated"
        own += "" if self.n_modes == 2 else f", {self.n_modes} modes"
        return f"{self.speed} {self.number:g}, {self.n_paths} paths, {self.seen}{own}"


def kinds() -> Iterator[Kind]:
    """Every kind, the cheap ones first."""
    speeds = [("slow", x) for x in (0.05, 0.2, 1.0, 5.0)] + [("fast", x) for x in (3.0, 10.0, 20.0)]
    for seen in ("complete", "noisy", "half missing"):
        for n_paths in (1, 20):
            yield from (Kind(speed, number, n_paths, seen) for speed, number in speeds)
    for seen in ("complete", "half missing"):
        yield from (Kind(speed, number, 1, seen, "constant") for speed, number in speeds[:5])
    yield from (Kind("slow", 5.0, 5, seen, n_modes=MANY) for seen in ("noisy", "half missing"))


def truth_of(kind: Kind) -> dict[str, Array]:
    """Numbers that intervals should hold, of time steps of length 1."""
    rates = kind.rates * kind.number / (N_TIMES - 1 if kind.speed == "slow" else 1.0)
    spread = kind.noise / (2.0 * rates)
    step = float(np.sqrt(-np.expm1(-2.0 * rates[0]) * spread[0]))
    std = 0.0 if kind.seen == "complete" else NOISE_SHARE * step
    own = {"mean": MEAN * np.sqrt(spread)} if kind.mean == "constant" else {}
    return own | {
        "eigenvalue": rates,
        "noise_variance": kind.noise,
        "stationary_variance": spread,
        "observation_std": np.array([std]),
    }


def fields_of(kind: Kind, seed: int) -> Array:
    """Values (path, time, point) of stationary Ornstein-Uhlenbeck modes, exact in time."""
    draw, truth = np.random.default_rng([seed, kind.n_paths]), truth_of(kind)
    rates, spread = truth["eigenvalue"], truth["stationary_variance"]
    factor, shape = np.exp(-rates), (kind.n_paths, kind.n_modes)
    modes = np.empty((kind.n_paths, N_TIMES, kind.n_modes))
    modes[:, 0] = np.sqrt(spread) * draw.standard_normal(shape)
    for t in range(1, N_TIMES):
        new = draw.standard_normal(shape)
        modes[:, t] = factor * modes[:, t - 1] + np.sqrt((1.0 - factor**2) * spread) * new
    basis = np.sqrt(2.0 / np.pi) * np.sin(np.outer(np.arange(1, kind.n_modes + 1), kind.points))
    values = (modes + truth.get("mean", 0.0)) @ basis
    values += truth["observation_std"][0] * draw.standard_normal(values.shape)
    if kind.seen == "half missing":
        values[draw.random(values.shape) < 0.5] = np.nan
    return values


def outcome(kind: Kind, seed: int) -> dict[str, Any]:
    """Misses of each number and evaluations of the likelihood; or what went wrong."""
    truth = truth_of(kind)
    try:
        law = sl.fit(
            fields_of(kind, seed),
            sl.Interval(0.0, np.pi),
            kind.n_modes,
            times=np.arange(float(N_TIMES)),
            points=kind.points,
            level=LEVEL,
            mean=kind.mean,
            **({"initial": "stationary"} if kind.mean == "constant" else {}),
        )
    except SpdeLawError as error:
        return {"error": type(error).__name__}
    diagonal = np.arange(kind.n_modes)
    own = {
        "eigenvalue": law.parameters["eigenvalue"].values,
        "noise_variance": law.parameters["noise_variance"].values,
        "stationary_variance": law.stationary_covariance().values[diagonal, diagonal],
        "observation_std": law.parameters["observation_std"].values[None],
    }
    if "mean" in truth:
        own["mean"] = law.parameters["mean"].values
    found = {name: _misses(rows, truth[name]) for name, rows in own.items() if truth[name].all()}
    counts = law.info["convergence"]
    spent = {"search": counts["evaluations"], "intervals": counts["evaluations_for_intervals"]}
    return {"numbers": found, **spent}


def _misses(rows: Array, truth: Array) -> list[int]:
    """Numbers; intervals too high and too low; the same of intervals by standard errors."""
    estimate, error, lower, upper = rows.T
    with np.errstate(all="ignore"):
        reach = np.exp(NORMAL * error / estimate)
        wald = (estimate / reach > truth), (estimate * reach < truth)
    ends = (lower > truth), (upper < truth)
    return [len(truth), *(int(np.sum(miss)) for miss in (*ends, *wald))]


def run(kind: Kind, wanted: int, record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The record of a kind, longer by some data sets each time, until there are enough."""
    record = record or {"sets": 0, "errors": 0, "search": 0, "intervals": 0, "numbers": {}}
    commit = current_commit()
    while record["sets"] < wanted:
        record["commits"] = sorted({*record.get("commits", []), commit})
        for seed in range(record["sets"], min(record["sets"] + CHUNK, wanted)):
            found = outcome(kind, seed)
            record["sets"] += 1
            record["errors"] += "error" in found
            for key in ("search", "intervals"):
                record[key] += found.get(key, 0)
            for name, counts in found.get("numbers", {}).items():
                old = record["numbers"].get(name, [0] * len(counts))
                record["numbers"][name] = [a + b for a, b in zip(old, counts, strict=True)]
        yield record


def judged(name: str, record: dict[str, Any]) -> tuple[list[str], bool]:
    """Row of the table, and whether the kind holds."""
    n, high, low, wald_high, wald_low = np.sum(list(record["numbers"].values()), axis=0)
    share, by_errors = (high + low) / n, (wald_high + wald_low) / n
    # Numbers of one data set go together: they count as one.
    error = np.sqrt(LEVEL * (1.0 - LEVEL) / record["sets"])
    holds = share <= 1.0 - LEVEL + MARGIN + 3.0 * error and not record["errors"]
    fits, counted = record["sets"] - record["errors"], "search" in record
    row = [
        name,
        str(record["sets"]),
        f"{100 * (1 - share):.1f}",
        f"{100 * high / n:.1f} / {100 * low / n:.1f}",
        _least_held(record["numbers"]),
        f"{100 * (1 - by_errors):.1f}",
        f"{record['search'] / fits:.0f} + {record['intervals'] / fits:.0f}" if counted else "-",
        str(record["errors"]),
        "yes" if holds else "no",
        " ".join(record.get("commits", [])) or "–",
    ]
    return row, bool(holds)


def _least_held(numbers: dict[str, list[int]]) -> str:
    """The kind of number that is held least often."""
    held = {name: 1.0 - (high + low) / n for name, (n, high, low, *_) in numbers.items()}
    name = min(held, key=held.__getitem__)
    return f"{name.replace('_', ' ')} {100 * held[name]:.1f}"


HEAD = [
    "kind", "sets", "held, %", "too high / too low, %", "least, %", "by standard errors, %",
    "evaluations: search + intervals", "errors", "holds",
    "commit",
]  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, write the table; 1 where a kind does not hold."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few data sets of complete kinds")
    parser.add_argument("--kinds", default="", metavar="WORD", help="of names that hold it")
    parser.add_argument("--sets", type=int, default=None, help="data sets of each kind")
    options = parser.parse_args(arguments)
    wanted = options.sets or (QUICK if options.quick else SETS)
    path = RESULTS / f"{NAME}.json"
    is_kept = path.exists() and not options.quick
    records = json.loads(path.read_text())["kinds"] if is_kept else {}
    chosen = [kind for kind in kinds() if options.kinds in kind.name]
    if options.quick:
        chosen = [kind for kind in chosen if kind.seen == "complete"]
    for kind in chosen:
        old = records.get(kind.name, {})
        if "search" not in old:  # a record of before evaluations were counted
            old = {}
        for record in run(kind, wanted, old):
            records[kind.name] = record
            if not options.quick:
                _write(records)
        print("  ".join(judged(kind.name, records[kind.name])[0]), flush=True)
    return 0 if all(judged(kind.name, records[kind.name])[1] for kind in chosen) else 1


def _write(records: dict[str, Any]) -> None:
    order = [kind.name for kind in kinds() if kind.name in records]
    rows = [judged(name, records[name])[0] for name in order]
    command = f"python -m benchmarks.{NAME}"
    text = f"`{command}`: intervals of 95 % that hold the truth\n\n{table(HEAD, rows)}"
    document = {"command": command, "kinds": {name: records[name] for name in order}}
    write_results(NAME, document, text)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.exit(main())
