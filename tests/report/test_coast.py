"""Coastlines: clipped to a window in its own longitudes, where a map is one of the globe."""

import numpy as np
import pytest
from tests.report.pages import figures_of, unpacked

import spdelaw as sl
from spdelaw.report.maps import coastline, is_geographic
from spdelaw.report.page import write_report

WINDOWS = [(150.0, 290.0, -30.0, 30.0), (-180.0, 180.0, -90.0, 90.0), (0.0, 360.0, -60.0, 60.0)]


def lines(points):
    """Lines without the rows of NaN between them."""
    cuts = np.flatnonzero(np.isnan(points[:, 0]))
    return [part[~np.isnan(part[:, 0])] for part in np.split(points, cuts)]


@pytest.mark.parametrize("window", WINDOWS)
def test_lines_stay_in_the_window(window):
    west, east, south, north = window
    coast = coastline(*window)
    inside = coast[~np.isnan(coast[:, 0])]
    assert len(inside) > 200
    assert (inside >= np.array([west, south]) - 1e-9).all()
    assert (inside <= np.array([east, north]) + 1e-9).all()
    # No line jumps across the map, as polygons do at the date line.
    assert max(np.abs(np.diff(line, axis=0)).max() for line in lines(coast) if len(line) > 1) < 15


def test_land_is_where_it_is_and_open_ocean_is_empty():
    for land in (
        (43.0, 52.0, -16.0, -11.5),
        (144.0, 149.0, -44.0, -40.5),
        (335.0, 347.0, 63.0, 67.0),  # counted to 360
    ):
        assert len(coastline(*land)) > 5
    for ocean in ((200.0, 250.0, -50.0, -30.0), (330.0, 340.0, 20.0, 25.0)):
        assert coastline(*ocean).shape == (0, 2)


def test_a_window_cuts_lines_at_its_edge():
    coast = coastline(-85.0, -60.0, -25.0, -10.0)  # the coast of Peru and Chile crosses the south
    edge = coast[np.abs(coast[:, 1] + 25.0) < 1e-9]
    assert len(edge) == 1
    assert -71.5 < edge[0, 0] < -69.5


def test_names_and_units_say_what_is_geographic():
    assert is_geographic({"name": "x", "units": "degrees_east"}, {"standard_name": "latitude"})
    assert is_geographic({"name": "lon"}, {"name": "lat"})
    assert not is_geographic({"name": "x", "units": "km"}, {"name": "y", "units": "km"})


@pytest.fixture(scope="module")
def ocean():
    pytest.importorskip("plotly")
    region = sl.Box((150, 190), (-30, 0), boundary="neumann")
    equation = sl.catalogue.heat_on(region, 3, kappa=0.5, nu=20.0, initial="stationary")
    made = sl.simulate(equation, 1, np.arange(40.0), region.grid((9, 7)), seed=0)[0]
    months = np.datetime64("2001-01") + np.arange(40).astype("timedelta64[M]")
    fields = made.rename(x="lon", y="lat").drop_vars("path")
    fields = fields.assign_coords(time=months.astype("datetime64[ns]"))
    warm = 300.0 + np.cos(2 * np.pi * np.arange(40) / 12)
    fields = (fields + warm[:, None, None]).rename("sst").assign_attrs(units="K")
    return region, fields.where(~((fields.lon > 180) & (fields.lat > -8)))


@pytest.fixture(scope="module")
def figures(ocean, tmp_path_factory):
    region, fields = ocean
    how = sl.Preparation(rename={"lon": "x", "lat": "y"}, anomalies="month")
    law = sl.fit(fields, region, 3, prepare=how, initial="stationary", nuisance=0)
    page = write_report(tmp_path_factory.mktemp("r") / "r.html", law, fields)
    return law, {figure["name"]: figure for figure in figures_of(page)}


def test_maps_of_the_globe_have_coastlines_and_land(ocean, figures):
    _, shown = figures
    for name in ("fields", "modes", "samples"):
        coasts = [t for t in shown[name]["data"] if t.get("line", {}).get("color") == "@coast"]
        assert len(coasts) == (2 if name == "samples" else 1)
    land = np.isnan(ocean[1]).all("time").transpose("lat", "lon").values
    for figure, array in (("samples", "draw"), ("modes", "map"), ("fields", "map")):
        values = unpacked(shown[figure]["arrays"][array])
        assert np.isnan(values[..., land]).all()
        if figure != "fields":
            assert np.isfinite(values[..., ~land]).all()
    assert shown["fields"]["layout"]["xaxis"]["title"]["text"].startswith("lon")
    times = next(c for c in shown["fields"]["controls"] if c["name"] == "time")
    assert times["labels"][0] == "2001-01-01"


def test_forecast_is_in_raw_units_and_dates(ocean, figures):
    law, shown = figures
    figure, fields = shown["forecast"], ocean[1]
    assert figure["layout"]["yaxis"]["title"]["text"] == "sst (K)"
    assert figure["layout"]["xaxis"]["type"] == "date"
    history = fields.isel(time=slice(0, 24))
    expected = law.forecast(history, times=fields.time.values[24:])["mean"].isel(path=0)
    flat = expected.stack(point=("lon", "lat")).dropna("point").values.T
    np.testing.assert_allclose(unpacked(figure["arrays"]["mean"]), flat, rtol=1e-6)
    raw = fields.stack(point=("lon", "lat")).dropna("point", how="all").values.T
    shown = [unpacked(figure["arrays"][name]) for name in ("history", "later")]
    np.testing.assert_allclose(np.concatenate(shown, axis=1), raw, rtol=1e-6)
