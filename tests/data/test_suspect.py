"""CF's valid ranges, undeclared fills, and what looks unintended, each with its name."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.data.fields import as_fields
from spdelaw.data.io.files import read, read_dataset, read_raw, write
from spdelaw.data.quality import check_plausible, hints
from spdelaw.errors import DataError

RNG = np.random.default_rng(0)
X = np.linspace(0.0, 1.0, 5)


def dataset(values=None, **attrs):
    values = RNG.standard_normal((20, 5)) if values is None else values
    return xr.Dataset({"u": (("time", "x"), values, attrs)}, {"time": np.arange(20.0), "x": X})


@pytest.mark.parametrize(
    "attrs", [{"valid_range": [-1.0, 1.0]}, {"valid_min": -1.0, "valid_max": 1.0}]
)
def test_values_outside_the_valid_range_are_missing(tmp_path, attrs):
    made = dataset(**attrs)
    made.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    expected = made["u"].where(np.abs(made["u"]) <= 1)
    raw, notes = read_raw(tmp_path / "a.nc")
    np.testing.assert_array_equal(raw["u"].values, expected.values)
    outside = int(expected.isnull().sum())
    assert notes == [f"{outside} values of u outside its valid range are missing"]
    np.testing.assert_array_equal(read(tmp_path / "a.nc").values[0], expected.values)


def test_limits_of_packed_values_are_packed(tmp_path):
    made = dataset()
    made["u"].attrs["valid_range"] = np.array([-100, 100], "int16")
    packing = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 0.5, "_FillValue": -32768}
    made.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding={"u": packing})
    got = read_dataset(tmp_path / "a.nc")["u"].values
    stored = np.round((made["u"].values - 0.5) / 0.01)
    np.testing.assert_array_equal(np.isnan(got), np.abs(stored) > 100)
    fields = as_fields(dataset(valid_range=[-0.1, 0.1])["u"])  # our files come back as they were
    xr.testing.assert_identical(read(write(fields, tmp_path / "b.nc")), fields)


@pytest.mark.parametrize("fill", [1e20, -9999.0, 9.96921e36, np.float32(9.96921e36), -999.0])
def test_undeclared_fills_are_named(tmp_path, fill):
    made = dataset()
    made["u"][3, 2] = made["u"][4, 4] = fill
    with pytest.raises(DataError, match=r"2 times .* a fill value that the file does not declare"):
        sl.fit(made["u"], sl.Interval(0, 1), 2)
    with pytest.raises(DataError, match="--missing"):
        sl.Preparation(anomalies="mean").learn(made["u"])


def test_large_numbers_that_are_data_are_no_fills():
    for values in (RNG.standard_normal((20, 5)) * 1e20, np.linspace(-9999, 9999, 100)):
        fields = as_fields(dataset(values.reshape(20, 5))["u"])
        check_plausible(fields)


def smooth(mean=0.0, seed=0):
    equation = sl.SpectralSPDE(sl.Interval(0, 1, "neumann"), 2, [0.1, 0.2], noise=[0.2, 0.2],
                               initial="stationary")  # fmt: skip
    return sl.simulate(equation, 1, np.arange(200.0), X, seed=seed, observation_std=0.1)[0] + mean


@pytest.mark.filterwarnings("ignore:the decay of mode 1:spdelaw.errors.IdentifiabilityWarning")
def test_kelvin_fitted_raw_is_noted():
    """Where a law may have no mean; with one there is nothing to note."""
    for words, n in (({}, 0), ({"mean": "zero"}, 1),
                     ({"prepare": sl.Preparation(anomalies="mean")}, 0)):  # fmt: skip
        law = sl.fit(smooth(285.0), sl.Interval(0, 1, "neumann"), 2, initial="stationary",
                     nuisance=0, **words)  # fmt: skip
        notes = [note for note in law.info["warnings"] if "kelvin" in note]
        assert len(notes) == n
        assert all("Preparation(anomalies='mean')" in note for note in notes)
    assert hints(as_fields(smooth())) == []


def test_values_far_from_all_others_are_told():
    """One reading of a million among temperatures made a law about itself."""
    values = RNG.standard_normal((20, 5))
    values[7, 2] = 1e6
    (note,) = hints(as_fields(dataset(values)["u"]))
    assert note.startswith("1 of 100 values lie far from all others, such as 1e+06 where most ")
    assert "--missing 1000000" in note
    rain = np.maximum(RNG.standard_normal((20, 5)) - 1.0, 0.0) ** 3
    assert hints(as_fields(dataset(rain)["u"])) == []


def test_fields_that_do_not_change_are_told_so():
    """Once: take the mean off, with deviations of 0 from it."""
    still = as_fields(dataset(np.full((20, 5), 3.0))["u"])
    assert hints(still) == [
        "the values stay as they are (3): a law describes changes in time, and needs values "
        "that change"
    ]
    (note,) = hints(still.isel(time=[0]))
    assert note.startswith("there is one time: ")


@pytest.mark.parametrize(
    ("freq", "n", "word"), [("MS", 60, "month"), ("D", 1000, "dayofyear"), ("3h", 400, "hour")]
)
def test_cycles_are_named_with_the_word_that_takes_them_off(freq, n, word):
    time = pd.date_range("2001-01-01", periods=n, freq=freq)
    turn = time.hour / 24 if word == "hour" else time.day_of_year / 365.2425
    values = np.cos(2 * np.pi * np.asarray(turn))[:, None] + 0.3 * RNG.standard_normal((n, 5))
    raw = xr.DataArray(values, {"time": time, "x": X}, ("time", "x"))
    (note,) = hints(as_fields(raw))
    assert f"--anomalies {word}, in Python" in note
    assert hints(sl.Preparation(anomalies=word).learn(raw).apply(raw), prepared=True) == []
    noise = raw.copy(data=RNG.standard_normal((n, 5)))
    assert hints(as_fields(noise)) == []


def globe(lat, lon, **units):
    coords = {"time": np.arange(5.0), "lat": ("lat", lat, units), "lon": ("lon", lon, units)}
    values = RNG.standard_normal((5, len(lat), len(lon)))
    return as_fields(xr.DataArray(values, coords, ("time", "lat", "lon")), dims=("lat", "lon"))


def test_radians_and_one_meridian_twice_are_named():
    lat, lon = np.linspace(-80, 80, 9), np.arange(0.0, 360.0, 30.0)
    assert hints(globe(lat, lon)) == []
    (note,) = hints(globe(np.radians(lat), np.radians(lon)))
    assert "look like radians" in note
    assert hints(globe(lat / 90, lon / 90, units="degrees")) == []
    with pytest.raises(DataError, match=r"np\.degrees"):
        globe(lat, lon, units="radians")
    (note,) = hints(globe(lat, np.append(lon, 360.0)))
    assert "0 and 360 are the same meridian" in note
