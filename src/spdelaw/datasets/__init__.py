"""Real data that come with the package, each with its licence and source."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from spdelaw.checks import checked, one_of
from spdelaw.data.io.files import read_dataset

__all__ = ["NAMES", "about", "equatorial_pacific", "file_of", "pacific_sst", "station_tmax"]

#: Names under which the shell knows them, and their files.
NAMES = {
    "equatorial-pacific": "equatorial_pacific.nc",
    "pacific-sst": "pacific_sst.nc",
    "station-tmax": "station_tmax.csv.gz",
}
#: What a table cannot say of itself.
TABLES = {
    "station-tmax": {
        "title": "Daily maximum temperature of 36 stations in the central USA, 1990 and 1991",
        "source": "NOAA National Climatic Data Center, 36 of 137 stations",
        "licence": "public domain",
    }
}


def __dir__() -> list[str]:
    return __all__


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


def pacific_sst() -> xr.DataArray:
    """Monthly sea-surface temperature of the tropical Pacific, January 2010 to August 2020.

    128 months, 30 south to 30 north, 120 to 290 degrees east, in cells of 4 degrees; 40 of the 645
    cells are land and always missing. NOAA ERSST v5, no constraints on access or use.

    Returns:
        DataArray ``sst`` with dims (time, lat, lon) and dates, in degrees Celsius.

    Example:
        >>> import spdelaw as sl
        >>> raw = sl.datasets.pacific_sst()
        >>> dict(raw.sizes), int(raw.isnull().all("time").sum())
        ({'time': 128, 'lat': 15, 'lon': 43}, 40)
    """
    return read_dataset(file_of("pacific-sst"))["sst"]


def station_tmax() -> pd.DataFrame:
    """Daily maximum temperature of 36 stations in the central USA, 1990 and 1991, as a table.

    Columns station, lon, lat, date and tmax (degrees Celsius); days without a row are missing. NOAA
    National Climatic Data Center, public domain.

    Example:
        >>> import spdelaw as sl
        >>> rows = sl.datasets.station_tmax()
        >>> list(rows.columns), rows.station.nunique()
        (['station', 'lon', 'lat', 'date', 'tmax'], 36)
    """
    return pd.read_csv(file_of("station-tmax"), parse_dates=["date"])


@checked()
def about(name: str) -> dict[str, str]:
    """Title, source and licence of a data set.

    Example:
        >>> about("station-tmax")["licence"]
        'public domain'
    """
    file = file_of(name)
    told = TABLES.get(name) or read_dataset(file).attrs
    return {key: str(told[key]) for key in ("title", "source", "licence")}


@checked()
def file_of(name: str) -> Path:
    """Path of a data set's file.

    Example:
        >>> file_of("equatorial-pacific").name
        'equatorial_pacific.nc'
    """
    file = NAMES[one_of("name", name, tuple(NAMES))]
    return Path(str(resources.files("spdelaw.datasets").joinpath(file)))
