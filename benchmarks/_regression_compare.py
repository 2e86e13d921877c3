"""Records of `benchmarks.regression` against one another: differences, tolerances, verdicts."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray
Record = dict[str, Any]

#: Largest relative differences at fixed parameters, of fits and of trainings.
FIXED, FIT, TRAINING = 1e-10, 1e-8, 1e-6
#: Of numbers in a flat record, all of which follow a fit: its search may end elsewhere within
#: `STANDARD_ERRORS`. Numbers at fixed parameters are those of the first net.
FOLLOWING = 1e-4
#: Beginning of names in a flat record that have the rule of fits.
FIT_PREFIX = "fit:"
#: Names of entries that a verdict shows.
SHOWN = 3
#: Largest difference of a fit whose search took another way, in standard errors ...
STANDARD_ERRORS = 0.02
#: ... and log-likelihood that it may lose: a twentieth of what 0.02 standard errors are worth.
LEAST_GAIN = 1e-5
#: Laws whose initial state has a spread, so that the first row had an innovation in 0.1. The check
#: now counts steps alone.
FIRST_STATE_SEEN = (
    "noisy_further_modes",
    "own_times_ragged",
    "noise_estimate",
    "initial_gaussian_noisy",
    "initial_stationary_gaps",
)


class Row(NamedTuple):
    """One line of the table; NaN where there is nothing to compare.

    Attributes:
        name, route: of the case.
        fixed: largest relative difference at fixed parameters.
        fit, errors: largest difference of the fit, relative and in standard errors.
        gain: log-likelihood of the fit less that of the reference.
        verdict: "OK" or "DIFFERS", and why.
    """

    name: str
    route: str
    fixed: float
    fit: float
    errors: float
    gain: float
    verdict: str

    @property
    def is_same(self) -> bool:
        """Whether all is within the tolerances."""
        return self.verdict.startswith("OK")

    def __str__(self) -> str:
        """The line itself."""
        numbers = " ".join("       -" if math.isnan(x) else f"{x:8.1e}" for x in self[2:6])
        return f"{self.name:36} {self.route:10} {numbers}  {self.verdict}"


HEAD = f"{'case':36} {'route':10} {'fixed':>8} {'fit':>8} {'in s.e.':>8} {'log p':>8}  verdict"


def failed(name: str, old: Record | None, why: str) -> Row:
    """Row of a case that could not be run."""
    route = (old or {}).get("route", "")
    return Row(name, route, *(math.nan,) * 4, f"DIFFERS: {why}")


def judge(name: str, old: Record, new: Record, change: str = "", on_file: str = "") -> Row:
    """Row of a case.

    ``change`` names a new meaning of the log-likelihood of a fit, ``on_file`` one of the law that
    was saved.
    """
    reasons = [] if old["sha256"] == new["sha256"] else ["other data"]
    is_free = bool(change or on_file)
    free = {"log_likelihood"} if is_free else set()
    free |= {"innovations"} if name in FIRST_STATE_SEEN else set()
    fixed = _fixed_difference(old["fixed"], new["fixed"], free)
    reasons += [] if fixed <= FIXED else ["fixed"]
    if "parameters" not in old:
        return Row(name, "score", fixed, *(math.nan,) * 3, _verdict(reasons, change))
    gain = new["log_likelihood"] - old["log_likelihood"]
    if not _is_comparable(old, new):
        reasons.append(f"decided {new['decisions']}, not {old['decisions']}")
        return Row(name, old["route"], fixed, math.inf, math.inf, gain, _verdict(reasons))
    relative, errors = _fit_differences(old["parameters"], new["parameters"])
    fit, standard = float(relative.max()), float(np.fmax.reduce(errors, axis=None, initial=0.0))
    if "training" in old:
        curves = [
            {k: v for k, v in part["training"].items() if not (change and k == "elbo")}
            for part in (old, new)
        ]
        fit = max(fit, _largest_difference(*curves))
        reasons += [] if fit <= TRAINING else ["training"]
        how = "bit for bit" if fit == 0.0 else f"to {TRAINING:g}"
    else:
        reasons += _fit_reasons(relative, errors, gain, abs(old["log_likelihood"]), bool(change))
        how = "" if fit <= FIT else "another way to the maximum"
    named = change or on_file
    return Row(name, old["route"], fixed, fit, standard, gain, _verdict(reasons, how, named))


def judge_flat(name: str, old: Record, new: Record, changes: dict[str, str]) -> Row:
    """Row of a case of the second net, whose record is flat.

    ``changes`` has reasons of deliberate changes by case, or by case and beginning of a name,
    ``"case/name"``: what they name is not compared.
    """
    old, new = (_unchanged(name, part, changes) for part in (old, new))
    wrong = [f"only in one: {key}" for key in sorted(old.keys() ^ new.keys())]
    both = [key for key in old if key in new]
    fits = [key for key in both if key.startswith(FIT_PREFIX)]
    distances = {key: _distance(old[key], new[key]) for key in both if key not in fits}
    wrong += [key for key, distance in distances.items() if distance > FOLLOWING]
    fixed = max((d for d in distances.values() if math.isfinite(d)), default=0.0)
    fit, errors, gain = 0.0, 0.0, math.nan
    for label in dict.fromkeys(key.split(":")[1] for key in fits):
        prefix = f"{FIT_PREFIX}{label}:"
        keys = [key for key in fits if key.startswith(prefix)]
        relative, standard, gained, reasons = _flat_fit(
            {key: old[key] for key in keys}, {key: new[key] for key in keys}, prefix
        )
        fit, errors, gain = max(fit, relative), max(errors, standard), np.fmin(gain, gained)
        wrong += [f"{prefix} {reason}" for reason in reasons]
    more = f" and {len(wrong) - SHOWN} more" * (len(wrong) > SHOWN)
    verdict = _verdict(wrong[:SHOWN], *_reasons_of(name, changes)) + more
    fit, errors = (fit, errors) if fits else (math.nan, math.nan)
    return Row(name, "", fixed, fit, errors, float(gain), verdict)


def _reasons_of(name: str, changes: dict[str, str]) -> list[str]:
    reasons = [why for key, why in changes.items() if key.split("/")[0] == name]
    return list(dict.fromkeys(reasons))


def _unchanged(name: str, record: Record, changes: dict[str, str]) -> Record:
    """What of a record no deliberate change names."""
    free = [key.partition("/")[2] for key in changes if key.split("/")[0] == name]
    return {key: v for key, v in record.items() if not any(key.startswith(f) for f in free)}


def _distance(old: Any, new: Any) -> float:
    """Relative difference of numbers; of texts 0 where they are equal."""
    numbers = [isinstance(v, list) and not any(isinstance(e, str) for e in v) for v in (old, new)]
    if all(numbers):
        return _largest_difference({"": old}, {"": new})
    return 0.0 if old == new else math.inf


def _flat_fit(old: Record, new: Record, prefix: str) -> tuple[float, float, float, list[str]]:
    """Differences of a fit, relative and in standard errors, what it gains and what is wrong."""
    likelihood = f"{prefix}log_likelihood"
    gain = new[likelihood][0] - old[likelihood][0]
    tables = [{k: v for k, v in part.items() if k != likelihood} for part in (old, new)]
    if any(len(tables[0][k]) != len(tables[1][k]) for k in tables[0]):
        return math.inf, math.inf, gain, ["other parameters"]
    relative, errors = _fit_differences(*tables)
    standard = float(np.fmax.reduce(errors, axis=None, initial=0.0))
    reasons = _fit_reasons(relative, errors, gain, abs(old[likelihood][0]), is_free=False)
    return float(relative.max(initial=0.0)), standard, gain, reasons


def _verdict(reasons: list[str], *notes: str) -> str:
    if reasons:
        return f"DIFFERS: {', '.join(reasons)}"
    return ": ".join(["OK", *(note for note in notes if note)])


def _fit_reasons(
    relative: Array, errors: Array, gain: float, size: float, is_free: bool
) -> list[str]:
    """What is wrong with a fit; a log-likelihood of other numbers is not compared."""
    if ((relative > FIT) & ~(errors <= STANDARD_ERRORS)).any():
        return ["fit"]
    same = abs(gain) <= FIT * max(size, 1.0)
    lower = not gain >= -(LEAST_GAIN + FIXED * size)
    is_good = same if (relative <= FIT).all() else not lower
    return [] if is_good or is_free else ["log-likelihood"]


def _fixed_difference(old: dict, new: dict, free: set[str]) -> float:
    """Largest relative difference of all but what is free to have another meaning."""
    rest = [{k: v for k, v in part.items() if k not in free} for part in (old, new)]
    return _largest_difference(*rest)


def _largest_difference(old: dict, new: dict) -> float:
    """Of lists of numbers by name, each relative to the largest number of its list."""
    if old.keys() != new.keys() or any(len(old[k]) != len(new[k]) for k in old):
        return math.inf
    found = [0.0]
    for key, values in old.items():
        a, b = np.asarray(values, float), np.asarray(new[key], float)
        scale, change = np.abs(a).max(initial=0.0), np.abs(b - a).max(initial=0.0)
        found.append(float(change / (scale if scale > 0 else 1.0)))
    return math.inf if np.isnan(found).any() else max(found)


def _is_comparable(old: Record, new: Record) -> bool:
    a, b = old["parameters"], new["parameters"]
    if old["decisions"] != new["decisions"] or a.keys() != b.keys():
        return False
    return all(np.shape(a[key]) == np.shape(b[key]) for key in a)


def _fit_differences(old: Record, new: Record) -> tuple[Array, Array]:
    """Differences of all parameters, (n, 4) each: relative, and in standard errors.

    Relative to the number itself, or to its estimate or standard error where that is larger. An
    end of an interval counts in half-lengths of it where they exceed the standard error. The
    second is NaN where there is no standard error.
    """
    a, b = (np.concatenate([np.reshape(part[k], (-1, 4)) for k in old]) for part in (old, new))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        change = np.where(same, 0.0, np.where(np.isfinite(b - a), np.abs(b - a), np.inf))
        error = np.where(np.isfinite(a[:, 1:2]), a[:, 1:2], 0.0)
        size = np.fmax(np.abs(a), np.fmax(np.abs(a[:, :1]), error))
        size[:, 1] = error[:, 0]
        reach = np.where(np.arange(4) >= 2, np.abs(a - a[:, :1]), 0.0)
        relative = np.where(same, 0.0, change / size)
        errors = np.where(error > 0, change / np.fmax(error, reach), np.nan)
    return relative, errors
