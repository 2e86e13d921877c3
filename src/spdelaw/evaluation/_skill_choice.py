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
#: Share of the first past that is forecast, most origins there, and times per mode, at least.
HELD_OUT, MOST_ORIGINS, TIMES_PER_MODE = 0.25, 24, 4


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
        raise InputError(
            "n_modes",
            expected='a number, numbers to choose from, or "auto"',
            got=repr(n_modes),
            fix="pass n_modes=[3, 6, 12]",
        )
    return [whole("n_modes", n_modes, 1)]


def choose(
    past: xr.DataArray,
    tried: list[Trial],
    leads: tuple[int, ...],
    progress: Callable[[int], Any],
) -> tuple[Trial, dict[str, float]]:
    """The best law, and for each its CRPS relative to the climatology's, mean over leads.

    Of laws that are as good the one with the fewest numbers; what cannot be learned is left out.
    """
    if len(tried) == 1:
        return tried[0], {}
    plan = _inner_plan(past.sizes["time"], leads)
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
    least = min(found.values())
    near = [i for i, value in found.items() if value <= (1.0 + TIE) * least]
    best = min(near, key=lambda i: (tried[i].n_numbers, found[i]))
    return tried[best], {str(tried[i]): value for i, value in found.items()}


def _inner_plan(n: int, leads: tuple[int, ...]) -> Plan:
    """Origins at the end of the past, learned from once; late ones reach short leads alone."""
    start = max(4, round((1.0 - HELD_OUT) * n))
    kept = tuple(k for k in leads if start + k <= n) or leads[:1]
    origins = np.unique(np.linspace(start, n - kept[0], MOST_ORIGINS).astype(int))
    return Plan(tuple(origins.tolist()), (0,), kept)


def _score(past: xr.DataArray, trial: Trial, plan: Plan) -> float:
    crps = np.zeros((2, len(plan.leads)))  # law and climatology
    for issued in hindcast(past, trial, plan):
        sums = origin_sums(issued)[0][:, 1]
        crps[:, : sums.shape[1]] += sums
    return float(np.mean(crps[0] / crps[1]))
