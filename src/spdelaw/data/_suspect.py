"""Values and coordinates that look like a mistake, with its name and the line that mends it."""

from __future__ import annotations

import numpy as np
import xarray as xr

from spdelaw.data._recognise import RADIANS, is_latitude, is_longitude
from spdelaw.errors import DataError

#: Numbers that programs write where there is nothing, exact or as single precision.
FILLS = (
    1e20, 9.96920996838687e36, 1e30, 1e35, 1e36, 9.999e20, -1e34, -9999.0, -99999.0, -999.0,
    -99.99, -999.9, -9999.9, 99999.0, 9999.0, 999.9, -32768.0, -32767.0, 32767.0, -2147483647.0,
)  # fmt: skip
#: A fill lies farther from everything else than this many ranges of the rest.
FAR = 5.0
#: Mean of a field in its standard deviations above which it was hardly meant to be zero.
FAR_FROM_ZERO = 3.0
#: Numbers in kelvin: what a mean of so much in units of K is.
KELVIN = (150.0, 400.0)


def check_plausible(fields: xr.DataArray) -> None:
    """Refuse undeclared fills among the values: a law of them would be about them alone."""
    for value, count in suspect_fills(np.asarray(fields.values)):
        raise DataError(
            "values", expected="numbers, and NaN where there is none",
            got=f"{count} times {value:g}, far from all others: a fill that the file does not "
            "declare",
            fix=f"pass --missing {value:g}, or in Python data.where(data != {value!r})",
        )  # fmt: skip


def suspect_fills(values: np.ndarray) -> list[tuple[float, int]]:
    """Fills among the values, with how many there are."""
    known = values[np.isfinite(values)]
    if known.size < 2:
        return []
    found = []
    for end in (known.min(), known.max()):
        near = [f for f in FILLS if np.isclose(end, f, rtol=1e-6, atol=0.0)]
        rest = known[~np.isclose(known, end, rtol=1e-6, atol=0.0)]
        if not near or not rest.size:
            continue
        gap = np.abs(rest - end).min()
        if gap > FAR * max(np.ptp(rest), np.abs(rest).max() * 1e-3):
            found.append((float(near[0]), int(known.size - rest.size)))
    return found


def hints(fields: xr.DataArray, prepared: bool = False) -> list[str]:
    """Sentences about what looks unintended in canonical fields."""
    return [*_far_from_zero(fields, prepared), *_radians(fields), *_same_meridian(fields)]


def _far_from_zero(fields: xr.DataArray, prepared: bool) -> list[str]:
    if prepared:
        return []
    values = np.asarray(fields.values)
    mean, std = float(np.nanmean(values)), float(np.nanstd(values))
    if abs(mean) <= FAR_FROM_ZERO * std:
        return []
    units = str(fields.attrs.get("units", ""))
    kelvin = units in ("K", "kelvin", "degK", "Kelvin") or (
        not units and KELVIN[0] < mean < KELVIN[1]
    )
    told = f"a mean of {mean:.4g}" + (", kelvin by the look of it," if kelvin else "")
    return [
        f"the field has {told} and deviations of {std:.3g}: a law is about deviations from zero, so "
        "take the mean off (--anomalies mean, or month; prepare=sl.Preparation(anomalies='mean'))"
    ]


def _radians(fields: xr.DataArray) -> list[str]:
    """Latitudes and longitudes that are in radians, where degrees are meant."""
    names = [str(n) for n in fields.coords if is_latitude(fields, str(n))]
    names += [str(n) for n in fields.coords if is_longitude(fields, str(n))]
    if len(names) != 2:
        return []
    lat, lon = (np.asarray(fields[n].values, float) for n in names)
    units = {str(fields[n].attrs.get("units", "")).lower() for n in names}
    stated = bool(units & set(RADIANS))
    small = np.abs(lat).max() <= np.pi / 2 + 1e-6 and np.abs(lon).max() <= 2 * np.pi + 1e-6
    wide = np.ptp(lat) > 0.5 and np.ptp(lon) > 0.5
    if not (stated or (small and wide and not any(u.startswith("degree") for u in units))):
        return []
    mend = ", ".join(f"{n}=np.degrees(data.{n})" for n in names)
    return [f"{' and '.join(names)} look like radians, not degrees: data.assign_coords({mend})"]


def _same_meridian(fields: xr.DataArray) -> list[str]:
    for name in fields.dims:
        if name not in fields.coords or not is_longitude(fields, str(name)):
            continue
        x = np.sort(np.asarray(fields[name].values, float))
        if x.size > 2 and abs(x[-1] - x[0] - 360.0) < 1e-6:
            return [
                f"{name} {x[0]:g} and {x[-1]:g} are one meridian, which now counts twice: "
                f"data.isel({name}=slice(-1)) has each once"
            ]
    return []
