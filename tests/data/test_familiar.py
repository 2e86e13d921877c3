"""Ensembles, hindcasts, stations and curvilinear grids: in by name, and back under it."""

import h5py
import numpy as np
import pytest
import xarray as xr
from tests.parameters import cross

import spdelaw as sl
from spdelaw.data.fields import as_fields
from spdelaw.data.io.files import read_dataset, read_raw
from spdelaw.data.recognise import recognise
from spdelaw.data.summary import labels_of
from spdelaw.errors import DataError, DomainError

# The fields are white noise: what matters here are their names, and no parameter.
pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")

RNG = np.random.default_rng(0)
X = np.linspace(0.0, 1.0, 5)


def array(dims, coords, name="u"):
    shape = [len(coords[d]) if d in coords else 3 for d in dims]
    kept = {d: coords[d] for d in dims if d in coords}
    return xr.DataArray(RNG.standard_normal(shape), kept, dims, name)


# ------------------------------------------------------------------ paths


NOISE = {"initial": "stationary", "nuisance": 0}
LINE = sl.Interval(0, 1, "neumann")


@pytest.mark.parametrize("name", ["member", "realization", "number", "ensemble"])
def test_members_are_paths_and_come_back_as_members(name):
    labels = [1, 4, 7]
    raw = array((name, "time", "x"), {name: labels, "time": np.arange(20.0), "x": X})
    fields = as_fields(raw)
    np.testing.assert_array_equal(fields.values, raw.values)
    assert fields["path"].values.tolist() == labels
    if name == "member":
        result = sl.fit(raw, LINE, 2, **NOISE).reconstruct(raw)
        assert result["mean"].dims == (name, "time", "x")
        assert result[name].values.tolist() == labels


def hindcast(leads, dims=("init", "lead", "x"), members=2):
    starts = np.array(["2001-01-01", "2001-02-01", "2001-03-01"], "datetime64[ns]")
    coords = {"init": starts, "time": starts, "lead": leads, "step": leads, "x": X,
              "member": np.arange(members), "number": np.arange(members)}  # fmt: skip
    return array(dims, coords)


def test_starts_are_paths_on_a_clock_of_leads():
    raw = hindcast(np.arange(6))
    fields = as_fields(raw)
    assert fields.dims == ("path", "time", "x")
    np.testing.assert_array_equal(fields.values, raw.values)
    assert fields["path"].values.tolist() == ["2001-01-01", "2001-02-01", "2001-03-01"]
    np.testing.assert_array_equal(fields["init"].values, raw["init"].values)
    result = sl.fit(raw, LINE, 2, **NOISE).reconstruct(raw)
    assert result["mean"].dims == ("init", "lead", "x")
    np.testing.assert_array_equal(result["init"].values, raw["init"].values)
    valid = raw["init"] + raw["lead"] * np.timedelta64(1, "D")
    fields = as_fields(raw.assign_coords(time=valid))  # times of two dims are no clock
    np.testing.assert_array_equal(fields["time"].values, np.arange(6.0))
    assert fields["valid_time"].dims == ("path", "time")
    guess = recognise(hindcast(np.arange(4), ("init", "member", "lead", "x")).to_dataset())
    assert {"lead is time", "each pair of init and member is a path"} <= set(guess.reasons)
    assert (guess.dims, guess.time) == (("x",), "lead")


@pytest.mark.parametrize(
    "dims",
    [
        ("member", "init", "lead", "x"),
        ("number", "time", "step", "x"),
        ("init", "lead", "member", "x"),
    ],
)
def test_members_of_hindcasts_are_all_paths(dims):
    raw = hindcast(np.arange(4) * np.timedelta64(24, "h"), dims)
    fields = as_fields(raw)
    assert dict(fields.sizes) == {"path": 6, "time": 4, "x": 5}
    assert fields["time"].values.tolist() == [0.0, 1.0, 2.0, 3.0]
    member = "number" if "number" in dims else "member"
    one = fields.isel(path=4)
    picked = {member: int(one[member]), dims[1] if member == "number" else "init": one["init"]}
    np.testing.assert_array_equal(one.values, raw.sel(picked).values)


# ------------------------------------------------------------------ space


def test_latitudes_and_longitudes_by_any_name():
    coords = {"time": np.arange(4.0), "latitude": [10.0, -10.0], "longitude": [0.0, 90.0, 180.0]}
    raw = array(("time", "longitude", "latitude"), coords)
    fields = as_fields(raw, dims=("lat", "lon"))
    assert fields.dims == ("path", "time", "lat", "lon")
    assert fields["lat"].attrs["original_name"] == "latitude"
    np.testing.assert_array_equal(
        fields.values[0], raw.sortby("latitude").transpose("time", "latitude", "longitude")
    )
    flat = as_fields(raw, dims=("x", "y"))
    np.testing.assert_array_equal(flat["x"].values, coords["longitude"])


def stations(transposed=False, as_variables=False):
    """A file of featureType timeSeries."""
    lat, lon = RNG.uniform(-60, 60, 6), RNG.uniform(-170, 170, 6)
    names = np.array([f"site {k}" for k in range(6)])
    values = RNG.standard_normal((8, 6))
    dims = ("time", "station")
    place = {"lat": ("station", lat, {"units": "degrees_north"}),
             "lon": ("station", lon, {"units": "degrees_east"}),
             "station_name": ("station", names, {"cf_role": "timeseries_id"})}  # fmt: skip
    variable = ("station", "time"), values.T
    temp = variable if transposed else (dims, values)
    time = {"time": np.arange(8).astype("datetime64[D]").astype("datetime64[ns]")}
    data = {"temp": temp} | (place if as_variables else {})
    made = xr.Dataset(data, time | ({} if as_variables else place), {"featureType": "timeSeries"})
    return made, values


@cross(transposed=[False, True], as_variables=[False, True])
def test_stations_of_a_cf_file(tmp_path, transposed, as_variables):
    made, values = stations(transposed, as_variables)
    made.to_netcdf(tmp_path / "s.nc", engine="h5netcdf")
    raw = read_dataset(tmp_path / "s.nc")
    fields = as_fields(raw, dims=("lat", "lon"))
    assert fields.dims == ("path", "time", "point")
    np.testing.assert_array_equal(fields.values[0], values)
    np.testing.assert_array_equal(fields["lat"].values, made["lat"].values)
    assert recognise(raw).domain in ("sphere", "box")
    assert "stations along station" in "; ".join(recognise(raw, dims=("lat", "lon")).reasons)


@pytest.mark.parametrize("kind", ["contiguous", "indexed"])
def test_ragged_files(tmp_path, kind):
    made, values = stations()
    there = RNG.random(values.shape) > 0.4
    which, when = np.nonzero(there.T)
    rows = {"temp": ("obs", values[when, which]), "time": ("obs", when.astype(float))}
    coords = {name: made[name] for name in ("lat", "lon")}
    if kind == "contiguous":
        counts = ("station", there.sum(0), {"sample_dimension": "obs"})
        dataset = xr.Dataset(rows | {"row_size": counts}, coords)
    else:
        index = ("obs", which, {"instance_dimension": "station"})
        dataset = xr.Dataset(rows | {"station_index": index}, coords)
    dataset["time"].attrs = {"units": "days since 1970-01-01", "standard_name": "time"}
    dataset.set_coords("time").to_netcdf(tmp_path / "r.nc", engine="h5netcdf")
    got = read_dataset(tmp_path / "r.nc")
    fields = as_fields(got, variable="temp", dims=("lat", "lon"))
    rows = there.any(1)
    np.testing.assert_array_equal(fields.values[0], np.where(there, values, np.nan)[rows])


def curvilinear(ny=6, nx=8, names=("j", "i")):
    """A turned grid."""
    j, i = np.meshgrid(np.arange(ny), np.arange(nx), indexing="ij")
    lat, lon = 40 + 1.0 * j + 0.2 * i, -30 + 1.0 * i - 0.2 * j
    coords = {"time": np.arange(30.0), "lat": (names, lat, {"units": "degrees_north"}),
              "lon": (names, lon, {"units": "degrees_east"})}  # fmt: skip
    values = RNG.standard_normal((30, ny, nx))
    return xr.DataArray(values, coords, ("time", *names), "ssh", {"units": "m"})


@cross(
    names=[("j", "i"), ("y", "x")],
    domain=[sl.Sphere(), sl.Box((-32, -22), (40, 47), boundary="neumann")],
)
def test_curvilinear_grids_are_points_and_come_back_as_grids(names, domain):
    raw = curvilinear(names=names)
    fields = as_fields(raw, dims=domain.dims)
    assert fields.dims == ("path", "time", "point")
    np.testing.assert_array_equal(fields.values[0], raw.values.reshape(30, -1))
    result = sl.fit(raw, domain, 2, **NOISE).reconstruct(raw)
    assert dict(result.sizes) == {"path": 1, "time": 30, names[0]: 6, names[1]: 8}
    np.testing.assert_allclose(result["lat"].transpose(*names), raw["lat"])
    assert result["mean"].attrs["units"] == "m"


def test_places_without_a_position_do_not_exist():
    raw = curvilinear()
    raw["lat"][0, :3] = np.nan
    assert as_fields(raw, dims=("lat", "lon")).sizes["point"] == 45


# ------------------------------------------------------------------ names and attributes


def test_labels_leave_out_what_is_about_stored_values():
    raw = array(("time", "x"), {"time": np.arange(4.0), "x": X})
    raw.attrs = {"units": "K", "valid_range": [0, 1], "odd": object(), "equation": "{}"}
    raw["x"].attrs = {"long_name": "distance"}
    expected = {"name": "u", "attrs": {"units": "K"}, "coords": {"x": raw["x"].attrs}}
    assert labels_of(as_fields(raw)) == expected


def test_results_describe_themselves_by_cf(tmp_path):
    raw = array(("time", "x"), {"time": np.arange(40.0), "x": X}, "sst")
    raw.attrs = {"units": "degC", "standard_name": "sea_surface_temperature", "long_name": "SST"}
    law = sl.fit(raw, LINE, 2, **NOISE)
    law.save(tmp_path / "a.law")
    for one in (law, sl.load(tmp_path / "a.law")):
        result = one.forecast(raw, steps=2, n_samples=1)
        same = {"long_name": "mean of SST", "cell_methods": "realization: mean"}
        assert result["mean"].attrs == raw.attrs | same
        assert result["std"].attrs["cell_methods"] == "realization: standard_deviation"
        assert one.sample(2).name == "sst"
        assert one.sample(2).attrs["units"] == "degC"


def wide(lon, lat=(-20.0, 0.0, 20.0), **units):
    """Noise on a map of 30 months."""
    time = np.datetime64("2001-01", "M") + np.arange(30)
    coords = {"time": time.astype("datetime64[ns]"), "lat": ("lat", np.array(lat), units)}
    coords |= {"lon": ("lon", np.asarray(lon, float), units)}
    values = np.random.default_rng(0).standard_normal((30, len(lat), len(lon)))
    return xr.DataArray(values, coords, ("time", "lat", "lon"), "t").to_dataset()


@pytest.mark.parametrize(
    ("lon", "ends"),
    [
        ([140, 160, 180, -160, -140], (140, 220)),  # as a file that crosses the dateline has them
        ([-160, -140, 140, 160, 180], (140, 220)),  # sorted by number
        ([0, 20, 320, 340], (-40, 20)),  # the other meridian, where 0 to 360 jumps
        ([140, 160, 180, 200, 220], None),
        ([10, 350], (-10, 10)),
        (np.arange(-180, 180, 20), None),  # all around
    ],
)
def test_longitudes_that_lie_together_are_counted_on(lon, ends):
    raw = wide(lon)
    guess = recognise(raw, dims=("x", "y"))
    if ends is None:
        assert not guess.preparation.select
        return
    np.testing.assert_allclose(guess.preparation.select["lon"], ends, atol=1e-3)
    assert any("continued where" in reason for reason in guess.reasons)
    fields = as_fields(guess.preparation.reduce(raw), dims=("x", "y"))
    assert (fields["x"].values[0], fields["x"].values[-1]) == ends
    second = fields["x"].values[1]
    moved = raw["t"].sel(lon=(second + 180) % 360 - 180 if min(lon) < 0 else second % 360)
    np.testing.assert_array_equal(fields[0, :, 1], moved)
    assert recognise(raw, dims=("lat", "lon")).preparation.select == {}  # a sphere needs none


def test_filling_across_the_dateline_is_the_filling_of_counted_longitudes():
    months = np.datetime64("2001-01", "M") + np.arange(60)
    lon, lat = np.arange(160.0, 201.0, 5.0), np.arange(-20.0, 21.0, 10.0)
    rng = np.random.default_rng(1)
    shape = np.cos(np.pi * (lon - 160) / 40) * np.ones((5, 1))
    values = np.cumsum(rng.standard_normal(60))[:, None, None] * shape
    values = np.where(rng.uniform(size=values.shape) < 0.1, np.nan, values)
    coords = {"time": months.astype("datetime64[ns]"), "lat": lat, "lon": lon}
    east = xr.DataArray(values, coords, ("time", "lat", "lon"), "t")
    signed = east.assign_coords(lon=(lon + 180) % 360 - 180).sortby("lon")
    words = {"n_modes": 2, "basis": "domain", "drift": "diagonal", "residual": "white"}
    one, two = (sl.fill(data, **words)["mean"] for data in (east, signed))
    np.testing.assert_allclose(two.sel(lon=lon).values, one.values, rtol=1e-6)


BAND, WIDE = np.radians([-40, 0, 40]), np.radians([100, 140, 180])
DOMAINS = [
    (wide([5, 7, 9, 11], [40, 42, 45]), "box", ""),
    (wide(np.arange(150, 271, 10), [-2, 0, 2]), "box", ""),
    (wide(WIDE, BAND, units="radian"), "box", "radians"),
    (wide(WIDE, BAND), "box", "radians"),
]


@pytest.mark.parametrize(
    ("west_to_east", "south_to_north", "name"),
    [(280, 100, "sphere"), (260, 100, "box"), (280, 80, "box"), (100, 140, "box")],
)
def test_a_map_is_a_globe_from_270_degrees_of_longitude_and_90_of_latitude_on(
    west_to_east, south_to_north, name
):
    lon = np.linspace(0.0, west_to_east, 15)
    lat = np.linspace(-0.5, 0.5, 11) * south_to_north
    assert recognise(wide(lon, lat)).domain == name


@pytest.mark.parametrize(("raw", "name", "word"), DOMAINS)
def test_a_small_map_is_a_map_also_a_band(raw, name, word):
    layout = recognise(raw)
    assert layout.domain == name
    assert word in layout.domain_reason


def test_dates_of_a_file_may_be_unsorted_text_or_of_the_first_years(tmp_path):
    raw = wide([0, 10, 20])
    raw.isel(time=np.random.default_rng(0).permutation(30)).to_netcdf(tmp_path / "a.nc")
    back, notes = read_raw(tmp_path / "a.nc")
    xr.testing.assert_equal(back["t"], raw["t"])
    assert notes == ["dates along time are not in order in the file: sorted"]
    raw.isel(time=slice(None, None, -1)).to_netcdf(tmp_path / "b.nc")
    assert read_raw(tmp_path / "b.nc")[1] == []  # turned round when they become fields
    # Once 'expected real numbers, got dtype <U10'.
    text = raw.assign_coords(time=raw.time.dt.strftime("%Y-%m-%d").values.astype(object))
    text.to_netcdf(tmp_path / "c.nc")
    xr.testing.assert_equal(read_raw(tmp_path / "c.nc")[0]["t"], raw["t"])
    # Warnings are errors here: xarray has one about 'days since 1-1-1'.
    raw.time.encoding = {"units": "days since 2001-01-01", "dtype": "float64"}
    raw.to_netcdf(tmp_path / "d.nc")
    with h5py.File(tmp_path / "d.nc", "r+") as file:
        file["time"].attrs["units"] = "days since 1-1-1 00:00:0.0"
    assert read_raw(tmp_path / "d.nc")[0]["time"].dt.year.values[0] == 1


def test_longitudes_of_the_other_sign_get_the_line_that_turns_them():
    raw = wide([-160, -140, 140, 160, 180])["t"]
    box = sl.Box((130, 230), (-25, 25), boundary="neumann")
    with pytest.raises(DomainError, match=r"select=\{'lon': \(130, 230\)\}"):
        sl.fit(raw, box, 1)
    how = sl.Preparation(select={"lon": (130, 230)})
    law = sl.fit(raw, box, 1, prepare=how, **NOISE)
    assert law.reconstruct(raw)["mean"]["lon"].values.tolist() == [140, 160, 180, 200, 220]
    with pytest.raises(DomainError, match="rescale the coordinates"):
        sl.fit(raw, sl.Box((0, 1), (0, 1)), 1)


def test_three_dimensions_are_longitude_latitude_and_the_other():
    field = wide([0, 10, 20])["t"].expand_dims(level=[850.0, 500.0], axis=1)
    how = recognise(field.to_dataset(), dims=("x", "y", "z")).preparation
    assert how.rename == {"lon": "x", "lat": "y", "level": "z"}


def moving():
    raw = curvilinear().rename(j="time_", time="j").rename(time_="time")
    return raw.assign_coords(time=np.arange(6.0)).drop_vars("j")


def one_time():
    return wide([0, 10, 20]).isel(time=0).assign(time_bnds=("bnds", [0.0, 1.0]))


def no_place():
    raw = wide([0, 10, 20], lat=(-20.0, 0.0, np.nan))
    return recognise(raw, dims=("x", "y")).preparation.reduce(raw)


def no_positions():
    return array(("time", "station"), {"time": np.arange(4.0)}).expand_dims(x=X)


MAP = wide([0, 10, 20])
NAMELESS = MAP["t"].rename(lat="row", lon="column")
RADIANS = wide([0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], units="radian")["t"]
SPHERICAL = {"dims": ("lat", "lon")}
REFUSED = [
    (lambda: as_fields(moving(), **SPHERICAL), "do not change with time"),
    (lambda: as_fields(NAMELESS, **SPHERICAL), "rename"),
    (lambda: as_fields(no_positions()), "assign_coords"),
    (lambda: as_fields(MAP["t"].isel(time=[4, 5, 5]), **SPHERICAL), "2001-06-01 more than once"),
    (lambda: as_fields(MAP["t"].isel(time=[4, 5, 1]), **SPHERICAL),
     "got 2001-02-01 after 2001-06-01 at index 2"),
    (lambda: sl.fit(RADIANS, sl.Sphere(), 1), "expected degrees, got units 'radian'"),
    (lambda: recognise(one_time()), "of t, got fields of one 'time' only"),
    # Once advised to name the time dim, which had its name.
    (lambda: recognise(MAP.astype("U8")), "'t' of text.*astype\\(float\\)"),
    (lambda: recognise(MAP.astype(bool)), "'t' of booleans.*astype\\(float\\)"),
    # Once 'coordinate y' of a file with lat.
    (lambda: as_fields(no_place(), dims=("x", "y")), "coordinate 'lat': expected finite numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_refused_without_advice_to_delete(call, words):
    with pytest.raises(DataError, match=words) as caught:
        call()
    for word in ("isel", "drop", "delete", "remove"):
        assert word not in caught.value.fix


@pytest.mark.parametrize("name", ["year", "week", "hour"])
def test_a_part_of_the_calendar_alone_is_the_time(name):
    raw = array((name, "x"), {name: np.arange(1990.0, 2010.0), "x": X}).to_dataset()
    assert recognise(raw).time == name
    grid = array(("year", "month", "x"), {"x": X}).to_dataset()
    with pytest.raises(DataError, match="time"):
        recognise(grid)


def test_sensors_with_names_and_no_positions_are_numbered_and_keep_their_names(tmp_path):
    names = ["north", "east", "south", "west"]
    raw = array(("time", "gauge"), {"time": np.arange(40.0), "gauge": names})
    law = sl.fit(raw, n_modes=2, **NOISE)
    assert (law.domain.a, law.domain.b) == (0.0, 3.0)
    ahead = law.forecast(raw, steps=2)
    assert ahead["mean"].dims[-1] == "gauge"
    assert ahead["gauge"].values.tolist() == names
    law.save(tmp_path / "gauges.law")
    again = sl.load(tmp_path / "gauges.law").forecast(raw, steps=2)
    np.testing.assert_array_equal(again["mean"].values, ahead["mean"].values)
