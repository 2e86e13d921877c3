"""Fields from and to files, by suffix."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from spdelaw.checks import checked, optional
from spdelaw.data.clock import decoded_dates, is_date
from spdelaw.data.fields import canonical, check_values, select
from spdelaw.data.io import netcdf, zarr
from spdelaw.data.io.encoding import FORMAT, decode, encode, to_dataset
from spdelaw.data.io.safe_files import (
    as_file_error,
    check_memory,
    checked_path,
    identity,
    reading,
    replaced_while_read,
    undisturbed,
)
from spdelaw.data.io.tables import (
    Columns,
    columns_missing,
    from_table,
    is_table,
    times_of,
    write_table,
)
from spdelaw.data.layout import TIME, check_dims, is_time
from spdelaw.data.names import standardise_names, with_places
from spdelaw.errors import DataError, FileError, InputError

# ---------- Values outside ``valid_range``, ``valid_min`` or ``valid_max`` (CF) are missing


def mask_invalid(dataset: xr.Dataset) -> tuple[xr.Dataset, list[str]]:
    """Data set without the values that it declares to be invalid, and notes with their number."""
    notes = []
    for name in dataset.data_vars:
        variable = dataset[name]
        low, high = _valid_limits(variable)
        if variable.dtype.kind not in "iuf" or (low, high) == (-np.inf, np.inf):
            continue
        outside = (variable < low) | (variable > high)
        count = int(outside.sum())
        if count:
            masked = variable.where(~outside)
            masked.encoding = variable.encoding
            dataset = dataset.assign({name: masked})
            notes.append(f"{count} values of {name} outside its valid range are missing")
    return dataset, notes


def _valid_limits(variable: xr.DataArray) -> tuple[float, float]:
    attrs = variable.attrs
    low, high = attrs.get("valid_min", -np.inf), attrs.get("valid_max", np.inf)
    if np.size(attrs.get("valid_range", ())) == 2:
        low, high = np.ravel(attrs["valid_range"])
    try:
        ends = sorted(_unpacked_limit(variable, limit) for limit in (low, high))
    except (TypeError, ValueError):
        return -np.inf, np.inf  # not numbers
    return ends[0], ends[1]


def _unpacked_limit(variable: xr.DataArray, limit: Any) -> float:
    """A limit in the units of the values: that of packed values is stated as they are packed.

    CF (section 8.1): the attributes have the type of the packed data.
    """
    value, packing = float(limit), variable.encoding
    packed = np.dtype(packing.get("dtype", float)).kind in "iu"
    scaled = "scale_factor" in packing or "add_offset" in packing
    if not (packed and scaled and np.asarray(limit).dtype.kind in "iu" and np.isfinite(value)):
        return value
    return value * float(packing.get("scale_factor", 1)) + float(packing.get("add_offset", 0))


# ---------- Ragged arrays (CF discrete sampling geometries) as (time, station)
#
# A contiguous ragged file has a variable with attribute ``sample_dimension`` that counts the rows
# of each station; an indexed one has a variable with attribute ``instance_dimension`` that names
# the station of each row.


def unraveled(dataset: xr.Dataset) -> xr.Dataset:
    """Variables over rows as variables over (time, station); other data sets as they are."""
    instances = _ragged_index(dataset)
    if instances is None:
        return dataset
    rows, stations, which = instances
    along = [str(n) for n, v in dataset.variables.items() if v.dims == (rows,)]
    times = [name for name in along if is_time(dataset, name)]
    if not times:
        expected, fix = (
            f"a variable of times along {rows}",
            'give it the attribute standard_name="time"',
        )
        raise DataError("time", expected=expected, got=f"{', '.join(along)}", fix=fix)
    names = [n for n in along if n in dataset.data_vars and dataset[n].dtype.kind in "iuf"]
    index = pd.MultiIndex.from_arrays([dataset[times[0]].values, which], names=["time", stations])
    if index.has_duplicates:
        again = index[index.duplicated()]
        expected = "one value per station and time"
        got = f"{len(again.unique())} that repeat, the first at station {again[0][1]}"
        raise DataError("data", expected=expected, got=got, fix="average them before")
    frame = pd.DataFrame({n: dataset[n].values for n in names if n != times[0]}, index)
    out = frame.to_xarray().reindex({stations: np.arange(dataset.sizes[stations])})
    coords = {n: c.variable for n, c in dataset.coords.items() if c.dims == (stations,)}
    out = out.drop_vars(stations).assign_coords(coords).assign_attrs(dataset.attrs)
    for name in ("time", *out.data_vars):
        out[name].attrs = dataset[times[0] if name == "time" else name].attrs
    return out.transpose("time", stations)


def _ragged_index(dataset: xr.Dataset) -> tuple[str, str, np.ndarray] | None:
    """Dim of the rows, dim of the stations, and the station of each row."""
    for variable in dataset.variables.values():
        if "sample_dimension" in variable.attrs and variable.ndim == 1:
            counts = np.asarray(variable.values, dtype=int)
            which = np.repeat(np.arange(len(counts)), counts)
            return str(variable.attrs["sample_dimension"]), str(variable.dims[0]), which
        if "instance_dimension" in variable.attrs and variable.ndim == 1:
            which = np.asarray(variable.values, dtype=int)
            return str(variable.dims[0]), str(variable.attrs["instance_dimension"]), which
    return None


# ---------- Fields from and to files, by suffix


# HDF5 is not thread-safe under xarray: one thread at a time for input and output.
_LOCK = threading.RLock()


@checked()
def read(
    path: str | Path,
    variable: str | None = None,
    dims: str | Sequence[str] | None = ("x",),
    *,
    time_unit: str | None = None,
    lazy: bool = False,
    verify: bool = True,
    check: bool = True,
    allow_external: bool = False,
) -> xr.DataArray:
    """Read fields from a NetCDF file (.nc, .nc4, .h5, .cdf) or a Zarr directory (.zarr).

    The result satisfies the contract of ``as_fields``. Files of ``write`` return the same bits and
    attributes; their seal (SHA-256 of all bytes) is checked before anything is parsed. Files of
    other programs have no seal, so only the checksums of their chunks detect damage. Nothing is
    unpickled.

    Args:
        path: file or directory; the suffix selects the format.
        variable: name of the variable; by default the only one that fits.
        dims: names of the spatial dims; None takes all that are neither path nor time.
        time_unit: unit of dates and durations, "days" by default.
        lazy: leave the values of a Zarr directory on disk, for fields larger than memory.
            They are checked block by block.
        verify: check the seal; False for a directory that was changed on purpose.
        check: check all values now; with False, `spdelaw.fit` checks them.
        allow_external: follow links of the file to other files: external and virtual data sets of
            HDF5, links in a Zarr directory. A file from an unknown source could link to any of your
            files.

    Returns:
        Canonical fields ``(path, time, *dims)``.

    Raises:
        FileError: the file is missing, damaged, or not of this format.
        DataError: the content breaks the contract.

    Example:
        >>> import numpy as np
        >>> from spdelaw.data import as_fields, read, write
        >>> fields = as_fields(np.ones((4, 2, 3)), times=[0, 1], points=[0, 1, 2])
        >>> _ = write(fields, "fields.nc")
        >>> read("fields.nc").identical(fields)
        True
    """
    source, names = checked_path(path), None if dims is None else check_dims(dims)
    form = _format(source)
    if lazy and form is not zarr:
        fix = 'write(fields, "fields.zarr") once, then read that lazily'
        raise InputError("lazy", expected="a Zarr directory", got=str(source), fix=fix)
    with _LOCK, reading(source), undisturbed(source):
        raw = form.open_raw(source, verify, allow_external)
        array = _read_variable(raw, variable, names, lazy, source)
    array = array if names is None else standardise_names(array, names)
    fields = canonical(array, names, time_unit)
    if check:
        with _LOCK, reading(source):  # lazy values are read only here
            check_values(fields)
    return fields


def has_fields(path: str | Path, variable: str | None = None, dims: Sequence[str] = ("x",)) -> bool:
    """Whether a file holds fields by the names of their dims, so that `read` takes it as it is."""
    source = checked_path(path)
    if is_table(source):
        return False
    form = _format(source)
    allowed = {"path", TIME, "point", *dims}
    with _LOCK, reading(source), undisturbed(source), form.open_raw(source, True) as raw:
        if FORMAT in raw.attrs:
            return True
        chosen = [variable] if variable in raw.data_vars else list(raw.data_vars)
        return any({TIME, *dims} <= set(raw[n].dims) <= allowed for n in chosen)


def read_dataset(
    path: str | Path, *, verify: bool = True, columns: Columns | None = None
) -> xr.Dataset:
    """Read all of a NetCDF file, a Zarr directory or a table, of any layout, with dates as dates.

    For data that are not fields yet, to look at or for `Preparation`. Values outside the valid
    range that a file declares are missing.

    Args:
        path: file or directory; the suffix tells the format.
        verify: check the seal of a file of this package.
        columns: of a table, as for `from_table`.

    Example:
        >>> import numpy as np
        >>> from spdelaw.data import as_fields, write
        >>> from spdelaw.data.io.files import read_dataset
        >>> fields = as_fields(np.ones((4, 2, 3)), times=[0, 1], points=[0, 1, 2])
        >>> list(read_dataset(write(fields, "fields.nc")).data_vars)
        ['field']
    """
    return read_raw(path, verify=verify, columns=columns)[0]


def read_raw(
    path: str | Path,
    *,
    verify: bool = True,
    columns: Columns | None = None,
    variable: Callable[[xr.Dataset], str] | None = None,
) -> tuple[xr.Dataset, list[str]]:
    """As `read_dataset`, with notes about changes of the values.

    ``variable`` chooses the only one that is loaded, from a data set without values in memory.
    """
    source = checked_path(path)
    if is_table(source):
        return _read_table(source, columns or Columns())
    form = _format(source)
    with _LOCK, reading(source), undisturbed(source), form.open_raw(source, verify) as raw:
        is_our_file = FORMAT in raw.attrs
        if variable is not None and _ragged_index(raw) is None:
            raw = raw[[variable(with_places(_decode_dates(decode(raw))))]]
        check_memory(source, raw.nbytes)
        masked, notes = (raw.load(), []) if is_our_file else mask_invalid(raw.load())
        dataset = with_places(decode(masked.drop_encoding()))
    ordered, order_notes = _with_sorted_dates(unraveled(_decode_dates(dataset)))
    return ordered, notes + order_notes


def _with_sorted_dates(dataset: xr.Dataset) -> tuple[xr.Dataset, list[str]]:
    """Dates increase, whatever the order of the file; numbers stay, for they may be a mistake."""
    for name in [str(dim) for dim in dataset.dims if dim in dataset.coords]:
        variable = dataset[name].variable
        if not is_date(variable) or variable.size < 2:
            continue
        ahead = variable.values[1:] > variable.values[:-1]
        if not ahead.all() and (variable.values[1:] < variable.values[:-1]).any() and ahead.any():
            note = f"dates along {name} are not in order in the file: sorted"
            return dataset.sortby(name), [note]
    return dataset, []


def _read_table(source: Path, columns: Columns) -> tuple[xr.Dataset, list[str]]:
    """The rows as fields, and a note about columns that were recognised by their names."""
    chosen = columns.completed(source)
    if chosen is None or chosen.time is None or chosen.value is None or not chosen.places:
        raise columns_missing(source)
    roles = ", ".join(f"{role} = {name}" for role, name in chosen.named.items())
    notes = [] if chosen is columns else [f"columns are {roles}"]
    return from_table(source, **chosen.given).to_dataset(), notes


@checked()
def write(fields: xr.DataArray | xr.Dataset, path: str | Path, *, overwrite: bool = True) -> Path:
    """Write fields to a NetCDF file (.nc, .nc4, .h5, .cdf), a Zarr directory (.zarr) or a table.

    Tables (.csv, .csv.gz, .tsv, .parquet) have one row per point and time, as `to_table` makes
    them. Other files are replaced in one step, so an interruption leaves either the old or the new
    one. Values are compressed, every chunk has a checksum (Fletcher-32 in NetCDF, CRC-32C in Zarr),
    and a seal covers all bytes. Attributes that a file cannot hold (dicts, lists, None, booleans)
    are stored as JSON. Lazy fields are streamed; they are computed twice, once to check them and
    once to write them.

    Args:
        fields: fields, which are converted to canonical form; or a Dataset with variables of
            numbers, stored unchanged.
        path: file or directory; the suffix tells the format.
        overwrite: whether an existing file may be replaced. A Zarr directory is replaced only if
            this function wrote its whole content.

    Returns:
        The path.

    Raises:
        FileError: the file cannot be written.
        DataError: the content breaks the contract or cannot be stored.

    Example:
        >>> import numpy as np
        >>> from spdelaw.data import as_fields, read, write
        >>> fields = as_fields(np.ones((4, 2, 3)), times=[0, 1], points=[0, 1, 2])
        >>> fields.attrs["equation"] = {"name": "heat"}
        >>> read(write(fields, "fields.nc")).attrs
        {'equation': {'name': 'heat'}}
    """
    target = checked_path(path)
    form = None if is_table(target) else _format(target)
    if not overwrite and target.exists():
        fix = "pass overwrite=True or choose another name"
        raise FileError(str(target), expected="a free name", got="an existing file", fix=fix)
    if form is None:
        write_table(fields, target)
        return target
    if form is zarr:
        zarr.check_replaceable(target)
    dataset = encode(to_dataset(_check_content(fields)))
    with _LOCK, as_file_error(target, Exception):
        form.save(dataset, target)
    return target


def _check_content(fields: xr.DataArray | xr.Dataset) -> xr.DataArray | xr.Dataset:
    if isinstance(fields, xr.Dataset):
        if not fields.data_vars:
            expected = "at least one variable"
            raise DataError("Dataset", expected=expected, got="none", fix="add the fields")
        return fields
    fields = canonical(fields)
    check_values(fields)
    return fields


@dataclasses.dataclass(frozen=True)
class _StoredValues:
    """Values on disk, refused once the directory is another than the one that was opened.

    Zarr takes a chunk that is not there for missing values.
    """

    source: Path
    opened: tuple[int, ...] | None
    variable: xr.Variable

    shape = property(lambda self: self.variable.shape)
    dtype = property(lambda self: self.variable.dtype)
    ndim = property(lambda self: self.variable.ndim)

    def __getitem__(self, key: Any) -> Any:
        with reading(self.source):
            values = self.variable[key].values
            if identity(self.source) != self.opened:
                raise replaced_while_read(self.source)
            return values

    def __dask_tokenize__(self) -> Any:
        return "spdelaw", str(self.source), self.opened, self.shape


def _read_variable(
    raw: xr.Dataset,
    variable: str | None,
    dims: tuple[str, ...] | None,
    lazy: bool,
    source: Path,
) -> xr.DataArray:
    """One variable without invalid values: in memory, or to be read when it is used."""
    array = _select(raw, variable, dims)
    if lazy:
        stored = array.encoding.get("preferred_chunks", {})
        blocks = tuple(stored.get(dim, -1) for dim in array.dims)
        values = optional("dask.array", "lazy fields", "zarr").from_array(
            _StoredValues(source.absolute(), identity(source), array.variable), blocks
        )
        array = array.copy(data=values)
        return _mask_invalid_values(array, raw, str(array.name))
    with raw:
        check_memory(raw.encoding.get("source", "data"), array.nbytes)
        return _mask_invalid_values(array.load(), raw, str(array.name)).drop_encoding()


def _mask_invalid_values(array: xr.DataArray, raw: xr.Dataset, name: str) -> xr.DataArray:
    """Values of another program's file without those that it declares to be invalid."""
    stated = {"valid_range", "valid_min", "valid_max"} & set(array.attrs)
    if FORMAT in raw.attrs or not stated:
        return array
    lazy = array if isinstance(array.variable._data, np.ndarray) else array.chunk()
    return mask_invalid(lazy.to_dataset(name=name))[0][name]


def _select(raw: xr.Dataset, variable: str | None, dims: tuple[str, ...] | None) -> xr.DataArray:
    dataset = decode(raw)
    return select(dataset if FORMAT in raw.attrs else _decode_dates(dataset), variable, dims or ())


def _decode_dates(dataset: xr.Dataset) -> xr.Dataset:
    """Dates of another program as dates, to be counted from the first of them."""
    dates = [
        name
        for name, coordinate in dataset.coords.items()
        if " since " in str(coordinate.attrs.get("units", ""))
    ]
    for name in dates:
        units = dataset[name].attrs["units"]
        try:
            decoded = decoded_dates(dataset[[name]])[name]
        except (ImportError, ValueError, OverflowError) as error:
            raise DataError(
                f"coordinate '{name}'",
                expected="dates that xarray can decode",
                got=f"{units!r}: {error}",
                fix="open it with xarray.open_dataset(path, decode_times=False), correct the units "
                "of its time and pass it to as_fields",
            ) from error
        # The variable alone: decoding decodes the other dates of other variables, too.
        dataset = dataset.assign_coords({name: decoded.variable})
    return _parse_text_dates(dataset)


def _parse_text_dates(dataset: xr.Dataset) -> xr.Dataset:
    """Times that are text, such as 2001-01-31, as dates."""
    for name in [str(dim) for dim in dataset.dims if dim in dataset.coords]:
        values = dataset[name].values
        is_text = values.dtype.kind in "UOT" and all(isinstance(v, str) for v in values.tolist())
        if not (is_text and values.size and is_time(dataset, name)):
            continue
        try:
            dates = times_of(pd.Series(values.astype(object), name=name))
        except DataError as wrong:
            expected, got, fix = wrong.expected, wrong.got, wrong.fix
            raise DataError(f"coordinate '{name}'", expected=expected, got=got, fix=fix) from None
        dataset = dataset.assign_coords({name: (name, dates, dataset[name].attrs)})
    return dataset


def _format(path: Path) -> ModuleType:
    for form in (netcdf, zarr):
        if path.suffix.lower() in form.SUFFIXES:
            return form
    if is_table(path):
        raise columns_missing(path)
    expected = f"a file {', '.join((*netcdf.SUFFIXES, *zarr.SUFFIXES))}"
    fix = "convert it to NetCDF with the program that wrote it, or to a table of columns (.csv)"
    raise FileError(str(path), expected=expected, got=f"the suffix {path.suffix!r}", fix=fix)
