"""What is never seen does not exist: points such as land, and times without any value."""

import numpy as np
import pytest
from tests.fitted import INTERVAL
from tests.infer.recovery import same_law

import spdelaw as sl
from spdelaw.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.SpdeLawWarning")
QUICK = {"mean": "zero", "nuisance": 0}


def at_points(grid, sea, domain, n_modes, **words):
    """Law of the points of the sea, as a plain array."""
    names = grid.dims[2:]
    axes = np.meshgrid(*(grid[name].values for name in names), indexing="ij")
    points = np.stack(axes, -1)[sea]
    times = grid["time"].values
    return sl.fit(grid.values[:, :, sea], domain, n_modes, times=times, points=points, **words)


@pytest.mark.parametrize(("drift", "noise"), [("diagonal", 0.1), ("dense", 0.0)])
def test_land_changes_nothing(drift, noise):
    """A grid with points that are never seen has the law of the points that are, by one route."""
    box = sl.Box((0.0, 2.0), (0.0, 1.0), boundary="neumann")
    axes, times = (np.linspace(0, 2, 8), np.linspace(0, 1, 5)), np.linspace(0, 1, 31)
    equation = sl.catalogue.heat_on(box, 4)
    grid = sl.simulate(equation, 8, times, axes, seed=0, observation_std=noise)
    sea = np.ones((8, 5), bool)
    sea[5:, :2] = sea[0, 4] = False
    one = sl.fit(grid.where(sea), box, 4, drift=drift)
    other = at_points(grid.where(sea), sea, box, 4, drift=drift)
    same_law(one, other, 1e-8)
    for name, table in one.parameters.data_vars.items():
        size = 1e-8 * np.nanmax(np.abs(other.parameters[name].values))
        np.testing.assert_allclose(table.values, other.parameters[name].values, atol=size)
    assert one.sample(1).sizes == grid[:1].sizes


DENSE = pytest.param({**QUICK, "drift": "dense"}, marks=pytest.mark.slow)


@pytest.mark.parametrize("words", [QUICK, DENSE, {"engine": "chaos"}, {**QUICK, "chunk": 1}])
def test_times_without_any_value_are_no_part_of_a_fit(words):
    heat, times = sl.catalogue.heat(n_modes=2), np.linspace(0.0, 2.0, 31)
    fields = sl.simulate(heat, 20, times, seed=0, observation_std=0.05)
    hidden = sl.mask(fields, "random", 0.2, seed=1).copy(deep=True)
    hidden[:, 5:9] = hidden[:, -2:] = np.nan
    words = dict(words)
    data = hidden.chunk(path=7, time=6) if words.pop("chunk", 0) else hidden
    rows = hidden.isel(time=np.r_[0:5, 9:29])
    one, two = sl.fit(data, INTERVAL, 2, **words), sl.fit(rows, INTERVAL, 2, **words)
    same_law(one, two, 1e-8)
    np.testing.assert_array_equal(one.times, hidden.time)
    if data is hidden:
        assert one.info["log_likelihood_of"] == two.info["log_likelihood_of"]
    log_likelihoods = [
        float(law.log_likelihood(x).sum()) for law, x in ((one, hidden), (two, rows))
    ]
    assert log_likelihoods[0] == pytest.approx(log_likelihoods[1], rel=1e-10)
    late = sl.fit(hidden.where(hidden.time > 0), INTERVAL, 2, **words)
    assert late.times[0] == hidden.time[0]  # where paths start


# -- a fit without a domain guesses it --------------------------------------------------------


def test_the_domain_of_labelled_fields_is_guessed_and_named():
    equation = sl.catalogue.heat(n_modes=2)
    fields = sl.simulate(equation, 10, np.linspace(0, 1, 11), np.linspace(0, np.pi, 9), seed=0)
    guessed, stated = sl.fit(fields, n_modes=2), sl.fit(fields, equation.domain, 2)
    assert guessed.domain == equation.domain
    assert guessed.preparation is None
    assert guessed.parameters.identical(stated.parameters)
    note = f"domain guessed from the coordinates: {equation.domain}; pass domain= for another"
    assert guessed.info["warnings"][0] == note
    renamed = sl.fit(fields.rename(x="depth"), n_modes=2)
    np.testing.assert_allclose(renamed.parameters.eigenvalue, guessed.parameters.eigenvalue)


def test_a_bare_array_with_points_has_a_domain():
    values = np.random.default_rng(0).standard_normal((40, 12))
    times = np.arange(40.0)
    points = np.random.default_rng(1).uniform(size=(12, 2))
    on_line = sl.fit(values, n_modes=2, times=times, points=np.arange(12.0))
    assert on_line.domain == sl.Interval(0, 11, "neumann")
    assert isinstance(sl.fit(values, n_modes=2, times=times, points=points).domain, sl.Box)
    grid = values.reshape(40, 4, 3)
    on_grid = sl.fit(grid, n_modes=2, times=times, points=(np.arange(4.0), np.arange(3.0)))
    assert on_grid.domain == sl.Box((0, 3), (0, 2), boundary="neumann")
    with pytest.raises(InputError, match="points="):
        sl.fit(values, n_modes=2)
