"""The report of fields in several dimensions: maps, and sections that hold at single places."""

from functools import cache

import numpy as np
import pytest
from scipy.spatial import Delaunay
from tests.report.pages import FIGURES, figures_of, open_whole, unpacked

import spdelaw as sl
from spdelaw.domains.places import Places
from spdelaw.report.maps import MAX_VALUES, canvas_of
from spdelaw.report.page import write_report
from spdelaw.report.sections import MAPS

pytest.importorskip("plotly")

TIMES = np.linspace(0.0, 1.0, 11)
RNG = np.random.default_rng(0)
NODES = np.vstack([RNG.uniform(size=(30, 2)), [[0, 0], [0, 1], [1, 0], [1, 1]]])
ANGLE = 2 * np.pi * np.arange(9) / 9
RING = np.roll(np.eye(9), 1, axis=1)


def heat(domain, points, n_paths=8, times=TIMES):
    equation = sl.catalogue.heat_on(domain, 2, nu=0.1, initial="stationary")
    return sl.simulate(equation, n_paths, times, points, seed=0, observation_std=0.02)


def gappy(fields):
    return sl.mask(fields, "random", 0.2, seed=1)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Law, fields and page of a case, made once."""

    @cache
    def made(case):
        domain, fields = case()
        law = sl.fit(fields, domain, 2, initial="stationary")
        return law, fields, write_report(tmp_path_factory.mktemp("r") / "r.html", law, fields)

    return made


def box():
    domain = sl.Box((0, 1), (0, 2))
    return domain, gappy(heat(domain, domain.grid(6)))


def sphere():
    fields = gappy(heat(sl.Sphere(), sl.Sphere().grid(5)))
    return sl.Sphere(), fields.isel(lat=slice(None, None, -1))  # as files have it: north first


def mesh():
    pytest.importorskip("skfem")
    domain = sl.Mesh(NODES, Delaunay(NODES).simplices, n_modes=6, potential=1.0)
    return domain, gappy(heat(domain, NODES))


def disk():
    return sl.Disk(), gappy(heat(sl.Disk(), sl.Disk().grid(7)))


def stations():
    return sl.Sphere(), gappy(heat(sl.Sphere(), RNG.uniform([-80, 0], [80, 360], (25, 2))))


def graph():
    domain = sl.Graph(RING + RING.T, positions=np.c_[np.cos(ANGLE), np.sin(ANGLE)])
    equation = sl.catalogue.heat_on(domain, 2, nu=0.1)
    return domain, gappy(sl.simulate(equation, 8, TIMES, seed=0, observation_std=0.02))


def cube():
    domain = sl.Box((0, 1), (0, 1), (0, 1))
    return domain, heat(domain, domain.grid(4))


def cloud():
    domain = sl.Box((0, 1), (0, 1), (0, 1))
    return domain, heat(domain, RNG.uniform(size=(30, 3)))


def patterns():
    fields = heat(sl.Sphere(), sl.Sphere().grid(5))
    fields = fields.where(fields["lat"] + 0 * fields["lon"] < 60)  # land, say
    return sl.Empirical(fields, 3, weights=sl.Sphere()), fields


def picked(fields, path, time, part):
    """Field at one time as (up, right), or along points."""
    field = fields.isel(path=path, time=time)
    if "lat" in field.dims:
        return field.sortby("lat").transpose("lat", "lon").values
    if "z" in field.dims:
        field = field.isel(z=part)
    return field.transpose("y", "x").values if "y" in field.dims else field.values


# ------------------------------------------------------------------ the file


SLOW = [pytest.param(case, marks=pytest.mark.slow) for case in (disk, stations, graph)]


@pytest.mark.parametrize("case", [box, sphere, mesh, cube, patterns, *SLOW])
def test_maps_hold_the_fields(case, report):
    law, fields, page = report(case)
    figures = {f["name"]: f for f in figures_of(page)}
    assert set(figures) == FIGURES
    shown = figures["fields"]
    observed, shown_mean, left, half = unpacked(shown["arrays"]["map"])
    assert shown_mean.shape[:2] == (3, len(TIMES))
    assert np.nanmin(half) >= 0
    mean = law.reconstruct(fields)["mean"]
    for path, time in ((0, 0), (2, 7)):
        seen, expected = picked(fields, path, time, 2), picked(mean, path, time, 2)
        np.testing.assert_allclose(observed[path, time], seen, rtol=1e-5, atol=1e-6)
        if case is patterns:  # land is empty whatever the law would say there
            expected = np.where(np.isnan(seen), np.nan, expected)
        np.testing.assert_allclose(shown_mean[path, time], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(left[path, time], seen - expected, atol=1e-5)
    controls = [control["name"] for control in shown["controls"]]
    assert controls == ["show", "path", "time", "vertex" if case is graph else "place"]
    is_grid = any(trace["type"] == "heatmap" for trace in shown["data"])
    assert is_grid == (case not in (mesh, stations, graph))


@pytest.mark.parametrize(
    ("case", "words"), [(cube, "middle slice, z = 0.6667"), (cloud, "middle half of the points")]
)
def test_three_dimensions_say_what_they_show(case, words, report):
    assert report(case)[2].read_text(encoding="utf-8").count(words) >= 2


def single():
    domain = sl.Box((0, 1), (0, 1))
    return domain, heat(domain, domain.grid(5), 1, np.linspace(0, 6, 61))


def own_times():
    domain = sl.Box((0, 1), (0, 1))
    clocks = [np.r_[0.0, np.sort(RNG.uniform(0.05, 1.0, 9 + i % 3))] for i in range(8)]
    paths = [heat(domain, domain.grid(5), 1, t)[0] for t in clocks]
    return domain, sl.stack(paths, dims=("x", "y"))


@pytest.mark.parametrize("case", [single, own_times])
def test_one_path_to_show_has_no_list_of_paths(case, report):
    shown = next(f for f in figures_of(report(case)[2]) if f["name"] == "fields")
    assert [control["name"] for control in shown["controls"]] == ["show", "time", "place"]
    assert not any("path" in bind["index"] for bind in shown["binds"])
    assert unpacked(shown["arrays"]["map"]).ndim == 4
    assert len(shown["controls"][1]["labels"]) <= MAPS


# ------------------------------------------------------------------ the map


def test_large_grids_are_thinned_and_say_so():
    domain = sl.Box((0, 1), (0, 1))
    axes = np.linspace(0, 1, 90), np.linspace(0, 1, 60)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    canvas = canvas_of(domain, domain.places(points), ("x", "y"))
    assert 0.9 * MAX_VALUES < canvas.at.size <= MAX_VALUES
    assert "of 90 x 60 points" in canvas.note
    np.testing.assert_allclose(points[canvas.at, 0], np.broadcast_to(canvas.x, canvas.at.shape))
    np.testing.assert_allclose(points[canvas.at, 1].T, np.broadcast_to(canvas.y, canvas.at.T.shape))


def test_holes_of_a_grid_stay_empty():
    places = Places(np.array([[0.0, 0.0], [1.0, 1.0]]), ("x", "y"),
                    {"x": (("x",), np.arange(2.0)), "y": (("y",), np.arange(2.0))}, (2, 2),
                    np.array([True, False, False, True]))  # fmt: skip
    canvas = canvas_of(sl.Box((0, 1), (0, 1)), places, ("x", "y"))
    np.testing.assert_array_equal(canvas.shown(np.array([5.0, 7.0])), [[5, np.nan], [np.nan, 7]])
    assert canvas.where(1) == (1.0, 1.0)


def test_one_coordinate_has_no_map():
    line = sl.Interval(0, 1)
    assert canvas_of(line, line.places(np.linspace(0, 1, 5)), ("x",)) is None
    bare = sl.Graph(RING + RING.T)
    assert canvas_of(bare, bare.places(np.arange(9.0)), ("vertex",)) is None


# ------------------------------------------------------------------ in a browser

MOVE = """(async () => {
    const show = document.getElementById('fields-show');
    const pause = () => new Promise(done => setTimeout(done, 500));
    for (const [id, value] of Object.entries({'fields-time': TIME, 'fields-place': PLACE})) {
        const slider = document.getElementById(id);
        slider.value = value;
        slider.dispatchEvent(new Event('input'));
    }
    await pause();
    const plot = document.getElementById('plot-fields');
    const named = name => plot.data.find(t => t.name === name);
    const values = t => t.type === 'heatmap' ? t.z.map(row => Array.from(row)) : t.marker.color;
    const map = () => plot.data.find(t => t.type === 'heatmap' || t.marker?.colorscale);
    const ends = () => [map().zmin ?? map().marker.cmin, map().zmax ?? map().marker.cmax];
    const choose = async (i) => {
        show.value = i; show.dispatchEvent(new Event('change')); await pause(); };
    await choose(1);
    const mean = values(map());
    await choose(2);
    const difference = ends();
    await choose(0);
    const mark = plot.data.findLast(t => t.mode === 'markers' && t.x.length === 1);
    return [mean, values(map()), Array.from(named('reconstructed').y),
            [mark.x[0], mark.y[0]], plot.layout.shapes.at(-1).x0, difference];
})()"""


@pytest.mark.parametrize("case", [box, sphere, mesh])
def test_sliders_move_maps_and_place(case, browser, report):
    law, fields, page = report(case)
    domain = law.domain
    open_whole(browser, page)
    result = law.reconstruct(fields)["mean"]
    flat = domain.flatten(result)
    for time, place in ((0, 0), (6, 9)):
        move = MOVE.replace("TIME", str(time)).replace("PLACE", str(place))
        mean, seen, line, mark, cursor, (low, high) = browser.run(move)
        assert -low == high > 0  # colours of a difference are symmetric
        np.testing.assert_allclose(mean, picked(result, 0, time, 0), rtol=1e-5, atol=1e-6)
        missing = np.vectorize(lambda v: not isinstance(v, float | int))(np.array(seen, object))
        np.testing.assert_array_equal(missing, np.isnan(picked(fields, 0, time, 0)))
        assert cursor == pytest.approx(TIMES[time])
        names = ("lon", "lat") if case is sphere else ("x", "y")
        off = sum(np.abs(flat[d].values - at) for d, at in zip(names, mark, strict=True))
        there = flat[0].isel(point=int(off.argmin()))
        assert off.min() < 1e-4
        np.testing.assert_allclose(line, there, rtol=1e-5, atol=1e-6)
    assert browser.complaints() == []
    browser.resize(700, 800)
    browser.open(page)
    assert browser.run("document.documentElement.scrollWidth") <= 700
    browser.resize(1280, 900)


def test_a_map_of_three_dimensions_is_that_of_longitude_and_latitude():
    """Once a coast was drawn over level and latitude."""
    domain = sl.Box((850, 1000), (40, 60), (-10, 10), boundary="neumann")
    places = domain.places(domain.grid(4))
    axes = ("level (hPa)", "lat", "lon")
    canvas = canvas_of(domain, places, axes, globe=(2, 1))
    assert canvas.titles == ("lon", "lat")
    assert len(canvas.coast)
    assert canvas.note == "The maps are the middle slice, level (hPa) = 950."
    assert not len(canvas_of(domain, places, axes).coast)


def test_a_law_with_a_mean_is_shown_in_units_of_the_data(tmp_path):
    """Once anomalies under the name of the field."""
    domain = sl.Interval(0, 1, "neumann")
    equation = sl.SpectralSPDE(domain, 2, [1.0, 2.0], noise=[1.0, 1.0], initial="stationary")
    around = sl.simulate(equation, 1, np.arange(80) * 0.2, domain.grid(6), seed=0) + 300.0
    law = sl.fit(around.rename("tos"), domain, 2, mean="constant", nuisance=0)
    page = write_report(tmp_path / "a.html", law, around.rename("tos"))
    figures = {figure["name"]: figure for figure in figures_of(page)}
    parts = figures["forecast"]["arrays"]
    shown = np.concatenate([unpacked(parts["history"]), unpacked(parts["later"])], axis=1)
    np.testing.assert_allclose(shown, around[0].T, rtol=1e-6)
    expected = law.forecast(around[:, :48], around["time"].values[48:])["mean"][0]
    np.testing.assert_allclose(unpacked(parts["mean"]), expected.T, rtol=1e-6)
    fields = figures["fields"]["arrays"]
    np.testing.assert_allclose(unpacked(fields["observed"]), around[0], rtol=1e-6)
    mean = law.reconstruct(around)["mean"][0]
    np.testing.assert_allclose(unpacked(fields["line"]), mean, rtol=1e-6)
    draws = [t for t in figures["samples"]["data"] if t["type"] == "heatmap"]
    assert all(np.abs(unpacked(one["z"]) - 300.0).max() < 10.0 for one in draws)


def test_the_page_says_which_data_are_training_data(tmp_path):
    """Once "other data" of which two thirds were training data."""
    domain = sl.Interval(0, 1, "neumann")
    equation = sl.SpectralSPDE(domain, 2, [1.0, 2.0], noise=[1.0, 1.0], initial="stationary")
    record = sl.simulate(equation, 1, np.arange(90) * 0.2, domain.grid(6), seed=0)
    law = sl.fit(record[:, :60], domain, 2, mean="zero", initial="stationary", nuisance=0)
    for data, words in (
        (record, "60 of the 90 times shown are training times"),
        (record[:, :60], "tests below use the data that the law was fitted to"),
        (record[:, 60:], "None of the times shown is a training time"),
    ):
        text = write_report(tmp_path / "a.html", law, data).read_text(encoding="utf-8")
        assert text.count(words) == 2  # in the summary and in the provenance
    paths = sl.simulate(equation, 4, np.arange(9) * 0.2, domain.grid(6), seed=0)
    law = sl.fit(paths[:3], domain, 2, mean="zero", initial="stationary", nuisance=0)
    text = write_report(tmp_path / "a.html", law, paths).read_text(encoding="utf-8")
    assert "single paths may be in both" in text
