"""Files of other formats: each gets the line that converts it."""

import pytest

from spdelaw.data import read, read_dataset
from spdelaw.errors import FileError


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("era5.grib", b"GRIB\x00\x00", ("a GRIB file", "engine='cfgrib'", "to_netcdf('era5.nc')")),
        ("era5.nc", b"GRIB\x00\x00", ("a GRIB file", "to_netcdf('converted_era5.nc')")),
        ("modis.hdf", b"\x0e\x03\x13\x01", ("a HDF4 file", "gdal_translate -of netCDF")),
        ("big.nc", b"CDF\x05\x00\x00", ("a NetCDF-5 file", "nccopy -k nc4")),
        ("a.xlsx", b"PK\x03\x04", ("an Excel file", "read_excel", "a.csv")),
        ("a.npy", b"\x93NUMPY", ("a NumPy file", "np.load", "sl.as_fields")),
        ("sst.nc.gz", b"\x1f\x8b\x08", ("a gzip file", "gunzip --keep")),
        ("a.pkl", b"x", ("a pickle file", "run code")),
        ("a.unknown", b"x", ("the suffix '.unknown'",)),
        ("a.nc", b"", ("an empty file",)),
    ],
)
def test_conversion_is_one_line(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    for call in (read, read_dataset):
        with pytest.raises(FileError) as caught:
            call(tmp_path / name)
        for word in words:
            assert word in str(caught.value)
        assert "\n" not in str(caught.value)
