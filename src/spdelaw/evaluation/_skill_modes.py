"""How many modes: the number whose forecasts of a held-out end of the first past are best."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import whole
from spdelaw.errors import InputError, SpdeLawError
from spdelaw.evaluation._hindcast import Plan, Trial, hindcast
from spdelaw.evaluation._skill_scores import origin_sums

#: Numbers that "auto" tries, where there are points and times enough for them.
TRIED = (2, 3, 5, 8, 12, 20)
#: Share of the first past that is forecast, most origins there, and times per mode, at least.
HELD_OUT, MOST_ORIGINS, TIMES_PER_MODE = 0.25, 24, 4


def candidates(n_modes: Any, past: xr.DataArray) -> list[int]:
    """Numbers of modes to choose from; a single one where it is given."""
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


def choose_modes(
    past: xr.DataArray, trial: Trial, tried: list[int], leads: tuple[int, ...]
) -> tuple[int, dict[int, float]]:
    """The best number, and for each its CRPS relative to the climatology's, mean over leads.

    Numbers for which no law can be learned are left out.
    """
    if len(tried) == 1:
        return tried[0], {}
    plan = _inner_plan(past.sizes["time"], leads)
    found, last = {}, None
    for n in tried:
        try:
            found[n] = _score(past, trial._replace(n_modes=n, rivals=("climatology",)), plan)
        except SpdeLawError as error:
            last = error
    if not found:
        raise last or InputError("n_modes", expected="numbers", got="none", fix="n_modes=5")
    return min(found, key=lambda n: found[n]), found


def _inner_plan(n: int, leads: tuple[int, ...]) -> Plan:
    """Origins at the end of the past, learned from once; short leads where it is short."""
    start = max(4, round((1.0 - HELD_OUT) * n))
    kept = tuple(k for k in leads if start + k <= n) or leads[:1]
    origins = np.unique(np.linspace(start, n - kept[-1], MOST_ORIGINS).astype(int))
    return Plan(tuple(origins.tolist()), (0,), kept)


def _score(past: xr.DataArray, trial: Trial, plan: Plan) -> float:
    parts = [origin_sums(issued) for issued in hindcast(past, trial, plan)]
    crps = np.sum([sums[:, 1] for sums, _ in parts], axis=0)  # (predictor, lead)
    return float(np.mean(crps[0] / crps[1]))
