"""What a default fit takes that is not there: nuisance modes, memory, bad sensors, wider bands.

    python -m benchmarks.calibration_decisions run --work decisions.jsonl --seconds 3600
    python -m benchmarks.calibration_decisions report --work decisions.jsonl

Three Ornstein-Uhlenbeck modes on (0, pi), made here without the package's simulator, with white
noise and several patterns of gaps. A default fit of three modes is right. What it takes besides may
occur in 1 % of the data sets and three Monte-Carlo errors. A mean and an initial state have rows of
coverage in `benchmarks.calibration`, with them and without.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

from benchmarks._timing import table, write_results
from benchmarks.calibration import options, read, run

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip

Array = np.ndarray

RATE, STEP, STD = 0.01, 0.05, 0.1
DOMAIN, POINTS = sl.Interval(0.0, np.pi), np.linspace(0.0, np.pi, 17)
RATES, SPREADS = np.array([1.0, 4.0, 9.0]), np.sqrt(0.5 / np.array([1.0, 8.0, 27.0]))
DECISIONS = {
    "nuisance modes": lambda law: law.info["n_nuisance"] > 0,
    "memory of the residual": lambda law: law.info["residual"]["answer"] == "memory",
    "a bad sensor": lambda law: any("sensor" in text for text in law.info.get("warnings", ())),
    "wider bands": lambda law: "forecast_spread" in law.info,
}


class Kind(NamedTuple):
    """Pattern of what is missing, share of it, paths and times."""

    pattern: str
    share: float
    n_paths: int
    n_times: int
    turns: int = 4

    @property
    def name(self) -> str:
        """Such as ``random, 30% missing, 10 paths of 31``."""
        gaps = f"{self.pattern}, {self.share:.0%} missing" if self.share else "complete"
        return f"{gaps}, {self.n_paths} paths of {self.n_times}"

    def fields(self, seed: int) -> Any:
        """Noisy stationary fields with gaps."""
        rng = np.random.default_rng([seed, self.n_times])
        z = rng.standard_normal((self.n_times, self.n_paths, 3))
        kept, states = np.exp(-RATES * STEP), [SPREADS * z[0]]
        for new in z[1:]:
            states.append(kept * states[-1] + np.sqrt(1.0 - kept**2) * SPREADS * new)
        values = np.stack(states, 1) @ DOMAIN.eigenfunctions(POINTS, 3).T
        values += STD * rng.standard_normal(values.shape)
        fields = sl.as_fields(values, times=STEP * np.arange(self.n_times), points=POINTS)
        return sl.mask(fields, self.pattern, self.share, seed=seed) if self.share else fields


KINDS = (
    *(Kind("random", share, 10, 31) for share in (0.0, 0.3, 0.8)), Kind("random", 0.9, 20, 31),
    Kind("sensors", 0.6, 10, 31), Kind("blocks", 0.4, 10, 31), Kind("random", 0.0, 1, 300),
    Kind("random", 0.3, 1, 300),
)  # fmt: skip


def measure(kind: Kind, seed: int) -> dict[str, Any]:
    """What a default fit takes; an error that leaves the package is a result too."""
    line: dict[str, Any] = {"kind": kind.name, "seed": seed}
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            law = sl.fit(kind.fields(seed), DOMAIN, 3)
        line["taken"] = [name for name, takes in DECISIONS.items() if takes(law)]
    except Exception as error:
        line["error"] = f"{type(error).__name__}: {error}"[:300]
    return line | {"seconds": round(time.process_time() - start, 3)}


def report(lines: list[dict[str, Any]]) -> str:
    """The table; written to ``benchmarks/results``."""
    rows, cells = [], []
    for kind in KINDS:
        own = [line for line in lines if line["kind"] == kind.name]
        n, errors = max(len(own), 1), sum("error" in line for line in own)
        taken = {name: sum(name in line.get("taken", ()) for line in own) for name in DECISIONS}
        most = n * (RATE + 3.0 * np.sqrt(RATE * (1.0 - RATE) / n))
        holds = "yes" if max(taken.values()) <= most and not errors else "no"
        rows.append({"kind": kind.name, "sets": len(own), **taken, "errors": errors})
        shares = [f"{count} ({count / n:.1%})" for count in taken.values()]
        cells.append([kind.name, str(len(own)), *shares, str(errors), holds])
    command = "python -m benchmarks.calibration_decisions"
    text = (
        f"### Decisions\n\n`{command}`: what a default fit takes that is not there may occur in "
        "1 % and three Monte-Carlo errors\n\n"
        + table(["data", "sets", *DECISIONS, "errors", "holds"], cells)
        + "\n"
    )
    commits = sorted({line.get("commit", "") for line in lines})
    write_results("calibration_decisions", {"rows": rows, "commits": commits}, text)
    return text


def main(arguments: list[str] | None = None) -> int:
    """Run or report."""
    given = options(str(__doc__)).parse_args(arguments)
    if given.what == "run":
        run(given, KINDS, measure)
    else:
        print(report(read(*given.work)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
