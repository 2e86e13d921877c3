"""The figure of drift and noise: what is drawn is what the law says."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.errors import InputError
from spdelaw.report.figures.draw import save_figure
from spdelaw.report.figures.laws import plot_operator, plot_spectrum

pytest.importorskip("matplotlib")

RING = sl.catalogue.advection_diffusion(3, speed=2.0, initial="stationary")


@pytest.fixture(scope="module")
def law():
    data = sl.simulate(RING, 30, np.linspace(0, 1, 21), RING.domain.grid(8), seed=0)
    return sl.fit(data, RING.domain, 3, drift="dense", noise="dense", initial="stationary")


def test_matrices_and_eigenvalues(law, tmp_path):
    figure = plot_operator(law, RING)
    left, middle, right = figure.axes[:3]
    for ax, name in ((left, "drift"), (middle, "noise_covariance")):
        estimate, _, lower, upper = np.moveaxis(law.parameters[name].values, -1, 0)
        np.testing.assert_array_equal(ax.collections[0].get_array(), estimate)
        rows, columns = np.nonzero((lower < 0) & (upper > 0))
        dots = ax.get_lines()[0]
        np.testing.assert_array_equal(dots.get_xdata(), columns + 1)
        np.testing.assert_array_equal(dots.get_ydata(), rows + 1)
    modes = law.eigenmodes().sel(statistic="estimate")
    points = right.containers[0].lines[0]
    np.testing.assert_array_equal(points.get_xdata(), modes["decay_rate"])
    np.testing.assert_array_equal(points.get_ydata(), modes["frequency"])
    (truth,) = [a for a in right.get_lines() if a.get_label() == "truth"]
    np.testing.assert_allclose(np.sort(truth.get_xdata()), [1.0, 5.0])
    assert save_figure(figure, tmp_path / "operator.png").stat().st_size > 10_000


def test_a_diagonal_law_has_the_figure_too():
    heat = sl.catalogue.heat(n_modes=3)
    law = sl.fit(sl.simulate(heat, 20, np.linspace(0, 1, 21), seed=0), heat.domain, 3)
    left = plot_operator(law).axes[0]
    np.testing.assert_array_equal(left.collections[0].get_array(), np.diag(law.dynamics.drift))


def test_wrong_laws_and_truths_are_refused(law):
    with pytest.raises(InputError, match="plot_operator"):
        plot_spectrum(law)
    with pytest.raises(InputError, match="at least 3 modes"):
        plot_operator(law, sl.catalogue.heat(n_modes=2))
