"""Does the model fit, and what would fit better?

One-step errors of the data under the law should be independent standard normals, up to what the
estimate of the law may be wrong by (`spdelaw.evaluation._allowance`). Tests against the ways of
being wrong (`spdelaw.evaluation._departures`) and of the forecast bands
(`spdelaw.evaluation._bands`) are joined by Holm's method: the chance of any false alarm stays
below the stated rate, whatever the sizes of training and test data.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data import Observed
from spdelaw.evaluation._advice import advise
from spdelaw.evaluation._bands import Band
from spdelaw.evaluation._departures import Departure
from spdelaw.evaluation._series import FEWEST
from spdelaw.evaluation._suite import is_training, suite_of
from spdelaw.law import Law, in_parts, undriven

Array = np.ndarray

#: Joint false-alarm rate of all tests.
FALSE_ALARM = 0.01
#: Departures that the verdict names.
SHOWN = 4


@dataclasses.dataclass(frozen=True)
class ModelCheck:
    """Tests of the innovations.

    Attributes:
        p_values: Dataset over ``series`` with one variable per test of single series.
        overall: p-values of tests of all series together, and of the forecast bands.
        rejected: "mode 3 memory", "mean" and the like, after Holm's correction.
        advice: what to try, the most useful first; empty where the model fits.
        innovations: (path, time, series), NaN where a row says nothing.
        unit: what one series is, "mode" or "component".
    """

    p_values: xr.Dataset
    overall: dict[str, float]
    rejected: list[str]
    advice: list[str]
    innovations: Array
    unit: str

    @property
    def fits(self) -> bool:
        """Whether no test rejects."""
        return not self.rejected

    @property
    def is_checked(self) -> bool:
        """Whether there was anything to test."""
        return bool(self.p_values["variance"].notnull().any())

    @property
    def verdict(self) -> str:
        """One line for people."""
        rate = f"joint false-alarm rate {100 * FALSE_ALARM:g} %"
        if not self.is_checked:
            n = int(np.isfinite(self.innovations).any(-1).sum())
            few = f"{n} errors of single steps are too few, {FEWEST} are needed"
            why = few if n else "no row of the data determines all modes"
            return f"model not checked: {why}"
        if self.fits:
            return f"the model fits: no departure found in the innovations ({rate})"
        shown = ", ".join(self.rejected[:SHOWN])
        more = len(self.rejected) - SHOWN
        return f"the model does not fit: {shown}{f' and {more} more' * (more > 0)} ({rate})"


def check_model(
    law: Law, data: Any, whole: Law | None = None, seen: bool | None = None
) -> ModelCheck:
    """Test the innovations of data under a law.

    Args:
        law: without preparation, for fields as ``law.prepared`` returns them.
        data: these, or `spdelaw.data.Observed` of them.
        whole: the same law with its preparation, where it has one.
        seen: whether the law was learned from these data; by default, whether they are the same
            numbers.
    """
    own = undriven(law, data)
    own = (own if in_parts(law, own) else own.in_memory()).at_seen_points()
    if seen is None:
        seen = is_training(law, own.at_seen_times())
    suite = suite_of(law, own.at_seen_times(), law if whole is None else whole, seen)
    found, bands = suite.run()
    unit = suite.errors.unit
    rejected = _holm(_named(found, bands, unit))
    series = np.arange(1, suite.errors.z.shape[-1] + 1)
    alone = {d.test: ("series", d.p_series) for d in found if np.isfinite(d.p_series).any()}
    nothing = {"variance": ("series", np.full(len(series), np.nan))}
    overall = {d.test: d.p for d in found if np.isfinite(d.p)}
    overall |= {str(band): band.p_value for band in bands}
    return ModelCheck(
        xr.Dataset(nothing | alone, coords={"series": series}),
        overall,
        rejected,
        advise(law, found, bands, rejected, unit, suite.series),
        _at_all_times(suite.errors.z, own),
        unit,
    )


def _at_all_times(z: Array, own: Observed) -> Array:
    """Innovations (path, time, series) at the times of the data, NaN where nothing is seen."""
    if own.times.ndim == 2 or z.shape[1] >= len(own.times):
        return z
    seen = np.isin(own.times, own.at_seen_times().times)
    ahead = z.shape[1] - int(seen.sum())  # a row where the law starts
    if ahead < 0:  # of a very long record some stretches alone are tested
        return z
    out = np.full((len(z), ahead + len(seen), z.shape[2]), np.nan)
    out[:, np.append(np.ones(ahead, bool), seen)] = z
    return out


def _named(found: list[Departure], bands: list[Band], unit: str) -> list[tuple[float, str]]:
    """Every p-value with the name of its test."""
    alone = [(float(p), f"{unit} {n} {d.test}") for d in found for n, p in enumerate(d.p_series, 1)]
    together = [(d.p, d.test) for d in found]
    return [*alone, *together, *((band.p_value, str(band)) for band in bands)]


def _holm(named: list[tuple[float, str]]) -> list[str]:
    named = sorted(pair for pair in named if np.isfinite(pair[0]))
    rejected = []
    for rank, (p, name) in enumerate(named):
        if p > FALSE_ALARM / (len(named) - rank):
            break
        rejected.append(name)
    return rejected


def describe_check(check: ModelCheck) -> dict[str, Any]:
    """Plain description for JSON."""
    return {
        "fits": check.fits,
        "verdict": check.verdict,
        "advice": check.advice,
        "rejected": check.rejected,
        "false_alarm_rate": FALSE_ALARM,
        "p_values": {str(k): v.values.tolist() for k, v in check.p_values.items()},
        "overall": check.overall,
        "unit": check.unit,
    }
