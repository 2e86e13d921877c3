"""Intervals of the likelihood: against brute force, at flat sides, in any unit, many at once."""

import numpy as np
import pytest
from scipy import optimize, special, stats
from tests.infer.recovery import estimates
from tests.parameters import each

import spdelaw as sl
from spdelaw.errors import InputError
from spdelaw.infer.uncertainty import (
    ConstrainedMaximum,
    Point,
    beside_bound,
    joint_ends,
    profile_end,
)

Z = special.ndtri(0.975)
#: Ends are found where ``r`` is this close to the quantile.
CLOSE = 5e-3
DOMAIN = sl.Interval(0.0, np.pi)
POINTS = np.linspace(0.0, np.pi, 9)
TIED = {"noise": "parametric", "drift": "parametric"}
pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")


def coefficients(rate, n_times, n_paths, seed, mean=0.0):
    """Stationary Ornstein-Uhlenbeck paths with steps of 1 and unit noise, (path, time)."""
    draw, factor = np.random.default_rng(seed), np.exp(-rate)
    out = np.empty((n_paths, n_times))
    out[:, 0] = draw.standard_normal(n_paths) / np.sqrt(2 * rate)
    for t in range(1, n_times):
        new = draw.standard_normal(n_paths) * np.sqrt((1 - factor**2) / (2 * rate))
        out[:, t] = factor * out[:, t - 1] + new
    return out + mean


def learn(c, step=1.0, unit=1.0, **words):
    values = unit * c[..., None] * np.sqrt(2 / np.pi) * np.sin(POINTS)
    words = {"mean": "zero", **words}
    return sl.fit(values, DOMAIN, 1, times=step * np.arange(c.shape[1]), points=POINTS, **words)


def ends(law, name="eigenvalue"):
    return law.parameters[name].values.reshape(-1, 4)[0, 2:]


@pytest.mark.parametrize("n", [2, 10, 1000])
def test_ends_of_a_variance_in_closed_form(n):
    """``log p = -n/2 (t + exp(-t))`` of the logarithm t of a variance."""
    s = np.sqrt(2 / n)

    def objective(u):
        t = s * u[0]
        return -n / 2 * (t + np.exp(-t)), np.array([-n / 2 * s * (1 - np.exp(-t))])

    held = ConstrainedMaximum(
        objective, [lambda u: (s * u[0], np.array([s]))], Point.top(1, -n / 2)
    )

    def drop(t):
        return n * (t + np.exp(-t)) - n - Z**2

    for side, far in ((-1, -30.0), (1, 60.0)):
        expected = optimize.brentq(drop, side * 1e-9, far)
        np.testing.assert_allclose(profile_end(held, side, Z, True), expected, rtol=CLOSE)


def test_a_curved_valley_is_followed():
    """``log p = -x^2 / 2 - 50 (y - sinh x)^2`` has the profile ``-x^2 / 2``, and y follows x."""

    def objective(u):
        x, y = u[0], u[0] + 0.1 * u[1]
        off = y - np.sinh(x)
        by_y = -100 * off
        return -(x**2) / 2 - 50 * off**2, np.array([-x + 100 * off * np.cosh(x) + by_y, 0.1 * by_y])

    top = Point.top(2, 0.0)
    along = ConstrainedMaximum(objective, [lambda u: (u[0], np.array([1.0, 0.0]))], top)
    across = ConstrainedMaximum(
        objective, [lambda u: (u[0] + 0.1 * u[1], np.array([1.0, 0.1]))], top
    )

    def off(x):
        """``max y`` on the boundary ``x^2 / 2 + 50 (y - sinh x)^2 = z^2 / 2``."""
        return -(np.sinh(x) + np.sqrt(np.maximum(Z**2 - x**2, 0) / 100))

    best = optimize.minimize_scalar(off, bounds=(0, Z), method="bounded")
    for side in (-1, 1):
        np.testing.assert_allclose(profile_end(along, side, Z, False), side * Z, rtol=CLOSE)
        got = profile_end(across, side, Z, False)
        np.testing.assert_allclose(got, -side * best.fun, rtol=CLOSE)


@pytest.mark.parametrize(("rate", "n_paths"), [(0.02, 1), (0.1, 1), (1.0, 1), (0.02, 5)])
def test_one_mode_by_brute_force(rate, n_paths):
    """Given first states; the noise variance has its maximum in closed form for each rate."""
    c = coefficients(rate, 40, n_paths, seed=3)
    law = learn(c, initial="deterministic" if n_paths == 1 else "gaussian")
    assert {"eigenvalue[1]", "noise_variance[1]"} <= set(law.info["profiled"])
    before, after = c[:, :-1], c[:, 1:]

    def height(log_rate, log_noise=None):
        lam = np.exp(log_rate)
        square = (after - np.exp(-lam) * before) ** 2
        unit = -np.expm1(-2 * lam) / (2 * lam)
        variance = square.mean() if log_noise is None else np.exp(log_noise) * unit
        return -0.5 * np.sum(np.log(variance) + square / variance)

    grid = np.linspace(-30, 5, 20001)
    log_likelihoods = np.array([height(t) for t in grid])
    inside = np.exp(grid[log_likelihoods > log_likelihoods.max() - Z**2 / 2])
    lower, upper = ends(law)
    np.testing.assert_allclose(upper, np.inf if inside[-1] > 100 else inside[-1], rtol=2 * CLOSE)
    np.testing.assert_allclose(lower, 0.0 if inside[0] < 1e-10 else inside[0], rtol=2 * CLOSE)

    def drop(log_noise):
        best = optimize.minimize_scalar(
            lambda t: -height(t, log_noise), bounds=(-30, 5), method="bounded"
        )
        return 2 * (log_likelihoods.max() + best.fun) - Z**2

    centre, got = np.log(estimates(law, "noise_variance")[0]), np.log(ends(law, "noise_variance"))
    np.testing.assert_allclose(got[0], optimize.brentq(drop, centre - 3, centre), atol=CLOSE)
    expected = optimize.brentq(drop, centre, centre + 3) if upper < np.inf else np.inf
    np.testing.assert_allclose(got[1], expected, atol=CLOSE)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("eigenvalue", {}),
        pytest.param("noise_variance", {}, marks=pytest.mark.slow),
        pytest.param("nu", {"drift": "parametric"}, marks=pytest.mark.slow),
        pytest.param("noise_exponent", TIED, marks=pytest.mark.slow),
    ],
)
def test_a_fit_held_at_an_end_loses_what_the_level_says(name, words):
    """Gaps and noise, through the filter: ``2 (log p - log p at the end) = z^2``."""
    heat = sl.catalogue.heat(n_modes=3)
    fields = sl.simulate(heat, 2, np.linspace(0, 2, 25), POINTS, seed=2, observation_std=0.2)
    sparse = sl.mask(fields, "random", fraction=0.3, seed=0)
    fixed = {"s": 1.0} if "drift" in words else {}
    words = {**words, "nuisance": 0, "initial": "deterministic", "mean": "zero"}
    words["observation_noise"] = "estimate"
    law = sl.fit(sparse, heat.domain, 3, **words, fixed=fixed)
    assert any(label.startswith(name) for label in law.info["profiled"])
    for end in ends(law, name):
        if name in ("eigenvalue", "noise_variance"):
            end = [end, np.nan, np.nan]
        held = sl.fit(sparse, heat.domain, 3, **words, fixed={**fixed, name: end})
        lost = law.info["log_likelihood"] - held.info["log_likelihood"]
        np.testing.assert_allclose(2 * lost, Z**2, rtol=0.04)


def test_a_flat_side_has_no_end():
    fast = learn(coefficients(20.0, 50, 20, seed=0))
    assert ends(fast)[1] == np.inf
    assert 0.5 < ends(fast)[0] < 20.0
    assert ends(fast, "noise_variance")[1] == np.inf
    assert "inf]" in repr(fast)
    variance = fast.stationary_covariance().values[0, 0]
    assert variance[2] < 1 / 40 < variance[3] < 1.2 * variance[0]
    slow = learn(coefficients(1e-4, 50, 1, seed=0), initial="deterministic")
    assert ends(slow)[0] == 0.0
    assert slow.eigenmodes().e_folding_time.values[0, 3] == np.inf
    assert slow.stationary_covariance().values[0, 0, 3] == np.inf


@each(step=[1e-9, 1.0, 1e9], unit=[1e-9, 1e9])
def test_units_do_not_matter(step, unit):
    c = coefficients(0.05, 40, 3, seed=1)
    plain, other = learn(c), learn(c, step=step, unit=unit)
    assert plain.info["profiled"] == other.info["profiled"]
    np.testing.assert_allclose(step * ends(other), ends(plain), rtol=1e-4)
    scaled = ends(other, "noise_variance") * step / unit**2
    np.testing.assert_allclose(scaled, ends(plain, "noise_variance"), rtol=1e-4)


def test_numbers_that_are_well_known_keep_the_interval_of_their_standard_error():
    c = coefficients(0.5, 300, 40, seed=0)
    law = learn(c, initial="stationary")
    shifted = learn(c + 3.0, initial="stationary", mean="constant")
    assert law.info["profiled"] == []
    assert "mean[1]" not in shifted.info["profiled"]
    estimate, error, *both = law.parameters.eigenvalue.values[0]
    np.testing.assert_allclose(both, estimate * np.exp(np.array([-Z, Z]) * error / estimate))
    value, error, *both = shifted.parameters["mean"].values[0]
    np.testing.assert_allclose(both, value + error * np.array([-Z, Z]))


def test_what_follows_from_an_eigenvalue_has_its_interval():
    law = learn(coefficients(0.3, 40, 2, seed=4))
    lower, upper = ends(law)
    modes = law.eigenmodes()
    np.testing.assert_allclose(modes.decay_rate.values[0, 2:], [lower, upper])
    np.testing.assert_allclose(modes.e_folding_time.values[0, 2:], [1 / upper, 1 / lower])
    error = law.predictability([3.0]).mode_error.values[0, 0]
    np.testing.assert_allclose(error[2:], -np.expm1(-6.0 * np.array([lower, upper])))


def test_a_law_without_profiles_is_the_same_law():
    c = coefficients(0.3, 40, 2, seed=4)
    whole, quick = (learn(c, engine=sl.Exact(profile=profile)) for profile in (True, False))
    for statistic in ("estimate", "stderr"):
        one, two = (estimates(law, "eigenvalue", statistic) for law in (whole, quick))
        np.testing.assert_array_equal(one, two)
    assert whole.info["profiled"]
    assert not quick.info["profiled"]
    with pytest.raises(InputError, match="profile"):
        sl.Exact(profile="no")


@pytest.mark.parametrize("level", [0.8, 0.99])
def test_beside_a_bound_the_ratio_is_a_mixture(level):
    """Two numbers that know all of one another, one of them zero and not below.

    Of a standard normal (t, n) with ``n >= 0`` allowed, the ratio of ``t >= 0, n = 0`` to that is
    drawn; null: a binomial share of 400,000, four deviations.
    """
    t, n = np.random.default_rng(0).standard_normal((2, 400_000))
    free, tied = np.minimum(n, 0) ** 2, np.minimum(t, 0) ** 2 + n**2
    share = np.mean(tied - free > beside_bound(level) ** 2)
    assert abs(share - (1 - level)) < 4 * np.sqrt(level * (1 - level) / t.size)
    assert beside_bound(level) >= special.ndtri(0.5 + 0.5 * level)


# -- many at once --------------------------------------------------------------------------------


@pytest.mark.parametrize("coupling", [0.0, 0.25])
def test_numbers_that_share_a_little_have_the_profile_of_each(coupling):
    """``sum_i -n_i/2 (t_i + exp(-t_i))`` of logarithms, tied by a term that shares a sixth number.

    What one gains from it the others do not see.
    """
    counts = np.array([30, 60, 90, 150, 400])
    s = np.append(np.sqrt(2 / counts), 1.0)

    def objective(u):
        t, shared = s[:-1] * u[:-1], u[-1]
        off = shared - coupling * np.tanh(u[:-1]).sum()
        by = -counts / 2 * (1 - np.exp(-t)) * s[:-1] + off * coupling / np.cosh(u[:-1]) ** 2
        return (-counts / 2 * (t + np.exp(-t))).sum() - off**2 / 2, np.append(by, -off)

    # Around the maximum, in coordinates of unit variance.
    step = 1e-4
    curve = [(objective(-d)[1] - objective(d)[1]) / (2 * step) for d in step * np.eye(6)]
    root = np.linalg.inv(np.linalg.cholesky(np.array(curve))).T

    def around(u):
        value, slope = objective(root @ u)
        return value, root.T @ slope

    targets = [lambda u, i=i: (s[i] * (root @ u)[i], s[i] * root[i]) for i in range(5)]
    top = Point.top(6, around(np.zeros(6))[0])
    for side in (-1, 1):
        expected = [
            profile_end(ConstrainedMaximum(around, [t], top), side, Z, True, -0.5) for t in targets
        ]
        got = joint_ends(ConstrainedMaximum(around, targets, top), np.full(5, -0.5), side, Z)
        np.testing.assert_allclose(got, expected, rtol=2 * CLOSE)


# -- the mean of slow modes ----------------------------------------------------------------------


def test_paths_that_stay_where_they_start_have_a_sample_mean():
    """Nothing decays within the record: starts are a sample, and the interval is Student's."""
    c = coefficients(1e-5, 30, 5, seed=4)
    starts = c[:, 0]
    expected = stats.t.interval(0.95, 4, starts.mean(), starts.std(ddof=1) / np.sqrt(5))
    got = ends(learn(c, initial="stationary", mean="constant"), "mean")
    np.testing.assert_allclose(got, expected, atol=0.02 * np.ptp(expected))


@pytest.mark.parametrize("seed", [2, pytest.param(19, marks=pytest.mark.slow)])
def test_noise_is_known_where_no_decay_is_seen(seed):
    """A slope without end in the decay once left no digits of curvature for anything else."""
    draw, points = np.random.default_rng([seed, 1]), np.linspace(0.0, np.pi, 12)
    rates, noise = np.array([1.0, 1.5]) / 59, np.array([1.0, 0.6])
    c = np.cumsum(np.sqrt(noise) * draw.standard_normal((1, 60, 2)), axis=1)
    c += 2.0 * np.sqrt(noise / (2 * rates))
    values = c @ (np.sqrt(2 / np.pi) * np.sin(np.outer([1, 2], points)))
    values += 0.5 * draw.standard_normal(values.shape)
    values[draw.random(values.shape) < 0.5] = np.nan
    words = {"initial": "stationary", "mean": "constant", "times": np.arange(60)}
    law = sl.fit(values, DOMAIN, 2, points=points, **words)
    assert (estimates(law, "noise_variance", "stderr") < estimates(law, "noise_variance")).all()
