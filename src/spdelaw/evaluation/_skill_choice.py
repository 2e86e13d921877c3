"""Which law: the modes, their number and their coupling whose forecasts of a held-out end are best.

All is chosen within the first past, before any origin, so that no score knows of the choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import whole
from spdelaw.domain import AbstractDomain
from spdelaw.errors import InputError, SpdeLawError
from spdelaw.evaluation._hindcast import PATTERNS, Plan, Trial, hindcast
from spdelaw.evaluation._skill_scores import origin_sums

#: Numbers that "auto" tries, where there are points and times enough for them.
TRIED = (1, 2, 3, 5, 8, 12, 20)
#: Most modes of a dense drift among them: it has their square of numbers to learn.
MOST_DENSE = 12
#: Relative difference of two scores below which they are the same.
TIE = 0.002
#: Relative difference of two scores that few origins cannot tell from chance.
CLOSE = 0.01
#: Share of the first past that is forecast, and times per mode, at least.
HELD_OUT, TIMES_PER_MODE = 0.25, 4
#: Most origins there: for all laws, and for those that are close.
SOME_ORIGINS, MORE_ORIGINS = 24, 96


def candidates(
    trial: Trial, n_modes: Any, places: list[AbstractDomain | str], past: xr.DataArray
) -> list[Trial]:
    """Laws to choose from: every place with every number of modes, and what may couple them.

    Modes of a domain decay on their own unless ``drift`` says otherwise; patterns of the data are
    tried alone and with a dense drift, by which they turn into one another. Where patterns are
    tried, nothing is tested for that costs much: records count as stationary, without a mean of
    their own if anomalies were taken.
    """
    given, counts = trial.settings.get("drift"), _counts(n_modes, past)
    if PATTERNS in places:
        trial = trial.quick
    found = [trial.at(place, given, n) for place in places for n in counts]
    if given is None and PATTERNS in places:
        most = MOST_DENSE if n_modes == "auto" else max(counts)
        found += [trial.at(PATTERNS, "dense", n) for n in counts if 1 < n <= most]
    return found


def _counts(n_modes: Any, past: xr.DataArray) -> list[int]:
    if isinstance(n_modes, list | tuple) and n_modes:
        return [whole("n_modes", n, 1) for n in n_modes]
    if n_modes == "auto":
        points = int(np.prod(past.shape[2:]))
        most = min(points, past.shape[0] * past.shape[1] // TIMES_PER_MODE)
        return [n for n in TRIED if n <= most] or [1]
    if isinstance(n_modes, str | list | tuple):
        expected, got = 'a number, numbers to choose from, or "auto"', repr(n_modes)
        raise InputError("n_modes", expected=expected, got=got, fix="pass n_modes=[3, 6, 12]")
    return [whole("n_modes", n_modes, 1)]


def choose(
    past: xr.DataArray,
    tried: list[Trial],
    leads: tuple[int, ...],
    progress: Callable[[int], Any],
) -> tuple[Trial, dict[str, float]]:
    """The best law, and for each its CRPS relative to the climatology's, mean over leads.

    Laws that come close to the best one are judged again from more origins. Of laws that are as
    good then the one with the fewest numbers; what cannot be learned is left out.
    """
    if len(tried) == 1:
        return tried[0], {}
    plan = _inner_plan(past.sizes["time"], leads, SOME_ORIGINS)
    found: dict[int, float] = {}
    last: SpdeLawError | None = None
    for i, trial in enumerate(tried):
        try:
            found[i] = _score(past, trial._replace(rivals=("climatology",)), plan)
        except SpdeLawError as error:
            last = error
        progress(i + 1)
    if not found:
        raise last or InputError("n_modes", expected="numbers", got="none", fix="n_modes=5")
    final = _again(past, tried, _within(found, CLOSE), leads, plan) or found
    best = min(_within(final, TIE), key=lambda i: (tried[i].n_numbers, final[i]))
    found |= final
    return tried[best], {str(tried[i]): value for i, value in found.items()}


def _within(found: dict[int, float], margin: float) -> list[int]:
    """Laws whose score is the least one or larger by a margin."""
    return [i for i, value in found.items() if value <= (1.0 + margin) * min(found.values())]


def _again(
    past: xr.DataArray, tried: list[Trial], close: list[int], leads: tuple[int, ...], plan: Plan
) -> dict[int, float]:
    """Scores from more origins of laws that fewer could not tell apart."""
    more = _inner_plan(past.sizes["time"], leads, MORE_ORIGINS)
    if len(close) < 2 or len(more.origins) == len(plan.origins):
        return {}
    return {i: _score(past, tried[i]._replace(rivals=("climatology",)), more) for i in close}


def _inner_plan(n: int, leads: tuple[int, ...], most: int) -> Plan:
    """Origins at the end of the past, learned from once; late ones reach short leads alone."""
    start = max(4, round((1.0 - HELD_OUT) * n))
    kept = tuple(k for k in leads if start + k <= n) or leads[:1]
    origins = np.unique(np.linspace(start, n - kept[0], most).astype(int))
    return Plan(tuple(origins.tolist()), (0,), kept)


def _score(past: xr.DataArray, trial: Trial, plan: Plan) -> float:
    crps = np.zeros((2, len(plan.leads)))  # law and climatology
    for issued in hindcast(past, trial, plan):
        sums = origin_sums(issued)[0][:, 1]
        crps[:, : sums.shape[1]] += sums
    return float(np.mean(crps[0] / crps[1]))
