"""Figures of fields in two dimensions."""

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.errors import DataError, InputError
from spdelaw.report.figures.fields import nearest, plot_fields, plot_modes, plot_reconstruction
from spdelaw.report.figures.moments import plot_energy_spectrum, plot_variance
from spdelaw.report.figures.predictions import plot_forecast

TIMES = np.linspace(0.0, 1.0, 9)
DOMAINS = {
    "box": (sl.Box((0, 1), (0, 2)), 7),
    "disk": (sl.Disk(), 9),
    "sphere": (sl.Sphere(), 6),
}


def axis_names(panel):
    """Horizontal and vertical dim of a map."""
    return ("lon", "lat") if "lon" in panel.dims else ("x", "y")


def drawn(ax):
    """Values of the map that axes hold."""
    (image,) = ax.collections
    return np.ma.filled(image.get_array().astype(float), np.nan)


@pytest.fixture(scope="module", params=DOMAINS)
def case(request):
    domain, n = DOMAINS[request.param]
    equation = sl.catalogue.heat_on(domain, 3, nu=0.1)
    fields = sl.simulate(equation, 30, TIMES, domain.grid(n), seed=0)
    words = {"initial": "stationary", "observation_noise": "none"}
    return equation, fields, sl.fit(fields, domain, 3, **words)


def test_maps_show_the_values(case):
    equation, fields, _ = case
    figure = plot_fields(fields, equation, n_paths=2)
    titles = [ax.get_title("left") for ax in figure.axes[:4]]
    assert titles == ["t = 0", "t = 0.375", "t = 0.625", "t = 1"]
    assert len(figure.axes) == 4 * 4 + 1
    right, up = axis_names(fields[0, 0])
    expected = fields[1, -1].transpose(up, right).values
    np.testing.assert_array_equal(drawn(figure.axes[7]), expected)
    exact = equation.mean(TIMES, equation.domain.places(fields).points)[0].transpose(up, right)
    np.testing.assert_allclose(drawn(figure.axes[12]), exact, atol=1e-14)
    assert figure.axes[0].get_ylabel().endswith(up)
    assert figure.axes[-2].get_xlabel() == right
    assert plot_variance(fields, equation).axes
    assert plot_energy_spectrum(fields, equation).axes


def test_reconstruction_at_one_time(case):
    _, fields, law = case
    gappy = sl.mask(fields, "random", 0.5, seed=0)
    result = law.reconstruct(gappy)
    figure = plot_reconstruction(gappy, result, path=1, time=0.26)
    right, up = axis_names(fields[0, 0])
    expected = result["mean"].sel(path=1, time=0.25).transpose(up, right)
    np.testing.assert_array_equal(drawn(figure.axes[1]), expected)
    assert "t = 0.25" in figure.axes[0].get_ylabel()


def test_forecast_at_a_place(case):
    equation, fields, law = case
    history, later = fields[:, :6], fields[:, 6:]
    forecast = law.forecast(history, later.time)
    first, second = equation.domain.dims
    place = (float(fields[first][2]) + 0.01, float(fields[second][3]))
    figure = plot_forecast(history, forecast, later, point=place)
    ax = figure.axes[0]
    assert f"{first} = {float(fields[first][2]):.3g}" in ax.get_title("left")
    line = next(one for one in ax.lines if one.get_label() == "forecast mean")
    at = {first: 2, second: 3}
    np.testing.assert_array_equal(line.get_ydata(), forecast["mean"][0].isel(at))
    assert plot_forecast(history, forecast).axes
    with pytest.raises(DataError, match=f"one number for each of {first}, {second}"):
        plot_forecast(history, forecast, point=1.0)


def test_scattered_points():
    domain = sl.Box((0, 1), (0, 1))
    points = np.random.default_rng(0).uniform(size=(20, 2))
    fields = sl.simulate(sl.catalogue.heat_on(domain, 3), 2, TIMES, points, seed=0)
    figure = plot_fields(fields, n_paths=1)
    np.testing.assert_array_equal(drawn(figure.axes[0]), fields[0, 0])
    np.testing.assert_allclose(nearest(fields, points[7])[0, 0], fields[0, 0, 7])


def test_three_dimensions_ask_for_a_slice():
    box = sl.Box((0, 1), (0, 1), (0, 1))
    fields = sl.simulate(sl.catalogue.heat_on(box, 2), 1, TIMES, box.grid(3), seed=0)
    with pytest.raises(DataError, match=r"fields\.sel\(z=0"):
        plot_fields(fields)
    assert plot_fields(fields.isel(z=1, drop=True)).axes


GRAPH = sl.Graph(np.ones((4, 4)), positions=np.eye(4)[:, :2])


@pytest.mark.parametrize(
    "domain",
    [
        sl.Interval(0, 1), sl.Line(), sl.Plane(), sl.Disk(), sl.Sphere(), GRAPH,
        sl.Graph(np.ones((4, 4))),
    ],
    ids=str,
)  # fmt: skip
def test_modes_of_every_domain(domain):
    figure = plot_modes(domain, 4, n_points=9)
    titles = [ax.get_title("left") for ax in figure.axes]
    assert titles == [f"{i + 1}: {mu:.3g}" for i, mu in enumerate(domain.eigenvalues(4))]


def test_modes_of_a_box_are_its_eigenfunctions():
    box = sl.Box((0, 1), (0, 1))
    figure = plot_modes(box, 2, n_points=5)
    expected = box.eigenfunctions(box.grid(5), 2)[:, 1].reshape(5, 5).T
    np.testing.assert_array_equal(drawn(figure.axes[1]), expected)
    assert len(plot_modes(GRAPH, 9).axes) == 4  # as many as there are
    with pytest.raises(InputError, match="an AbstractDomain"):
        plot_modes(xr.DataArray(0.0))


def test_a_point_is_given_in_the_order_of_the_domain():
    lat, lon = np.array([30.0, 40.0, 50.0]), np.array([-100.0, -90.0, -80.0, -70.0])
    steps = np.random.default_rng(0).standard_normal((40, 3, 4))
    values = 0.1 * steps
    for k in range(1, 40):  # a common state that decays by a tenth each step
        values[k] += 0.9 * values[k - 1].mean() + steps[k, 0, 0]
    coords = {"time": np.arange(40.0), "lat": lat, "lon": lon}
    raw = xr.DataArray(values, coords, ("time", "lat", "lon"), "t")
    box = sl.Box((-105, -65), (25, 55), boundary="neumann")
    law = sl.fit(raw, box, 1, initial="stationary", nuisance=0, mean="zero")
    ax = law.plot.forecast(raw[:30], steps=2, point=(-80.0, 40.0))
    assert ax.get_title("left") == "lat = 40, lon = -80"
