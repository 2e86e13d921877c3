"""Figures of a law: what is drawn is what the law says."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

import spdelaw as sl
from spdelaw.errors import DataError, InputError
from spdelaw.law.law import register_accessor
from spdelaw.report.figures.draw import save_figure
from spdelaw.report.figures.fields import plot_reconstruction
from spdelaw.report.figures.laws import plot_spectrum
from spdelaw.report.figures.predictions import plot_forecast

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure


@pytest.fixture(scope="module")
def heat():
    return sl.catalogue.heat(n_modes=3)


@pytest.fixture(scope="module")
def fields(heat):
    return sl.simulate(heat, 20, times=np.linspace(0, 1, 21), grid=np.linspace(0, 3, 16), seed=0)


@pytest.fixture(scope="module")
def law(heat, fields):
    return sl.fit(fields, heat.domain, 3)


def labelled(ax, label):
    (curve,) = [a for a in ax.get_lines() if a.get_label() == label]
    return curve.get_ydata()


# ------------------------------------------------------------------ spectrum


def test_spectrum_draws_estimates_intervals_truth_and_errors(law, heat):
    figure = plot_spectrum(law, heat)
    top, bottom = figure.axes[:2], figure.axes[2:]
    for ax, below, name, true in zip(
        top, bottom, ("eigenvalue", "noise_variance"), (heat.eigenvalues, heat.noise_variance),
        strict=True,
    ):  # fmt: skip
        estimate, stderr, lower, upper = law.parameters[name].values.T
        points, _, (bars,) = ax.containers[0].lines
        np.testing.assert_array_equal(points.get_ydata(), estimate)
        ends = np.array([s[:, 1] for s in bars.get_segments()])
        np.testing.assert_allclose(ends, np.stack([lower, upper], 1), rtol=1e-12)
        np.testing.assert_array_equal(labelled(ax, "truth"), true)
        assert ax.get_yscale() == "log"
        low, high = ax.get_ylim()
        assert 0.1 * lower.min() < low < lower.min()
        assert upper.max() < high < 10 * upper.max()
        z = [a.get_ydata() for a in below.get_lines() if a.get_marker() == "o"]
        np.testing.assert_allclose(z[0], (estimate - true) / stderr)
    words = [t.get_text() for t in top[0].get_legend().get_texts()]
    assert words == ["truth", "learned, 95 % interval"]


def test_spectrum_draws_what_has_no_finite_interval(law, heat, tmp_path):
    table = law.parameters.copy(deep=True)
    table["eigenvalue"][2, 1:] = [np.inf, 0.0, np.inf]
    open_ended = dataclasses.replace(law, parameters=table)
    assert len(plot_spectrum(open_ended).axes) == 2
    figure = plot_spectrum(open_ended, heat)
    save_figure(figure, tmp_path / "a.png")
    (z,) = [a.get_ydata() for a in figure.axes[2].get_lines() if a.get_marker() == "o"]
    assert np.isnan(z[2]), "an undetermined number has no error, not a perfect one"
    assert np.isfinite(z[:2]).all()


# ------------------------------------------------------------------ reconstruction


def test_reconstruction_draws_gaps_mean_and_std(law, fields):
    gappy = sl.mask(fields, "blocks", 0.25, seed=0)
    result = law.reconstruct(gappy)
    figure = plot_reconstruction(gappy, result, path=2)
    seen, mean, std = (ax.collections[0] for ax in figure.axes[:3])
    np.testing.assert_array_equal(np.ma.getmaskarray(seen.get_array()), np.isnan(gappy[2]).T)
    np.testing.assert_array_equal(mean.get_array(), result["mean"][2].T)
    np.testing.assert_array_equal(std.get_array(), result["std_field"][2].T)
    assert seen.get_clim() == mean.get_clim()
    assert std.get_clim()[0] == 0
    assert figure.axes[0].get_title("left") == "observed, 25 % missing"


def test_reconstruction_uses_the_clock_of_the_path(law, fields):
    own = [fields[0, [0, 3, 9]], fields[1, [0, 2, 4, 20]]]
    stacked = sl.stack(own)
    figure = plot_reconstruction(stacked, law.reconstruct(stacked), path=0)
    edges = figure.axes[0].collections[0].get_coordinates()[0, :, 0]
    np.testing.assert_allclose(edges, [0.0, 0.075, 0.3, 0.45])


REFUSALS = [
    (lambda law, x: plot_spectrum(law, sl.catalogue.heat(2)), InputError, "3 modes, got 2"),
    (lambda law, x: plot_spectrum(law, "heat"), InputError, "got .heat."),
    (lambda law, x: reconstruction(x, law, path=20), InputError, "from 0 to 19"),
    (lambda law, x: plot_reconstruction(x, x), DataError, "expected a Dataset"),
    (lambda law, x: reconstruction(x, law, change=np.nan), DataError, "NaN only"),
    (lambda law, x: plot_reconstruction(x.values, law.reconstruct(x)), DataError, "got ndarray"),
    (lambda law, x: plot_forecast(x, x), DataError, "expected a Dataset"),
]


def reconstruction(fields, law, path=0, change=1.0):
    return plot_reconstruction(change * fields, law.reconstruct(fields), path=path)


@pytest.mark.parametrize(("call", "error", "word"), REFUSALS)
def test_refusals(law, fields, call, error, word):
    with pytest.raises(error, match=word):
        call(law, fields)


# ------------------------------------------------------------------ forecast


def test_forecast_draws_history_mean_bands_and_truth(law, fields):
    history, later = fields[:, :12], fields[:, 12:]
    result = law.forecast(history, later.time.values)
    ax = Figure().add_subplot()
    assert plot_forecast(history, result, later, point=1.05, path=4, ax=ax) is ax.figure
    at = {"path": 4, "x": 5}  # 1.0 is the nearest point
    mean, std = (result[k].isel(at).values for k in ("mean", "std_field"))
    np.testing.assert_array_equal(labelled(ax, "history"), history.isel(at))
    np.testing.assert_array_equal(labelled(ax, "forecast mean"), mean)
    np.testing.assert_array_equal(labelled(ax, "later observations"), later.isel(at))
    for band, probability in zip(ax.collections, (0.95, 0.5), strict=True):
        reach = stats.norm.ppf(0.5 + probability / 2) * std
        drawn = band.get_paths()[0].vertices[:, 1]
        assert drawn.min() == pytest.approx((mean - reach).min())
        assert drawn.max() == pytest.approx((mean + reach).max())
        assert band.get_label() == f"{100 * probability:g} % band"
    assert ax.get_title("left") == "x = 1"


# ------------------------------------------------------------------ law.plot


def test_accessor_returns_axes_of_the_same_figures(law, fields, heat):
    data = fields
    left, right = law.plot.spectrum(heat)
    np.testing.assert_allclose(right.lines[0].get_ydata(), heat.noise_variance[:3])
    assert left.get_ylabel().startswith("eigenvalue")
    titles = [ax.get_title("left") for ax in law.plot.field(data, path=2)]
    assert titles == ["observed, 0 % missing", "reconstructed mean", "standard deviation"]
    ax = law.plot.forecast(data[:, :15], data["time"][15:], data[:, 15:], point=1.0)
    mean = law.forecast(data[:1, :15], data["time"].values[15:])["mean"]
    np.testing.assert_allclose(ax.lines[1].get_ydata(), mean.sel(x=1.0, method="nearest")[0])
    energy = law.plot.energy(0.5).lines[0].get_ydata()
    np.testing.assert_allclose(energy, law.equation.energy_spectrum([0.5]).values[0])


def test_a_notebook_shows_what_law_plot_returns_as_a_figure(law, fields):
    """Jupyter calls ``_repr_png_``; a list of axes would be text."""
    ax = Figure().add_subplot()
    times = fields["time"][15:]
    ahead = law.plot.forecast(fields[:, :15], times, ax=ax)
    drawn = [law.plot.spectrum(), law.plot.energy(), law.plot.field(fields),
             law.plot.innovations(fields), ahead]  # fmt: skip
    for shown in drawn:
        assert shown._repr_png_().startswith(b"\x89PNG")
    assert drawn[0].figure.axes[0] is drawn[0][0]
    assert drawn[-1] is ax


def test_innovations_are_drawn_with_what_chance_allows(law, fields):
    pit, past = law.plot.innovations(fields)
    log_likelihoods = np.array([bar.get_height() for bar in pit.patches[:20]])
    assert log_likelihoods.mean() == pytest.approx(1.0)
    z = sl.evaluate(law, fields, tiers=()).check.innovations[..., 1]
    expected = np.nanmean(z[:, 3:] * z[:, :-3]) / np.nanmean(z**2)
    assert past.lines[1].get_ydata()[2] == pytest.approx(expected)


def test_names_of_a_law_cannot_be_taken():
    for name in ("plot", "domain", "forecast", "not a name"):
        with pytest.raises(InputError, match="free name"):
            register_accessor(name)(object)
