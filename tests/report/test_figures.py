"""Figures: what is drawn is what was computed, and nothing of the process changes."""

import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.errors import AliasingWarning, DataError, FileError, InputError, MissingExtraError
from spdelaw.report.figures.draw import save_figure
from spdelaw.report.figures.fields import plot_fields
from spdelaw.report.figures.moments import averaged_variance, plot_energy_spectrum, plot_variance
from spdelaw.report.plots import log_axis

matplotlib = pytest.importorskip("matplotlib")

#: Sums of a few hundred doubles.
ROUNDING = 1e-10


@pytest.fixture(scope="module")
def heat():
    return sl.catalogue.heat(n_modes=6)


@pytest.fixture(scope="module")
def fields(heat):
    return sl.simulate(heat, 40, seed=0)


def line(ax, label):
    (curve,) = [a for a in ax.get_lines() if a.get_label() == label]
    return curve.get_xydata()


# ------------------------------------------------------------------ fields


def test_fields_draws_the_paths_and_both_means(heat, fields):
    figure = plot_fields(fields, heat, n_paths=2)
    *panels, bar = figure.axes
    titles = ["path 0", "path 1", "mean of 40 paths", "mean, closed form"]
    assert [ax.get_title("left") for ax in panels] == titles
    drawn = [ax.collections[0].get_array() for ax in panels]
    grid = fields.x.values
    expected = [fields[0], fields[1], fields.mean("path"), heat.mean(fields.time.values, grid)]
    for got, field in zip(drawn, expected, strict=True):
        np.testing.assert_array_equal(got, field.values.T)
    limits = {ax.collections[0].get_clim() for ax in panels}
    assert len(limits) == 1, "panels share one colour scale"
    assert bar.get_ylabel() == "field"


def test_fields_cells_lie_around_irregular_points(heat):
    t = [0.0, 0.1, 0.5, 1.0]
    figure = plot_fields(sl.simulate(heat, 1, times=t, seed=0))
    edges = figure.axes[0].collections[0].get_coordinates()
    np.testing.assert_allclose(edges[0, :, 0], [0.0, 0.05, 0.3, 0.75, 1.0])


@pytest.mark.parametrize(
    ("low", "high", "name"), [(-1.0, 1.0, "RdBu_r"), (0.0, 3.0, "viridis"), (-0.1, 3.0, "viridis")]
)
def test_fields_centres_colours_only_for_two_signs(low, high, name):
    values = np.linspace(low, high, 60).reshape(1, 6, 10)
    coords = {"path": [0], "time": np.arange(6.0), "x": np.arange(10.0)}
    image = plot_fields(xr.DataArray(values, coords, ("path", "time", "x"))).axes[0].collections[0]
    assert image.get_cmap().name == name
    if name == "RdBu_r":
        assert sum(image.get_clim()) == 0


def test_fields_leaves_missing_values_out(fields):
    holes = fields.where(fields.x > 1)
    image = plot_fields(holes, n_paths=1).axes[0].collections[0]
    np.testing.assert_array_equal(np.ma.getmaskarray(image.get_array()), holes[0].isnull().T)


# ------------------------------------------------------------------ variance


def test_variance_on_an_interval_is_the_mean_over_modes(heat, fields):
    """On the regular grid the rule is exact: ``1/|D| sum_n Var c_n``."""
    figure = plot_variance(fields, heat)
    (ax,) = figure.axes
    exact = heat.variance().sum("mode").values / np.pi
    c = heat.domain.analyse(fields, heat.n_modes)
    sample = c.var("path", ddof=1).sum("mode").values / np.pi
    np.testing.assert_allclose(line(ax, "closed form")[:, 1], exact, atol=ROUNDING)
    np.testing.assert_allclose(line(ax, "40 paths")[:, 1], sample, atol=ROUNDING)
    np.testing.assert_array_equal(line(ax, "40 paths")[:, 0], fields.time)
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    low, high = averaged_variance(fields, heat.domain).interval()
    assert (band.min(), band.max()) == (low.min(), high.max())
    assert "|D|" in ax.get_title("left")


def test_variance_on_the_line_says_what_it_integrates():
    e = sl.catalogue.ornstein_uhlenbeck(n_modes=4)
    fields = sl.simulate(e, 30, times=[0.5, 1.0], seed=0)
    (ax,) = plot_variance(fields, e).axes
    x = fields.x.values
    density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    exact = np.trapezoid(e.variance([0.5, 1.0], x).values * density, x, axis=1)
    np.testing.assert_allclose(line(ax, "closed form")[:, 1], exact, rtol=ROUNDING)
    assert "over the grid" in ax.get_title("left")


def test_band_of_the_variance_covers_the_closed_form(heat):
    """Coverage over 200 ensembles; binomial bounds at 1e-4 two-sided."""
    exact = float(heat.variance([0.5]).sum() / np.pi)
    fields = sl.simulate(heat, 200 * 50, times=[0.5], seed=1)
    inside = 0
    for i in range(200):
        low, high = averaged_variance(fields[50 * i : 50 * (i + 1)], heat.domain).interval()
        inside += int(low[0] <= exact <= high[0])
    assert 170 <= inside <= 199  # for a coverage of 0.93, that of 50 skewed paths, to 0.95


def test_variance_takes_missing_values(heat, fields):
    rng = np.random.default_rng(0)
    holes = fields.where(rng.random(fields.shape) > 0.3)
    (ax,) = plot_variance(holes, heat).axes
    pointwise = holes.var("path", ddof=1).values
    expected = pointwise @ heat.domain.grid_weights(fields.x.values) / np.pi
    np.testing.assert_allclose(line(ax, "40 paths")[:, 1], expected, atol=ROUNDING)


# ------------------------------------------------------------------ spectrum


def test_spectrum_draws_energies_and_their_ratio(heat, fields):
    top, bottom = plot_energy_spectrum(fields, heat, time=0.52).axes
    exact = heat.energy_spectrum([0.52]).values[0]
    c = heat.domain.analyse(fields.sel(time=[0.52], method="nearest"), heat.n_modes)
    sample = (c**2).mean("path").values[0]
    np.testing.assert_allclose(line(top, "closed form")[:, 1], exact, rtol=ROUNDING)
    np.testing.assert_allclose(top.containers[0].lines[0].get_ydata(), sample, rtol=ROUNDING)
    ratio = bottom.containers[0].lines[0].get_ydata()
    np.testing.assert_allclose(ratio, sample / exact, rtol=ROUNDING)
    assert top.get_yscale() == "log"
    assert "t = 0.52" in top.get_ylabel()


def test_line_plots_go_into_given_axes(heat, fields):
    from matplotlib.figure import Figure

    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_variance(fields, heat, ax=left) is figure
    assert plot_energy_spectrum(fields, heat, ax=right) is figure
    assert left.get_lines()
    assert right.get_lines()
    assert len(figure.axes) == 2


# ------------------------------------------------------------------ bad input


MOMENTS = [
    (lambda x: x[:1], DataError, "at least 2 paths, got 1"),
    (lambda x: x.rename(x="lon"), DataError, "dims"),
    (lambda x: x.values, DataError, "got ndarray"),
]
FIELDS = [
    (lambda x: plot_fields(x * np.nan), DataError, "NaN only"),
    (lambda x: plot_fields(x, n_paths=0), InputError, "n_paths"),
    (lambda x: plot_fields(x[0]), DataError, "dims"),
    (lambda x: plot_fields(with_clocks(x)), DataError, "times of their own"),
    (lambda x: plot_fields(x.drop_vars("x")), DataError, "no coordinate x"),
    (lambda x: save_figure(plot_fields(x), "paths.docx"), FileError, "ends in one of"),
    (lambda x: save_figure(plot_fields(x), "nowhere/paths.png"), FileError, "folder"),
]


def with_clocks(x):
    return x.assign_coords(path_time=(("path", "time"), np.zeros(x.shape[:2])))


def test_refusals(heat, fields, monkeypatch):
    for call, error, word in FIELDS:
        with pytest.raises(error, match=word):
            call(fields)
    for plot in (plot_variance, plot_energy_spectrum):
        for change, error, word in MOMENTS:
            with pytest.raises(error, match=word):
                plot(change(fields), heat)
    many = sl.catalogue.ornstein_uhlenbeck(n_modes=50)
    few = sl.simulate(many, 3, times=[1.0], seed=0)
    with pytest.warns(AliasingWarning), pytest.raises(DataError, match="tells 50 modes apart"):
        plot_energy_spectrum(few, many)
    gappy = fields.where(fields.path == 0)
    with pytest.warns(AliasingWarning), pytest.raises(DataError, match="complete paths"):
        plot_energy_spectrum(gappy, heat)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'spdelaw\[report\]'"):
        plot_variance(fields, heat)


# ------------------------------------------------------------------ manners


def test_save_writes_the_format_of_the_suffix(fields, tmp_path):
    small = fields[:2, :3]
    for kind, start in {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}.items():
        path = save_figure(plot_fields(xr.zeros_like(small)), tmp_path / f"paths.{kind}")
        assert path.read_bytes().startswith(start)
    save_figure(plot_fields(fields.isel(time=[3])), tmp_path / "one.png")
    assert len(list(tmp_path.iterdir())) == 4


def test_figures_change_nothing_of_the_process(heat, fields, tmp_path):
    import matplotlib.pyplot as plt

    open_before = plt.get_fignums()  # of other tests in the same process
    with matplotlib.rc_context({"lines.linewidth": 7.0, "font.size": 30.0}):
        before = dict(matplotlib.rcParams)
        figure = plot_variance(fields, heat)
        save_figure(figure, tmp_path / "v.png")
        assert dict(matplotlib.rcParams) == before
    assert figure.axes[0].get_lines()[0].get_linewidth() < 7.0, "the house style is used"
    assert plt.get_fignums() == open_before


def test_importing_report_loads_no_matplotlib():
    code = "import sys, spdelaw.report; print('matplotlib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_an_interval_without_end_does_not_stretch_the_axis():
    values, ends = np.array([1.0, 10.0]), np.array([[0.5, 2.0], [1e-300, 1e300]])
    low, high = log_axis(values, ends)["range"]
    assert -2.5 < low < -2.0
    assert 3.0 < high < 3.5
    assert "range" not in log_axis(values)
