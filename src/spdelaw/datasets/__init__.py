"""Real data that come with the package, each with its licence and source in the attributes."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import xarray as xr

from spdelaw.data import read_dataset
from spdelaw.errors import InputError

__all__ = ["NAMES", "equatorial_pacific", "file_of"]


def __dir__() -> list[str]:
    return __all__


#: Names under which the shell knows them, and their files.
NAMES = {"equatorial-pacific": "equatorial_pacific.nc"}


def equatorial_pacific() -> xr.DataArray:
    """Monthly sea-surface temperature along the Pacific equator, April 2006 to September 2010.

    54 months, 7 latitudes within 2 degrees of the equator, 145 longitudes from 150 to 270
    degrees east, in kelvin; 12 of the 1015 cells are land and always missing. Months have 28 to
    31 days, so the times are really irregular. From the OSTIA analysis of the UK Met Office as
    distributed in iris-sample-data, British Crown copyright, under the UK Open Government
    Licence.

    Returns:
        DataArray ``surface_temperature`` with dims (time, latitude, longitude) and dates.

    Example:
        >>> import spdelaw as sl
        >>> raw = sl.datasets.equatorial_pacific()
        >>> dict(raw.sizes), raw.attrs["units"]
        ({'time': 54, 'latitude': 7, 'longitude': 145}, 'K')
    """
    return read_dataset(file_of("equatorial-pacific"))["surface_temperature"]


def file_of(name: str) -> Path:
    """Path of a data set's NetCDF file.

    Example:
        >>> file_of("equatorial-pacific").name
        'equatorial_pacific.nc'
    """
    if name not in NAMES:
        raise InputError(
            "name", expected=f"one of {', '.join(NAMES)}", got=repr(name),
            fix=f"pass {next(iter(NAMES))!r}",
        )  # fmt: skip
    return Path(str(resources.files("spdelaw.datasets").joinpath(NAMES[name])))
