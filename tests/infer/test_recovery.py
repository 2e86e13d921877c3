"""What was put in comes out, within its standard errors, on every kind of data."""

import numpy as np
import pytest
from tests.fitted import INTERVAL, NOISE, POINTS, TIMES, fitted, heat, small
from tests.infer.recovery import WITHIN, assert_recovers, estimates, z_scores
from tests.parameters import each

import spdelaw as sl
from spdelaw.processes.spde import SpectralSPDE

# -- the paper's two regimes ----------------------------------------------------------


@pytest.mark.parametrize("regime", ["heat", "ornstein_uhlenbeck"])
def test_both_regimes_complete(regime):
    equation = getattr(sl.catalogue, regime)(n_modes=8)
    law = sl.fit(sl.simulate(equation, 700, seed=1), equation.domain, 8, mean="zero")
    assert law.info["route"] == "statistics"
    assert_recovers(law, equation)
    np.testing.assert_allclose(estimates(law, "initial_mean"), equation.initial_mean, atol=1e-9)


@pytest.mark.slow
def test_eight_modes_with_gaps_and_noise():
    equation = heat(8)
    fields = sl.simulate(equation, 150, seed=2, observation_std=NOISE)
    law = sl.fit(sl.mask(fields, "random", 0.3, seed=0), INTERVAL, 8)
    assert_recovers(law, equation, initial_mean=equation.initial_mean, observation_std=NOISE)


@pytest.mark.parametrize(
    ("n_modes", "reported", "n_points"),
    [
        (6, 3, 24),  # a grid where modes are not orthogonal
        # Degrees 0 and 1 are orthogonal, degrees 2 and 3 leak into them.
        pytest.param(4, 2, 20, marks=pytest.mark.slow),
        pytest.param(50, 8, None, marks=pytest.mark.slow),
    ],
)
def test_unreported_modes_on_a_grid_that_mixes_them(n_modes, reported, n_points):
    equation = sl.catalogue.ornstein_uhlenbeck(n_modes=n_modes)
    if n_points is None:
        fields = sl.simulate(equation, 700, seed=0)
    else:
        fields = sl.simulate(equation, 60, TIMES, equation.domain.grid(n_points), seed=0)
    law = sl.fit(fields, sl.Line(), reported, mean="zero")
    assert law.info["n_nuisance"] >= min(n_modes - reported, 3)
    assert_recovers(law, equation)


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


@each(pattern=["random", "rows", "sensors", "blocks"], noise=[0.0, NOISE])
def test_every_pattern_of_gaps(pattern, noise):
    fields = sl.mask(small(60, noise=noise, seed=4), pattern, 0.3, seed=1)
    law = sl.fit(fields, INTERVAL, 3, engine=sl.Exact(profile=False))
    assert_recovers(law, heat(), **({"observation_std": noise} if noise else {}))
    if not noise:
        assert float(estimates(law, "observation_std")) == 0.0


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
    fields, _, whole = fitted("noisy")
    one, two = fields.where(fields.path != 4), fields.isel(path=fields.path != 4)
    one, two = (sl.fit(x, INTERVAL, 3, observation_noise="estimate") for x in (one, two))
    np.testing.assert_allclose(one.linear.drift, two.linear.drift, rtol=1e-3)
    assert abs(one.linear.drift - whole.linear.drift).max() > 1e-3


# -- initial states -------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_gaussian_initial_state_is_found(noise):
    fields, e = small(150, initial="gaussian", noise=noise, seed=8), heat(3, "gaussian")
    law = sl.fit(fields, INTERVAL, 3, observation_noise="estimate" if noise else "auto")
    assert law.initial.kind == "gaussian"
    truth = {"initial_mean": e.initial_mean, "initial_variance": e.initial_variance}
    assert_recovers(law, e, **truth)


@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_stationary_initial_state(noise):
    fields = small(60, initial="stationary", noise=noise, seed=9)
    words = {"observation_noise": "estimate"} if noise else {}
    law, free = (
        sl.fit(fields, INTERVAL, 3, initial=initial, **words)
        for initial in ("stationary", "gaussian")
    )
    assert_recovers(law, heat())
    assert "initial_variance" not in law.parameters
    np.testing.assert_allclose(law.initial.covariance, law.linear.noise / (2 * law.linear.drift))
    # Knowing that the start is stationary is information.
    assert (estimates(law, "eigenvalue", "stderr") < estimates(free, "eigenvalue", "stderr")).all()


# -- observation noise ----------------------------------------------------------------


def test_one_noise_written_either_way_is_kept_and_is_one_law():
    fields = small(60, noise=NOISE, seed=11)
    one, two = (
        sl.fit(fields, INTERVAL, 3, observation_noise=noise)
        for noise in (NOISE, np.full(len(POINTS), NOISE))
    )
    for law in (one, two):
        np.testing.assert_allclose(estimates(law, "observation_std"), NOISE)
        assert (estimates(law, "observation_std", "stderr") == 0).all()
    assert_recovers(one, heat())
    np.testing.assert_allclose(one.linear.drift, two.linear.drift, rtol=1e-5)
    np.testing.assert_allclose(one.log_likelihood(fields), two.log_likelihood(fields), rtol=1e-8)
    np.testing.assert_allclose(one.info["log_likelihood"], two.info["log_likelihood"], rtol=1e-8)


# -- how many modes, and another scheme -----------------------------------------------


@pytest.mark.parametrize(
    ("n_modes", "noise", "note"), [(4, NOISE, "4 modes chosen by BIC"), (3, 0.0, "to rounding")]
)
def test_number_of_modes(n_modes, noise, note):
    fields = sl.simulate(heat(n_modes), 30, TIMES, POINTS, seed=13, observation_std=noise)
    law = sl.fit(fields, INTERVAL)
    assert law.n_modes == n_modes
    assert note in law.info["warnings"][0]


def test_semi_implicit_data_have_the_law_of_their_scheme():
    """c <- (c + sqrt(q h) z) / (1 + lambda h) is exact for another lambda and q."""
    h = TIMES[1]
    a = 1.0 / (1.0 + h * heat().eigenvalues)
    lam = -np.log(a) / h
    omega = a**2 * heat().noise_variance * h
    q = omega * 2 * lam / (1 - a**2)
    effective = SpectralSPDE(INTERVAL, 3, lam, noise=q, initial=heat().initial_mean)
    # The scheme starts with a step of its own length from the same initial state.
    law = sl.fit(small(700, seed=15, scheme="semi_implicit"), INTERVAL, 3)
    assert_recovers(law, effective)
    off = z_scores(law, eigenvalue=heat().eigenvalues, noise_variance=heat().noise_variance)
    assert np.abs(off).max() > WITHIN
