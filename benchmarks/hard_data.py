"""Data that once gave wrong numbers without a warning: what happens now, on new seeds.

    python -m benchmarks.hard_data             # every case, about two minutes of CPU
    python -m benchmarks.hard_data --only mode # cases whose names hold a word

Each case makes a few data sets by plain NumPy, fits them with default options unless it says
otherwise, and counts in how many the promise holds. Rates that need hundreds of data sets are rows
of `benchmarks.calibration`, `calibration_advice` and `calibration_decisions`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks._calibration_kinds import NINE, reacting
from benchmarks._timing import current_commit, table, write_results
from benchmarks.calibration_advice import (
    INTERVAL,
    POINTS,
    RING,
    STEP,
    allen_cahn,
    biased,
    changed,
    dead,
    fields,
    heat,
    modes,
    sensor_memory,
    sines,
    stuck,
)  # fmt: skip

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip

RATES = np.array([1.0, 4.0, 9.0])
#: Share of the data sets in which a promise has to hold where chance has no part in it, and where
#: it speaks of 95 % intervals or bands.
ALL, MOST = 1.0, 0.8
Case = tuple[str, str, int, float, Callable[[int], bool]]


def random(seed: int) -> np.random.Generator:
    """Numbers that no other benchmark draws."""
    return np.random.default_rng([31, seed])


def holds(row: Any, truth: float) -> bool:
    """Whether the interval of a number holds the truth."""
    return bool(row[..., 2] <= truth <= row[..., 3])


def text_of(law: sl.Law) -> str:
    """All that the law says."""
    return str(law) + " ".join(law.info.get("warnings", ()))


def mean_beside_a_forcing(seed: int) -> bool:
    """A known push of the first mode, and a mean of one deviation."""
    t = STEP * np.arange(121)
    forcing = sl.Forcing(t, np.stack([np.sin(t), 0.0 * t], 1))
    c = modes(random(seed), 8, 121, rates=(1.0, 4.0), noise=(1.0, 0.5))
    c = c + forcing.response(np.array([1.0, 4.0]), t, 0.0) + [1.0, 0.0]
    law = sl.fit(fields(c @ sines(2).T), INTERVAL, 2, forcing=forcing)
    return holds(law.parameters["eigenvalue"].values[0], 1.0)


def first_time_never_observed(seed: int) -> bool:
    """The 95 % band at a first time that no path observes."""
    rng = random(seed)
    c = modes(rng, 10, 31)
    u = c @ sines(3).T + 0.1 * rng.standard_normal((10, 31, len(POINTS)))
    truth = u[:, 0].copy()
    u[:, 0] = np.nan
    data = fields(u)
    row = sl.fit(data, INTERVAL, 3).reconstruct(data).isel(time=0)
    inside = np.abs(truth - row["mean"].values) < 1.96 * row["std"].values
    return 0.85 < inside[:, 1:-1].mean() <= 1.0


def spoilt_sensor(edit: Callable) -> Callable[[int], bool]:
    """The interval of the noise holds the truth, and the law names the sensor."""

    def check(seed: int) -> bool:
        law = sl.fit(changed(heat(std=0.1), edit)(random(seed)), INTERVAL, 3)
        lower, upper = law.parameters["observation_std"].values[2:]
        return bool(0.0 < lower < 0.1 * 1.02 and upper > 0.1 * 0.98 and "1.17" in text_of(law))

    return check


def sensors_with_memory(seed: int) -> bool:
    """The law says that errors last, and does not deny all noise."""
    law = sl.fit(changed(heat(), sensor_memory)(random(seed)), INTERVAL, 3)
    return "memory" in text_of(law) or "last" in text_of(law)


def as_many_points_as_modes(seed: int) -> bool:
    """The noise is estimated, and found."""
    points = np.array([0.5, 1.5, 2.5])
    law = sl.fit(heat(20, 121, 0.1, points=points)(random(seed)), INTERVAL, 3)
    lower, upper = law.parameters["observation_std"].values[2:]
    return bool(lower < 0.1 * 1.05 and upper > 0.1 * 0.95)


def two_short_paths(seed: int) -> bool:
    """Every number is finite, or the law says that the data do not determine it."""
    law = sl.fit(heat(2, 12, 0.1)(random(seed)), INTERVAL, 3)
    numbers = law.parameters["eigenvalue"].values[:, 0]
    return bool((numbers < 1e4).all()) or "do not determine" in text_of(law)


def modes_of_late_paths(seed: int) -> bool:
    """The number of modes, where the first 40 of 60 paths are zero."""
    u = modes(random(seed), 60, 31) @ sines(3).T
    u[:40] = 0.0
    return sl.fit(fields(u), INTERVAL, "auto").n_modes >= 3


def clean_with_noise_estimated(seed: int) -> bool:
    """Eigenvalues of clean data from a common start with noise "estimate", as without the word."""
    c = modes(random(seed), 20, 61)
    c -= c[:, :1] * np.exp(-RATES * STEP * np.arange(61)[:, None])
    data = fields(c @ sines(3).T)
    plain, asked = (
        sl.fit(data, INTERVAL, 3, **words).parameters["eigenvalue"].values
        for words in ({}, {"observation_noise": "estimate"})
    )
    return bool((np.abs(plain[:, 0] - asked[:, 0]) < plain[:, 1]).all())


def noise_interval(n_paths: int, n_times: int, missing: float) -> Callable[[int], bool]:
    """The 95 % interval of the observation noise holds it."""

    def check(seed: int) -> bool:
        law = sl.fit(heat(n_paths, n_times, 0.1, missing)(random(seed)), INTERVAL, 3)
        return holds(law.parameters["observation_std"].values, 0.1)

    return check


def cut_modes(seed: int) -> bool:
    """Smooth semilinear noise, five modes of nine fitted: the law says what the others do."""
    data = reacting({1: 1.0, 3: -1.0}, lambda k: 0.09 / (1 + k**2), 0.0)(10, 61, 5000 + seed)
    law = sl.fit(data, NINE.domain, 5, terms=("u", "u^3"))
    return "modes" in " ".join(law.info.get("warnings", ()))


def discovers(seed: int) -> bool:
    """Terms of Fisher-KPP are found without an error."""
    data = reacting({1: 1.0, 2: -1.0}, lambda k: 0.004 / (1 + k**2), 0.4)(10, 41, 6000 + seed)
    return bool(sl.discover(data, NINE.domain, 9).law is not None)


def unstable_law(seed: int) -> bool:
    """A law that runs away is evaluated, or refused by an error of the package."""
    data = allen_cahn(4, 60)(random(seed))
    try:
        sl.evaluate(sl.fit(data, RING, 8, terms=("u", "u^2")), data)
    except sl.errors.SpdeLawError:
        return True
    return True


CASES: tuple[Case, ...] = (
    (
        "known forcing and a mean of 1",
        "the interval of the eigenvalue holds 1",
        8,
        MOST,
        mean_beside_a_forcing,
    ),
    (
        "a first time that is never observed",
        "bands of 95 % hold there",
        6,
        ALL,
        first_time_never_observed,
    ),
    ("one sensor of 17 stuck", "noise right, sensor named", 6, MOST, spoilt_sensor(stuck)),
    ("one sensor of 17 dead", "the same", 6, MOST, spoilt_sensor(dead)),
    ("one sensor of 17 biased", "the same", 6, MOST, spoilt_sensor(biased)),
    ("errors of sensors with memory", "the law says so", 6, ALL, sensors_with_memory),
    (
        "as many points as modes",
        "the interval of the noise holds",
        6,
        MOST,
        as_many_points_as_modes,
    ),
    ("2 paths of 12 times", "finite, or 'do not determine'", 10, ALL, two_short_paths),
    (
        "modes of paths the first 40 of which are zero",
        "at least 3 modes",
        3,
        ALL,
        modes_of_late_paths,
    ),
    (
        "clean data, common start, noise 'estimate'",
        "eigenvalues as without the word",
        6,
        ALL,
        clean_with_noise_estimated,
    ),
    ("noise behind 60 % missing", "its interval holds", 10, MOST, noise_interval(8, 31, 0.6)),
    ("noise behind 85 % missing", "its interval holds", 10, MOST, noise_interval(8, 31, 0.85)),
    ("noise of 2 paths of 12", "its interval holds", 10, MOST, noise_interval(2, 12, 0.0)),
    ("semilinear modes that are cut off", "the law says so", 6, ALL, cut_modes),
    ("discover on Fisher-KPP", "no error", 2, ALL, discovers),
    ("an unstable law", "evaluated, or the package's error", 3, ALL, unstable_law),
)


def run(case: Case) -> list[str]:
    """One row of the table."""
    name, promise, sets, least, check = case
    start, held, errors = time.process_time(), 0, []
    for seed in range(sets):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                held += bool(check(seed))
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}"[:200])
    seconds = (time.process_time() - start) / sets
    good = held >= least * sets and not errors
    print(name, held, sets, f"{seconds:.2f} s", errors[:1], flush=True)
    verdict = "yes" if good else f"no{': ' + errors[0][:60] if errors else ''}"
    return [name, promise, f"{held} of {sets}", f"{seconds:.2f}", verdict]


def main(arguments: list[str] | None = None) -> int:
    """Run and write the table; 1 where a promise does not hold."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", default="", metavar="WORD")
    given = parser.parse_args(arguments)
    rows = [run(case) for case in CASES if given.only in case[0]]
    command = "python -m benchmarks.hard_data"
    text = (
        "## Data that once gave wrong numbers\n\n"
        f"`{command}` at {current_commit()}: default options unless stated, seeds of its own. "
        "Rates that need hundreds of data sets are rows of the calibration tables.\n\n"
        + table(["data", "what must hold", "held", "s each", "holds"], rows)
        + "\n"
    )
    if not given.only:
        write_results("hard_data", {"command": command, "rows": rows}, text)
    return int(any(row[-1] != "yes" for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
