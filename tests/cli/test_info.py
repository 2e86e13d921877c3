"""spdelaw info: what a file holds, or one line on why it cannot be read."""

import warnings

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.data import write


@pytest.fixture
def fields():
    return sl.simulate(sl.catalogue.heat(n_modes=4), 4, times=np.linspace(0, 1, 5), seed=0)


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_table_and_json_describe_the_fields(run, run_json, fields, name):
    write(fields.where(fields.x > 0), name)
    document = run_json("info", name)
    assert (document["command"], document["file"]) == ("info", name)
    assert document["fields"]["sizes"] == {"path": 4, "time": 5, "x": 101}
    assert document["fields"]["missing"]["count"] == 20
    text = run("info", name).stdout
    for words in (
        f"{name} (", "field", "4 path × 5 time × 101 x", "0 to 1, step 0.25", "20 (0.99 %)",
        f"{float(fields.max()):.4g}", "stochastic heat equation, dirichlet, 4 modes", "exact",
        document["fields"]["fingerprint"],
    ):  # fmt: skip
        assert words in text


def test_irregular_times_units_and_long_attributes(run, fields):
    fields = fields.assign_coords(time=[0.0, 0.1, 0.5, 0.6, 0.7])
    fields.time.attrs["units"] = "days"
    fields.attrs = {"units": "K", "history": "a" * 100, "equation": "not known"}
    write(fields, "a.nc")
    text = run("info", "a.nc").stdout
    assert "field [K]" in text
    assert "0 to 0.7, irregular [days]" in text
    assert "aaa..." in text
    assert "not known" in text


def test_other_spatial_dims(run, fails, fields):
    two = fields.rename(x="lon").expand_dims(lat=[10.0, 20.0]).transpose("path", "time", ...)
    write(two.to_dataset(name="sst"), "a.nc")
    assert "lat" in run("info", "a.nc", "--dims", "lat,lon").stdout
    assert "lat" in run("info", "a.nc").stdout
    fails("info", "a.nc", "--dims", "")


def test_variable_is_chosen(run, fails, fields):
    xr.Dataset({"one": fields, "two": fields + 1}).to_netcdf("two.nc")
    assert "one" in fails("info", "two.nc")
    run("info", "two.nc", "--variable", "two")
    assert "three" in fails("info", "two.nc", "--variable", "three")


def truncated(fields, path):
    write(fields, path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flipped(fields, path):
    """One bit in the middle of the stored values, which a checksum has to notice."""
    rough = fields + np.random.default_rng(0).standard_normal(fields.shape)  # nothing compresses
    write(rough, path)
    content = bytearray(path.read_bytes())
    values = np.frombuffer(bytes(content), np.uint8)
    content[len(values) // 2] ^= 1
    path.write_bytes(bytes(content))


def complex_numbers(fields, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this is no NetCDF is the point
        (fields + 1j).to_netcdf(path, engine="h5netcdf", invalid_netcdf=True)


def strings(fields, path):
    fields.astype(str).to_netcdf(path, engine="h5netcdf")


def wrong_dims(fields, path):
    fields.rename(time="depth").to_netcdf(path)


def all_missing(fields, path):
    (fields * np.nan).to_netcdf(path)


def twice_the_same_time(fields, path):
    fields.assign_coords(time=[0.0, 0.1, 0.1, 0.2, 0.3]).to_netcdf(path)


def unsorted_times(fields, path):
    fields.assign_coords(time=[0.0, 0.3, 0.1, 0.2, 0.4]).to_netcdf(path)


def no_netcdf(fields, path):
    path.write_text("time,x,value\n0,0,1\n")


def empty(fields, path):
    path.write_bytes(b"")


def a_directory(fields, path):
    path.mkdir()


def missing(fields, path):
    pass


@pytest.mark.parametrize(
    "spoil",
    [
        truncated, flipped, complex_numbers, strings, wrong_dims, all_missing,
        twice_the_same_time, unsorted_times, no_netcdf, empty, a_directory, missing,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_bad_file(fails, folder, fields, spoil):
    spoil(fields, folder / "bad.nc")
    fails("info", "bad.nc")


@pytest.mark.parametrize("name", ["a.csv", "a"])
def test_unknown_format(fails, folder, name):
    (folder / name).write_text("1,2,3")
    fails("info", name)
