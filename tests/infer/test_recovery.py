"""What was put in comes out, within its standard errors, on every kind of data."""

import numpy as np
import pytest
from tests.infer.recovery import (
    INTERVAL,
    POINTS,
    TIMES,
    WITHIN,
    assert_recovers,
    heat,
    small,
    z_scores,
)

import spdelaw as sl
from spdelaw.processes.spde import SpectralSPDE

NOISE = 0.05


def spread(initial="gaussian"):
    e = heat(3, initial)
    return {"initial_mean": e.initial_mean, "initial_variance": e.initial_variance}


# -- the paper's two regimes ----------------------------------------------------------


@pytest.mark.parametrize("regime", ["heat", "ornstein_uhlenbeck"])
def test_both_regimes_complete(regime):
    equation = getattr(sl.catalogue, regime)(n_modes=8)
    fields = sl.simulate(equation, 700, seed=1)
    law = sl.fit(fields, equation.domain, 8)
    assert law.info["route"] == "statistics"
    assert_recovers(law, equation)
    np.testing.assert_allclose(
        law.parameters.initial_mean.sel(statistic="estimate"), equation.initial_mean, atol=1e-9
    )


@pytest.mark.parametrize("n_paths", [150, pytest.param(700, marks=pytest.mark.slow)])
def test_gaps_and_noise(n_paths):
    equation = sl.catalogue.heat(n_modes=8)
    fields = sl.simulate(equation, n_paths, seed=2, observation_std=NOISE)
    law = sl.fit(sl.mask(fields, "random", 0.3, seed=0), INTERVAL, 8)
    assert_recovers(law, equation, initial_mean=equation.initial_mean, observation_std=NOISE)


@pytest.mark.slow
def test_regime_a_with_many_unreported_modes():
    equation = sl.catalogue.ornstein_uhlenbeck(n_modes=50)
    law = sl.fit(sl.simulate(equation, 700, seed=0), sl.Line(), 8)
    assert law.info["n_nuisance"] > 0
    assert_recovers(law, equation)


def test_unreported_modes_on_a_grid_that_mixes_them():
    """Three of six Hermite modes on a grid where they are not orthogonal."""
    equation = sl.catalogue.ornstein_uhlenbeck(n_modes=6)
    grid = equation.domain.grid(24)
    fields = sl.simulate(equation, 60, TIMES, grid, seed=0)
    law = sl.fit(fields, sl.Line(), 3)
    assert law.info["n_nuisance"] >= 3
    assert_recovers(law, equation)


def test_unreported_modes_that_overlap_only_with_reported_ones():
    """Degrees 0 and 1 are orthogonal on a symmetric grid; degrees 2 and 3 leak into them."""
    equation = sl.catalogue.ornstein_uhlenbeck(n_modes=4)
    fields = sl.simulate(equation, 60, TIMES, equation.domain.grid(20), seed=0)
    law = sl.fit(fields, sl.Line(), 2)
    assert law.info["n_nuisance"] >= 2
    assert_recovers(law, equation)
    given = sl.fit(fields, sl.Line(), 2, nuisance=2)
    assert given.info["n_nuisance"] == 2
    assert_recovers(given, equation)


def test_unreported_modes_on_an_orthogonal_grid_change_nothing():
    many, few = heat(8), heat(3)
    grid = INTERVAL.grid(21)
    law = sl.fit(sl.simulate(many, 60, TIMES, grid, seed=3), INTERVAL, 3)
    assert_recovers(law, few)
    beyond = (many.mean(TIMES, grid) - few.mean(TIMES, grid)) ** 2
    beyond = beyond + many.variance(TIMES, grid) - few.variance(TIMES, grid)
    expected = float(beyond.mean()) * len(grid) / (len(grid) - 3)
    np.testing.assert_allclose(law.unresolved_variance, expected, rtol=0.1)


# -- kinds of data --------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, NOISE])
@pytest.mark.parametrize("pattern", ["random", "rows", "sensors", "blocks"])
def test_every_pattern_of_gaps(pattern, noise):
    fields = sl.mask(small(60, noise=noise, seed=4), pattern, 0.3, seed=1)
    law = sl.fit(fields, INTERVAL, 3)
    truth = {"observation_std": noise} if noise else {}
    assert_recovers(law, heat(), **truth)
    if not noise:
        assert float(law.parameters.observation_std.sel(statistic="estimate")) == 0.0


@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_irregular_times_of_each_path(noise):
    rng = np.random.default_rng(5)
    paths = []
    for i in range(60):
        times = np.sort(np.append(0.0, rng.uniform(0.0, 1.0, rng.integers(25, 40))))
        one = small(1, noise=noise, seed=100 + i, times=times)
        paths.append(one.isel(path=0, drop=True))
    fields = sl.stack(paths)
    assert "path_time" in fields.coords
    assert_recovers(sl.fit(fields, INTERVAL, 3), heat())


def test_paths_that_join_late():
    """The initial state belongs to the earliest time, not to each path's first row."""
    paths = []
    for i in range(60):
        one = small(1, noise=NOISE, seed=200 + i).isel(path=0, drop=True)
        paths.append(one.isel(time=slice(5 if i % 2 else 0, None)))
    law = sl.fit(sl.stack(paths), INTERVAL, 3)
    assert_recovers(law, heat(), initial_mean=heat().initial_mean)


@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_a_single_long_path(noise):
    times = 0.02 * np.arange(3000)
    fields = small(1, initial="stationary", noise=noise, times=times, seed=6)
    law = sl.fit(fields.isel(path=0, drop=True), INTERVAL, 3)
    assert law.info["n_paths"] == 1
    assert_recovers(law, heat())


def test_an_empty_path_changes_nothing():
    fields = small(20, noise=NOISE, seed=7)
    one = sl.fit(fields, INTERVAL, 3, observation_noise="estimate")
    with_gap = fields.where(fields.path != 4)
    two = sl.fit(with_gap, INTERVAL, 3)
    left = sl.fit(fields.isel(path=[i for i in range(20) if i != 4]), INTERVAL, 3,
                  observation_noise="estimate")  # fmt: skip
    np.testing.assert_allclose(two.linear.drift, left.linear.drift, rtol=1e-3)
    assert abs(two.linear.drift - one.linear.drift).max() > 1e-3


# -- initial states -------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_gaussian_initial_state_is_found(noise):
    fields = small(150, initial="gaussian", noise=noise, seed=8)
    law = sl.fit(fields, INTERVAL, 3, observation_noise="estimate" if noise else "auto")
    assert law.initial.kind == "gaussian"
    assert_recovers(law, heat(3, "gaussian"), **spread())


@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_stationary_initial_state(noise):
    fields = small(60, initial="stationary", noise=noise, seed=9)
    settings = {"observation_noise": "estimate"} if noise else {}
    law = sl.fit(fields, INTERVAL, 3, initial="stationary", **settings)
    assert_recovers(law, heat())
    assert "initial_variance" not in law.parameters
    np.testing.assert_allclose(law.initial.covariance, law.linear.noise / (2 * law.linear.drift))
    # Knowing that the start is stationary is information.
    free = sl.fit(fields, INTERVAL, 3, initial="gaussian", **settings)
    errors = [x.parameters.eigenvalue.sel(statistic="stderr").values for x in (law, free)]
    assert (errors[0] < errors[1]).all()


# -- observation noise ----------------------------------------------------------------


def test_no_noise_is_found_where_there_is_none():
    for seed in range(5):
        law = sl.fit(small(30, seed=seed), INTERVAL, 3)
        assert float(law.parameters.observation_std.sel(statistic="estimate")) == 0.0


def test_noise_is_found_where_there_is_some():
    law = sl.fit(small(100, noise=NOISE, seed=10), INTERVAL, 3)
    assert_recovers(law, heat(), observation_std=NOISE)


@pytest.mark.parametrize("form", ["one", "one a point"])
def test_known_noise_is_kept(form):
    known = NOISE if form == "one" else np.full(len(POINTS), NOISE)
    law = sl.fit(small(60, noise=NOISE, seed=11), INTERVAL, 3, observation_noise=known)
    np.testing.assert_allclose(law.parameters.observation_std.sel(statistic="estimate"), NOISE)
    assert (law.parameters.observation_std.sel(statistic="stderr") == 0).all()
    assert_recovers(law, heat())


def test_known_noise_that_differs_between_points():
    """Points ten times noisier than the others: weights must reach the right points."""
    rng = np.random.default_rng(12)
    std = np.where(np.arange(len(POINTS)) % 3 == 0, 0.5, 0.02)
    clean = small(60, seed=12)
    noisy = clean + std * rng.standard_normal(clean.shape)
    law = sl.fit(noisy, INTERVAL, 3, observation_noise=std)
    assert_recovers(law, heat())
    worse = sl.fit(noisy, INTERVAL, 3, observation_noise="estimate")
    errors = [x.parameters.noise_variance.sel(statistic="stderr").values for x in (law, worse)]
    assert (errors[0] < errors[1]).all()


def test_one_known_noise_written_either_way_is_one_law():
    fields = small(20, noise=NOISE, seed=11)
    one = sl.fit(fields, INTERVAL, 3, observation_noise=NOISE)
    two = sl.fit(fields, INTERVAL, 3, observation_noise=np.full(len(POINTS), NOISE))
    np.testing.assert_allclose(one.linear.drift, two.linear.drift, rtol=1e-5)
    np.testing.assert_allclose(one.log_likelihood(fields), two.log_likelihood(fields), rtol=1e-8)
    np.testing.assert_allclose(one.info["log_likelihood"], two.info["log_likelihood"], rtol=1e-8)


# -- how many modes -------------------------------------------------------------------


def test_number_of_modes_of_a_noisy_field():
    equation = heat(4)
    grid = INTERVAL.grid(16)
    fields = sl.simulate(equation, 30, TIMES, grid, seed=13, observation_std=NOISE)
    law = sl.fit(fields, INTERVAL)
    assert law.n_modes == 4
    assert "4 modes chosen by BIC" in law.info["warnings"][0]


@pytest.mark.slow
def test_eight_modes_of_a_noisy_field():
    fields = sl.simulate(sl.catalogue.heat(8), 60, seed=1, observation_std=NOISE)
    assert sl.fit(fields, INTERVAL).n_modes == 8


def test_number_of_modes_of_a_clean_field():
    law = sl.fit(small(20, seed=14), INTERVAL)
    assert law.n_modes == 3
    assert "to rounding" in law.info["warnings"][0]


# -- data of another scheme -----------------------------------------------------------


def test_semi_implicit_data_have_the_law_of_their_scheme():
    """c <- (c + sqrt(q h) z) / (1 + lambda h) is exact for another lambda and q."""
    h = TIMES[1]
    a = 1.0 / (1.0 + h * heat().eigenvalues)
    lam = -np.log(a) / h
    omega = a**2 * heat().noise_variance * h
    q = omega * 2 * lam / (1 - a**2)
    effective = SpectralSPDE(INTERVAL, 3, lam, noise=q, initial=heat().initial_mean)
    fields = small(700, seed=15, scheme="semi_implicit")
    # The scheme starts with a step of its own length from the same initial state.
    law = sl.fit(fields, INTERVAL, 3)
    assert_recovers(law, effective)
    off = z_scores(law, eigenvalue=heat().eigenvalues, noise_variance=heat().noise_variance)
    assert np.abs(off).max() > WITHIN
