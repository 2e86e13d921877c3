"""Calibration: optima, intervals, bands and verdicts on thousands of data sets.

    python -m benchmarks.calibration run --work calibration.jsonl --seconds 3600
    python -m benchmarks.calibration report --work calibration.jsonl
    python -m benchmarks.calibration quick

``run`` goes round the kinds and appends one line per data set, so that it can be stopped and goes
on where it was; ``--only NAME`` takes some kinds, ``--sets N`` ends a kind with so many data sets,
and several ``--work`` files (one per process) are reported together. ``report`` writes
``benchmarks/results/calibration.json`` and ``.md``; rows that rest on more data sets than the lines
have stay as they were. Of each data set: the log-likelihood found less that of the truth, how many
95 % intervals of parameters held it, how many test values the forecast and gap bands of 50, 80 and
95 % held, and whether the verdict on test data of the same law is an alarm.

``quick`` is what the tests of the package run: two data sets of every cheap kind, judged together.
Were its seeds new each time, it would fail a package that holds every line once in 5,000 runs:
`QUICK_RATE` for the intervals and as much for the alarms; optima and errors have no chance in them.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks._calibration_kinds import KINDS, Kind
from benchmarks._timing import RESULTS, current_commit, table, versions, write_results

import numpy as np  # isort: skip
import scipy.stats  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.processes.linear import Linear  # isort: skip
from spdelaw.evaluation.scorecard import evaluate

from spdelaw.evaluation.tasks import parameter_errors, predict_tier  # isort: skip

#: Nats that a fit may lack of the truth, false-alarm rate, band levels.
NATS, ALARMS, LEVELS = 0.5, 0.01, (0.5, 0.8, 0.95)
#: Failures that chance has no part in, and data sets from which on bands have an error.
EXACT, FEW_SETS = ("optimum", "errors"), 10
#: Undercoverage of a 95 % interval that is tolerated, in addition to three Monte-Carlo errors.
SLACK = 0.01
#: Rate at which each of the two random counts of ``quick`` fails by chance, data sets of a kind,
#: and the turns from which on a kind is cheap.
QUICK_RATE, QUICK_SETS, CHEAP = 1e-4, 2, 4


def main(arguments: list[str] | None = None) -> int:
    """Run or report; 1 where a line of the report does not hold."""
    given = options(__doc__, ("run", "report", "quick")).parse_args(arguments)
    if given.what == "quick":
        wrong = quick()
        print("\n".join(wrong) or "every line holds")
        return int(bool(wrong))
    if given.what == "run":
        run(given, KINDS, measure)
        return 0
    return report(read(*given.work))


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
        seen = _attainable(law, kind, train, card)
        return {"alarm": not card.check.fits, "advised": advised, "attainable": seen}
    if kind.terms:
        return _reacting(kind, train)
    test = kind.data(seed, test=True)
    law = sl.fit(train, kind.truth.domain, kind.truth.n_modes, **kind.words)
    card = evaluate(law, test, tiers=(), max_paths=10**6)
    held, n = _parameters(law, kind)
    return {
        "nats": _nats(law, kind, train),
        "held": held,
        "parameters": n,
        **{tier: _bands(law, kind, test, tier, seed) for tier in ("forecast", "gaps")},
        "alarm": not card.check.fits,
        "rejected": card.check.rejected[:3],
    }


def _reacting(kind: Kind, train: Any) -> dict[str, Any]:
    """Intervals of nu and of the coefficients of a semilinear law, with default options."""
    terms = tuple(name for name in kind.terms if name != "nu")
    law = sl.fit(train, kind.truth.domain, kind.truth.n_modes, terms=terms)
    estimate, error = law.info["estimates"], law.info["standard_errors"]
    edge = scipy.special.ndtri(0.975)
    inside = [abs(estimate[k] - v) <= edge * error[k] for k, v in kind.terms.items()]
    none = [0] * (len(LEVELS) + 1)
    intervals = {"held": int(sum(inside)), "parameters": len(inside)}
    return {"nats": None, **intervals, "forecast": none, "gaps": none, "alarm": False}


def _attainable(law: sl.Law, kind: Kind, train: Any, card: Any) -> bool:
    """Whether a likelihood-ratio test that knows which one number is missing sees it.

    Against the right model, less one for each number too many (their mean), at the rate that a
    joint check leaves to each of its tests; true where there is no such model.
    """
    if not kind.right:
        return True
    right = sl.fit(train, kind.truth.domain, kind.truth.n_modes, **{**kind.words, **kind.right})
    gain = 2.0 * (right.info["log_likelihood"] - law.info["log_likelihood"])
    more = right.info["n_parameters"] - law.info["n_parameters"]
    alone = sum(int(p.notnull().sum()) for p in card.check.p_values.values())
    tests = alone + len(card.check.overall)
    return bool(scipy.stats.chi2.sf(gain - (more - 1), 1) < ALARMS / tests)


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
    own = truth.dynamics
    dynamics = Linear(own.drift, u**2 * own.noise, mean=own.mean)
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
    """How many of the 95 % intervals of drift, noise and mean hold the truth, and of how many.

    A mean that the fit has estimated and dropped has the interval [0, 0].
    """
    errors = parameter_errors(law, kind.truth)
    names = [str(n)[:-2] for n in errors if str(n).endswith("_z")]
    truths = {n: errors[f"{n}_truth"].values for n in names}
    if "mean" in law.parameters:
        centre = kind.truth.centre
        truths["mean"] = np.zeros(law.n_modes) if centre is None else kind.scale * centre
    held = n = 0
    if law.info["decisions"]["mean"].get("largest_z_of_mean") and "mean" not in law.parameters:
        n = law.n_modes
        held = n if kind.truth.centre is None else int((kind.truth.centre == 0.0).sum())
    for name, own in truths.items():
        table_ = law.parameters[name].values
        true = own * (kind.scale**2 if "noise" in name else 1.0)
        estimated = table_[..., 1] > 0
        inside = (table_[..., 2] <= true) & (true <= table_[..., 3])
        held, n = held + int(inside[estimated].sum()), n + int(estimated.sum())
    return held, n


def _bands(law: sl.Law, kind: Kind, test: Any, tier: str, seed: int) -> list[int]:
    """Values inside bands of 50, 80 and 95 %, and how many there were."""
    if tier == "gaps" and not kind.noise:
        return [0] * (len(LEVELS) + 1)  # a hidden value is known to rounding, and has no band
    # With its mean, whose uncertainty the drawn laws have too; no kind has a preparation.
    observed = law.observe(law.domain.flatten(test).isel(path=slice(20)))
    mean, std, truth = predict_tier(law, observed, tier, seed, kind.draws)
    there = ~np.isnan(truth) & (std > 1e-7 * np.sqrt(np.nanmean(truth**2)))
    z = np.abs(truth - mean)[there] / std[there]
    edges = scipy.special.ndtri(0.5 + 0.5 * np.array(LEVELS))
    return [*(int((z <= edge).sum()) for edge in edges), int(there.sum())]


# -- runs and reports -------------------------------------------------------------------------


def options(doc: str, tasks: tuple[str, ...] = ("run", "report")) -> argparse.ArgumentParser:
    """Options of a calibration that goes round its kinds."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("what", choices=tasks)
    parser.add_argument("--work", type=Path, nargs="+", default=[Path("calibration.jsonl")])
    parser.add_argument("--seconds", type=float, default=600.0, help="time to run for")
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="first words")
    parser.add_argument("--sets", type=int, default=10**9, help="most data sets of a kind")
    return parser


def run(given: argparse.Namespace, kinds: Sequence[Any], measure: Callable) -> None:
    """Append lines until the time is over or every kind has that many sets, ``turns`` a round."""
    kinds, work = [k for k in kinds if k.name.startswith(tuple(given.only))], given.work[0]
    done = {(line["kind"], line["seed"]) for line in read(work)}
    start, turn, commit = time.monotonic(), 0, current_commit()
    while any(turn * kind.turns < given.sets for kind in kinds):
        for kind in kinds:
            for seed in range(turn * kind.turns, min((turn + 1) * kind.turns, given.sets)):
                if (kind.name, seed) not in done:
                    with work.open("a") as file:
                        file.write(json.dumps(measure(kind, seed) | {"commit": commit}) + "\n")
                if time.monotonic() - start > given.seconds:
                    return
        turn += 1


def quick(kinds: tuple[Kind, ...] = KINDS, sets: int = QUICK_SETS) -> list[str]:
    """What does not hold, of a few data sets of every cheap kind together."""
    some = [kind for kind in kinds if kind.turns >= CHEAP]
    rows = [summary(kind, [measure(kind, seed) for seed in range(sets)]) for kind in some]
    wrong = [f"{row['kind']}: {fail}" for row in rows for fail in row["fails"] if fail in EXACT]
    n = sum(row["intervals"] for row in rows)
    missed = sum(row["intervals"] * (1.0 - row["coverage"]) for row in rows)
    counts = {
        "95 % intervals that miss": (missed, n, 0.05 + SLACK),
        "false alarms": (sum(row["alarms"] for row in rows), sets * len(rows), ALARMS),
    }
    for name, (count, of, rate) in counts.items():
        if count > scipy.stats.binom.isf(QUICK_RATE, of, rate):
            wrong.append(f"{name}: {count:.0f} of {of}")
    return wrong


def read(*works: Path) -> list[dict[str, Any]]:
    """Lines of runs; the last one of each may have been cut."""
    lines = []
    for work in works:
        for text in work.read_text().splitlines() if work.exists() else ():
            with contextlib.suppress(json.JSONDecodeError):
                lines.append(json.loads(text))
    return lines


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
        "commits": sorted({line["commit"] for line in lines if "commit" in line}),
    }
    if kind.ladder:
        row["least gain"] = min((line["nested"] for line in good), default=None)
        row["below"] = [line["seed"] for line in good if line["nested"] < -NATS]
        row["fails"] = ["nestedness"] * bool(row["below"]) + ["errors"] * bool(row["errors"])
        return row
    if kind.wrong:
        row["advised"] = sum(line["advised"] for line in good)
        row["attainable"] = sum(line.get("attainable", True) for line in good)
        row["fails"] = [] if row["advised"] >= 0.95 * row["attainable"] else ["power"]
        return row
    nats = [line["nats"] for line in good if line["nats"] is not None]
    row["compared"], row["worst nats"] = len(nats), min(nats, default=None)
    row["below"] = [line["seed"] for line in good if (line["nats"] or 0.0) < -NATS]
    held, total = (sum(line[k] for line in good) for k in ("held", "parameters"))
    row["coverage"], row["intervals"] = held / total if total else None, total
    for tier in ("forecast", "gaps"):
        row[tier], row[f"{tier} error"] = _shares([line[tier] for line in good])
    row["alarmed"] = [line["seed"] for line in good if line["alarm"]]
    row["fails"] = [name for name, wrong in _failures(row, n, total).items() if wrong]
    return row


def _shares(counts: list[list[int]]) -> tuple[list[float] | None, list[float] | None]:
    """Shares inside the bands, and their Monte-Carlo errors: a data set counts as one."""
    table_ = np.array(counts, float).reshape(-1, len(LEVELS) + 1)
    n, total = len(table_), table_[:, -1].sum()
    if not total:
        return None, None
    share = table_[:, :-1].sum(0) / total
    apart = table_[:, :-1] - share * table_[:, -1:]
    error = np.sqrt((apart**2).sum(0) * n / max(n - 1, 1)) / total
    return share.tolist(), error.tolist()


def _off(row: dict[str, Any], tier: str) -> bool:
    """Whether bands hold another share than they say."""
    if row[tier] is None or row["data sets"] < FEW_SETS:
        return False
    gap = np.abs(np.subtract(row[tier], LEVELS))
    return bool((gap > SLACK + 3.0 * np.array(row[f"{tier} error"])).any())


def _failures(row: dict[str, Any], n: int, parameters: int) -> dict[str, bool]:
    allowed = ALARMS + 3.0 * np.sqrt(ALARMS * (1 - ALARMS) / max(n, 1))
    least = 0.95 - SLACK - 3.0 * np.sqrt(0.95 * 0.05 / max(parameters, 1))
    return {
        "optimum": bool(row["below"]),
        "coverage": row["coverage"] is not None and row["coverage"] < least,
        "false alarms": row["alarms"] / max(n, 1) > allowed,
        "forecast bands": _off(row, "forecast"),
        "gap bands": _off(row, "gaps"),
        "errors": bool(row["errors"]),
    }


def report(lines: list[dict[str, Any]]) -> int:
    """Write the table; 1 where a line of it does not hold."""
    kept = RESULTS / "calibration.json"
    before = json.loads(kept.read_text())["rows"] if kept.exists() else []
    rows = [row for kind in KINDS if (row := _row_of(kind, lines, before)) is not None]
    document = {
        "command": "python -m benchmarks.calibration run --work calibration.jsonl && "
        "python -m benchmarks.calibration report --work calibration.jsonl",
        "data_sets": sum(row["data sets"] for row in rows),
        "of_coupled_kinds": sum(
            row["data sets"]
            for row in rows
            for kind in KINDS
            if kind.name == row["kind"] and kind.couples
        ),
        "commits": sorted({c for row in rows for c in row.get("commits", [])}),
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
         str(row["advised"]), str(row.get("attainable", row["data sets"])),
         str(len(row["errors"])), ", ".join(row["fails"]) or "yes"]
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
    other = ["data of another model", "sets", "s each", "noticed", "right advice", "attainable",
             "errors", "holds"]  # fmt: skip
    return (
        "## Calibration\n\n"
        f"{document['data_sets']} data sets, {document['of_coupled_kinds']} of them of coupled "
        f"modes, by `{document['command']}` at {' and '.join(document['commits'])}; more rounds go "
        "on where the last ones stopped. Worst nats: the log-likelihood found less that of the "
        f"truth, at its worst (may not be below -{NATS}). False alarms: verdicts 'does not fit' on "
        "new data of the same law (1 % and three Monte-Carlo errors allowed). Bands may be off by "
        "1 % and three Monte-Carlo errors, which count data sets and not values; those of one path "
        "and of 5 paths of 11 know how well the law is known (`parameter_draws`). Advice must be "
        "right in 95 % of what is attainable: the data sets in which a likelihood-ratio test that "
        "knows which one number is missing sees it, at the rate that a joint check leaves to each "
        "of its tests. A line that does not hold says in what.\n\n"
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
