"""Whether what is said is true: optima, intervals, bands and verdicts on thousands of data sets.

    python -m benchmarks.calibration run --work calibration.jsonl --seconds 3600
    python -m benchmarks.calibration report --work calibration.jsonl

``run`` goes round the kinds and appends one line per data set, so that it can be stopped and goes
on where it was; ``--only NAME`` takes some kinds. ``report`` writes
``benchmarks/results/calibration.json`` and ``.md``; rows that rest on more data sets than the lines
have stay as they were. Of each data set: the log-likelihood found less that of the truth, how many
95 % intervals of parameters held it, how many test values the forecast and gap bands of 50, 80 and
95 % held, and whether the verdict on test data of the same law is an alarm. ``--quick`` is what the
tests of the package run.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks._calibration_kinds import KINDS, Kind
from benchmarks._timing import RESULTS, table, versions, write_results

import numpy as np  # isort: skip
import scipy  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.equation import Linear  # isort: skip
from spdelaw.evaluation import evaluate, parameter_errors, predict_tier  # isort: skip

#: Nats that a fit may lack of the truth, false-alarm rate, band levels.
NATS, ALARMS, LEVELS = 0.5, 0.01, (0.5, 0.8, 0.95)
#: Undercoverage of a 95 % interval that is tolerated, beside three Monte-Carlo errors.
SLACK = 0.01


def main(arguments: list[str] | None = None) -> int:
    """Run or report; 1 where a line of the report does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("run", "report"))
    parser.add_argument("--work", type=Path, default=Path("calibration.jsonl"))
    parser.add_argument("--seconds", type=float, default=600.0, help="time to run for")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="kinds, by how their name begins")
    parser.add_argument("--quick", action="store_true", help="two data sets of the cheap kinds")
    given = parser.parse_args(arguments)
    if given.what == "run":
        some = tuple(k for k in KINDS if k.name.startswith(tuple(given.only or [""])))
        run(given.work, 0.0 if given.quick else given.seconds, some)
        return 0
    return report(given.work)


# -- one data set ---------------------------------------------------------------------------


def measure(kind: Kind, seed: int) -> dict[str, Any]:
    """All that is known about one data set; an error that leaves the package is a result too."""
    line: dict[str, Any] = {"kind": kind.name, "seed": seed}
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            line |= _measured(kind, seed)
    except Exception as error:
        line["error"] = f"{type(error).__name__}: {error}"[:300]
    return line | {"seconds": round(time.process_time() - start, 3)}


def _measured(kind: Kind, seed: int) -> dict[str, Any]:
    train = kind.data(seed)
    if kind.ladder:
        return {"alarm": False, "nested": _nested(kind, train)}
    if kind.wrong:
        law = sl.fit(train, kind.truth.domain, kind.truth.n_modes, **kind.words)
        card = evaluate(law, train, tiers=())
        advised = bool(card.advice) and kind.wrong in card.advice[0]
        return {"alarm": not card.check.fits, "advised": advised}
    test = kind.data(seed, test=True)
    law = sl.fit(train, kind.truth.domain, kind.truth.n_modes, **kind.words)
    card = evaluate(law, test, tiers=(), max_paths=10**6)
    held, n = _parameters(law, kind)
    return {
        "nats": _nats(law, kind, train),
        "held": held,
        "parameters": n,
        **{tier: _bands(law, test, tier, seed) for tier in ("forecast", "gaps")},
        "alarm": not card.check.fits,
        "rejected": card.check.rejected[:3],
    }


def _nested(kind: Kind, train: Any) -> float:
    """Least gain in log-likelihood from a model to one that holds it."""
    domain, n = kind.truth.domain, kind.truth.n_modes
    laws = [sl.fit(train, domain, n, **{**kind.words, **words}) for words in kind.ladder]
    return float(np.diff([law.info["log_likelihood"] for law in laws]).min())


def _true_law(law: sl.Law, kind: Kind) -> sl.Law:
    """The learned law with the parameters of the truth, in the units of the data."""
    truth, u = kind.truth, kind.scale
    start = truth.initial_state
    if start.kind != law.initial.kind:
        # A stationary start is a Gaussian one as well.
        start = start._replace(kind=law.initial.kind)
    start = start._replace(mean=u * start.mean, covariance=u**2 * start.covariance)
    dynamics = Linear(truth.dynamics.drift, u**2 * truth.dynamics.noise)
    noise = np.asarray((u * kind.noise) ** 2)
    return dataclasses.replace(
        law, dynamics=dynamics, initial=start, observation_variance=noise, unresolved_variance=0.0
    )


def _nats(law: sl.Law, kind: Kind, data: Any) -> float | None:
    """Log-likelihood found less that of the truth; None where they are not of the same numbers."""
    if law.dynamics.n_modes != kind.truth.n_modes:
        return None
    found, true = (one.log_likelihood(data) for one in (law, _true_law(law, kind)))
    if found.attrs != true.attrs:
        return None
    return float(found.sum() - true.sum())


def _parameters(law: sl.Law, kind: Kind) -> tuple[int, int]:
    """How many of the 95 % intervals of drift and noise hold the truth, and of how many."""
    names = [str(n)[:-2] for n in parameter_errors(law, kind.truth) if str(n).endswith("_z")]
    held = n = 0
    for name in names:
        table_ = law.parameters[name].values
        true = parameter_errors(law, kind.truth)[f"{name}_truth"].values
        true = true * (kind.scale**2 if "noise" in name else 1.0)
        estimated = table_[..., 1] > 0
        inside = (table_[..., 2] <= true) & (true <= table_[..., 3])
        held, n = held + int(inside[estimated].sum()), n + int(estimated.sum())
    return held, n


def _bands(law: sl.Law, test: Any, tier: str, seed: int) -> list[int]:
    """Values inside bands of 50, 80 and 95 %, and how many there were."""
    bare, fields = law.bare, law.domain.flatten(law.prepared(test))
    mean, std, truth = predict_tier(bare, fields.isel(path=slice(20)), tier, seed)
    there = ~np.isnan(truth) & (std > 1e-7 * np.sqrt(np.nanmean(truth**2)))
    z = np.abs(truth - mean)[there] / std[there]
    edges = scipy.special.ndtri(0.5 + 0.5 * np.array(LEVELS))
    return [*(int((z <= edge).sum()) for edge in edges), int(there.sum())]


# -- runs and reports -------------------------------------------------------------------------


def run(work: Path, seconds: float, kinds: tuple[Kind, ...] | None = None) -> None:
    """Append lines until the time is over; with none, two data sets of each cheap kind."""
    lines = list(read(work))
    done = {(line["kind"], line["seed"]) for line in lines}
    start, turn = time.monotonic(), 0
    while True:
        for kind in KINDS if kinds is None else kinds:
            quick = seconds == 0.0
            if quick and kind.turns < 4:
                continue
            per = 2 if quick else kind.turns
            for seed in range(turn * per, (turn + 1) * per):
                if (kind.name, seed) not in done:
                    with work.open("a") as file:
                        file.write(json.dumps(measure(kind, seed)) + "\n")
            if not quick and time.monotonic() - start > seconds:
                return
        turn += 1
        if quick:
            return


def read(work: Path) -> Iterator[dict[str, Any]]:
    """Lines of a run; the last one may have been cut."""
    if not work.exists():
        return
    for text in work.read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            yield json.loads(text)


def summary(kind: Kind, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of the table, and what of it does not hold."""
    good = [line for line in lines if "error" not in line]
    n = len(good)
    row: dict[str, Any] = {
        "kind": kind.name,
        "data sets": len(lines),
        "seconds each": float(np.mean([line["seconds"] for line in lines])),
        "alarms": sum(line["alarm"] for line in good),
        "errors": [line["error"] for line in lines if "error" in line],
    }
    if kind.ladder:
        row["least gain"] = min((line["nested"] for line in good), default=None)
        row["below"] = [line["seed"] for line in good if line["nested"] < -NATS]
        row["fails"] = ["nestedness"] * bool(row["below"]) + ["errors"] * bool(row["errors"])
        return row
    if kind.wrong:
        row["advised"] = sum(line["advised"] for line in good)
        row["fails"] = [] if row["advised"] >= 0.95 * n else ["power"]
        return row
    nats = [line["nats"] for line in good if line["nats"] is not None]
    row["compared"], row["worst nats"] = len(nats), min(nats, default=None)
    row["below"] = [line["seed"] for line in good if (line["nats"] or 0.0) < -NATS]
    held, total = (sum(line[k] for line in good) for k in ("held", "parameters"))
    row["coverage"] = held / total if total else None
    for tier in ("forecast", "gaps"):
        counts = np.sum([line[tier] for line in good], axis=0)
        # Without noise a hidden value is known to rounding, and has no band.
        known = tier == "gaps" and kind.noise == 0
        row[tier] = (counts[:3] / counts[3]).tolist() if n and counts[3] and not known else None
    row["alarmed"] = [line["seed"] for line in good if line["alarm"]]
    row["fails"] = [name for name, wrong in _failures(row, n, total).items() if wrong]
    return row


def _failures(row: dict[str, Any], n: int, parameters: int) -> dict[str, bool]:
    allowed = ALARMS + 3.0 * np.sqrt(ALARMS * (1 - ALARMS) / max(n, 1))
    least = 0.95 - SLACK - 3.0 * np.sqrt(0.95 * 0.05 / max(parameters, 1))
    return {
        "optimum": bool(row["below"]),
        "coverage": row["coverage"] is not None and row["coverage"] < least,
        "false alarms": row["alarms"] / max(n, 1) > allowed,
        "errors": bool(row["errors"]),
    }


def report(work: Path) -> int:
    """Write the table; 1 where a line of it does not hold."""
    lines = list(read(work))
    kept = RESULTS / "calibration.json"
    before = json.loads(kept.read_text())["rows"] if kept.exists() else []
    rows = [row for kind in KINDS if (row := _row_of(kind, lines, before)) is not None]
    document = {
        "command": "python -m benchmarks.calibration run --work calibration.jsonl && "
        "python -m benchmarks.calibration report --work calibration.jsonl",
        "data_sets": sum(row["data sets"] for row in rows),
        "rows": rows,
        "versions": {"spdelaw": sl.__version__, **versions("numpy", "scipy")},
    }
    text = _markdown(document)
    write_results("calibration", document, text)
    print(text)
    return int(any(row["fails"] for row in rows))


def _row_of(
    kind: Kind, lines: list[dict[str, Any]], before: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Row of the lines, or the one before where that rests on more data sets."""
    own = [line for line in lines if line["kind"] == kind.name]
    old = next((row for row in before if row["kind"] == kind.name), None)
    if own and (old is None or len(own) >= old["data sets"]):
        return summary(kind, own)
    return old


def _markdown(document: dict[str, Any]) -> str:
    first = [_row(row) for row in document["rows"] if "coverage" in row]
    second = [
        [row["kind"], str(row["data sets"]), f"{row['seconds each']:.2f}", str(row["alarms"]),
         str(row["advised"]), str(len(row["errors"])), ", ".join(row["fails"]) or "yes"]
        for row in document["rows"] if "advised" in row
    ]  # fmt: skip
    third = [
        [row["kind"], str(row["data sets"]), f"{row['seconds each']:.2f}",
         f"{row['least gain']:.2f}", str(len(row["errors"])), ", ".join(row["fails"]) or "yes"]
        for row in document["rows"] if "least gain" in row
    ]  # fmt: skip
    ladder = ["each model holds the one before", "sets", "s each", "least gain, nats", "errors",
              "holds"]  # fmt: skip
    head = ["data of the fitted model", "sets", "s each", "worst nats", "95 % intervals hold",
            "forecast bands 50/80/95", "gap bands", "false alarms", "errors", "holds"]  # fmt: skip
    other = ["data of another model", "sets", "s each", "noticed", "right advice", "errors",
             "holds"]  # fmt: skip
    return (
        "## Calibration\n\n"
        f"{document['data_sets']} data sets, by `{document['command']}`; more rounds go on where "
        "the last ones stopped. Worst nats: the log-likelihood found less that of the truth, at "
        f"its worst (may not be below -{NATS}). False alarms: verdicts 'does not fit' on new data "
        "of the same law (1 % and three Monte-Carlo errors allowed). A line that does not hold "
        "says in what.\n\n"
        + table(head, first)
        + "\n\n"
        + table(other, second)
        + "\n\n"
        + table(ladder, third)
        + "\n"
    )


def _row(row: dict[str, Any]) -> list[str]:
    def bands(tier: str) -> str:
        return "/".join(f"{100 * x:.0f}" for x in row[tier]) if row[tier] else "–"

    worst = "–" if row["worst nats"] is None else f"{row['worst nats']:.2f}"
    hold = "–" if row["coverage"] is None else f"{100 * row['coverage']:.1f} %"
    return [
        row["kind"], str(row["data sets"]), f"{row['seconds each']:.2f}", worst, hold,
        bands("forecast"), bands("gaps"), str(row["alarms"]), str(len(row["errors"])),
        ", ".join(row["fails"]) or "yes",
    ]  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
