"""Formats that are not read here, each with the line that converts a file."""

from __future__ import annotations

from pathlib import Path

from spdelaw.errors import FileError

_XARRAY = "python -c \"import xarray; xarray.open_dataset('{0}', engine='{1}').to_netcdf('{2}')\""
_PANDAS = "python -c \"import pandas; pandas.read_{1}('{0}').to_csv('{2}', index=False)\""
#: Names of formats by suffix.
SUFFIXES = {
    ".grib": "GRIB", ".grib2": "GRIB", ".grb": "GRIB", ".grb2": "GRIB", ".grib1": "GRIB",
    ".hdf": "HDF4", ".hdf4": "HDF4", ".hdf5": "HDF5", ".he5": "HDF5",
    ".xlsx": "Excel", ".xls": "Excel", ".feather": "Feather", ".arrow": "Feather",
    ".json": "JSON", ".npy": "NumPy", ".npz": "NumPy", ".mat": "MATLAB", ".tif": "GeoTIFF",
    ".tiff": "GeoTIFF", ".gz": "gzip", ".zip": "zip", ".bz2": "bzip2", ".tar": "tar",
    ".pkl": "pickle", ".pickle": "pickle", ".rds": "R", ".rdata": "R", ".dat": "text",
}  # fmt: skip
#: Names of formats by how a file begins, whatever it is called.
STARTS = {
    b"GRIB": "GRIB", b"\x0e\x03\x13\x01": "HDF4", b"CDF\x05": "NetCDF-5", b"PK\x03\x04": "zip",
    b"\x1f\x8b": "gzip", b"\x93NUMPY": "NumPy", b"PAR1": "Parquet", b"MATLAB": "MATLAB",
}  # fmt: skip


def unreadable(path: Path, readable: tuple[str, ...]) -> FileError:
    """That a format is not read, with the line that converts the file."""
    name = format_of(path)
    article = "an" if name == "Excel" else "a"
    got = f"{article} {name} file" if name else f"the suffix {path.suffix!r}"
    fix = conversion(path, name) if name else "convert it to NetCDF, or to a table of columns"
    return FileError(str(path), expected=f"a file {', '.join(readable)}", got=got, fix=fix)


def format_of(path: Path) -> str | None:
    """Name of a format that is not read here, by the beginning of the file or its suffix."""
    try:
        with open(path, "rb") as file:
            start = file.read(8)
    except OSError:
        start = b""
    found = next((name for mark, name in STARTS.items() if start.startswith(mark)), None)
    if found in ("zip", "gzip") and path.suffix.lower() in SUFFIXES:
        found = None
    return found or SUFFIXES.get(path.suffix.lower())


def conversion(path: Path, name: str) -> str:
    """The line that makes a readable file."""
    new, table = path.with_suffix(".nc").name, path.with_suffix(".csv").name
    new = f"converted_{new}" if new == path.name else new
    arrays = "in Python: sl.write(sl.as_fields({}, times=times, points=points), '{}')"
    lines = {
        "GRIB": "pip install cfgrib && " + _XARRAY.format(path, "cfgrib", new),
        "HDF4": f"gdal_translate -of netCDF {path} {new}",
        "HDF5": f"cp {path} {path.with_suffix('.h5')}",
        "NetCDF-5": f"nccopy -k nc4 {path} {new}",
        "Excel": "pip install openpyxl && " + _PANDAS.format(path, "excel", table),
        "Feather": _PANDAS.format(path, "feather", table),
        "JSON": _PANDAS.format(path, "json", table),
        "Parquet": f"cp {path} {path.with_suffix('.parquet')}",
        "NumPy": arrays.format(f"np.load('{path}')", new),
        "MATLAB": arrays.format(f"scipy.io.loadmat('{path}')['NAME']", new),
        "GeoTIFF": "pip install rioxarray && " + _XARRAY.format(path, "rasterio", new),
        "gzip": f"gunzip --keep {path}",
        "bzip2": f"bunzip2 --keep {path}",
        "zip": f"unzip {path}",
        "tar": f"tar -xf {path}",
        "R": f"in R: write.csv(data, '{table}', row.names = FALSE)",
        "pickle": "pickles can run code and are not read: write .nc or .csv where it was made",
        "text": f"give it a line of column names, and the name {table}",
    }
    return lines[name]
