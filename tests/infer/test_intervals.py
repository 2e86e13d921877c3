"""Intervals of the likelihood: against brute force, at flat sides, in any unit."""

import numpy as np
import pytest
from scipy import optimize, special

import spdelaw as sl
from spdelaw.errors import InputError
from spdelaw.infer.uncertainty import Held, Point, beside_bound, profile_end

Z = special.ndtri(0.975)
#: Ends are found where ``r`` is this close to the quantile.
CLOSE = 5e-3
DOMAIN = sl.Interval(0.0, np.pi)
POINTS = np.linspace(0.0, np.pi, 9)
pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")


def coefficients(rate, n_times, n_paths, seed, step=1.0):
    """Stationary Ornstein-Uhlenbeck paths with noise of variance 1, (path, time)."""
    draw, factor = np.random.default_rng(seed), np.exp(-rate * step)
    out = np.empty((n_paths, n_times))
    out[:, 0] = draw.standard_normal(n_paths) / np.sqrt(2 * rate)
    for t in range(1, n_times):
        new = draw.standard_normal(n_paths) * np.sqrt((1 - factor**2) / (2 * rate))
        out[:, t] = factor * out[:, t - 1] + new
    return out


def learn(c, step=1.0, unit=1.0, **words):
    values = unit * c[..., None] * np.sqrt(2 / np.pi) * np.sin(POINTS)
    times = step * np.arange(c.shape[1])
    return sl.fit(values, DOMAIN, 1, times=times, points=POINTS, mean="zero", **words)


def ends(law, name="eigenvalue"):
    return law.parameters[name].values.reshape(-1, 4)[0, 2:]


@pytest.mark.parametrize("n", [2, 10, 1000])
def test_ends_of_a_variance_in_closed_form(n):
    """``log p = -n/2 (t + exp(-t))`` of the logarithm t of a variance."""
    s = np.sqrt(2 / n)

    def objective(u):
        t = s * u[0]
        return -n / 2 * (t + np.exp(-t)), np.array([-n / 2 * s * (1 - np.exp(-t))])

    held = Held(objective, [lambda u: (s * u[0], np.array([s]))], Point.top(1, -n / 2))

    def drop(t):
        return n * (t + np.exp(-t)) - n - Z**2

    for side, far in ((-1, -30.0), (1, 60.0)):
        wanted = optimize.brentq(drop, side * 1e-9, far)
        np.testing.assert_allclose(profile_end(held, side, Z, True), wanted, rtol=CLOSE)


def test_a_curved_valley_is_followed():
    """``log p = -x^2 / 2 - 50 (y - sinh x)^2`` has the profile ``-x^2 / 2``, and y follows x."""

    def objective(u):
        x, y = u[0], u[0] + 0.1 * u[1]
        off = y - np.sinh(x)
        by_y = -100 * off
        return -(x**2) / 2 - 50 * off**2, np.array([-x + 100 * off * np.cosh(x) + by_y, 0.1 * by_y])

    top = Point.top(2, 0.0)
    along = Held(objective, [lambda u: (u[0], np.array([1.0, 0.0]))], top)
    across = Held(objective, [lambda u: (u[0] + 0.1 * u[1], np.array([1.0, 0.1]))], top)
    for side in (-1, 1):
        np.testing.assert_allclose(profile_end(along, side, Z, False), side * Z, rtol=CLOSE)

        def off(x, side=side):
            """``max y`` on the boundary ``x^2 / 2 + 50 (y - sinh x)^2 = z^2 / 2``."""
            return -(np.sinh(x) + np.sqrt(np.maximum(Z**2 - x**2, 0) / 100))

        best = optimize.minimize_scalar(off, bounds=(0, Z), method="bounded")
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

    centre = np.log(law.parameters.noise_variance.values[0, 0])
    found = np.log(ends(law, "noise_variance"))
    np.testing.assert_allclose(found[0], optimize.brentq(drop, centre - 3, centre), atol=CLOSE)
    wanted = optimize.brentq(drop, centre, centre + 3) if upper < np.inf else np.inf
    np.testing.assert_allclose(found[1], wanted, atol=CLOSE)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("eigenvalue", {}),
        ("noise_variance", {}),
        ("nu", {"drift": "parametric"}),
        ("noise_exponent", {"noise": "parametric", "drift": "parametric"}),
    ],
)
def test_a_fit_held_at_an_end_loses_what_the_level_says(name, words):
    """Gaps and noise, through the filter: ``2 (log p - log p at the end) = z^2``."""
    heat = sl.catalogue.heat(n_modes=3)
    fields = sl.simulate(heat, 2, np.linspace(0, 2, 25), POINTS, seed=2, observation_std=0.2)
    sparse = sl.mask(fields, "random", fraction=0.3, seed=0)
    words = {**words, "nuisance": 0, "initial": "deterministic", "mean": "zero"}
    words["observation_noise"] = "estimate"
    fixed = {"s": 1.0} if "drift" in words else {}
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


def test_higher_levels_hold_lower_ones():
    c = coefficients(0.05, 40, 1, seed=1)
    found = [ends(learn(c, level=level)) for level in (0.5, 0.8, 0.95, 0.99, 0.9999)]
    assert (np.diff([lower for lower, _ in found]) <= 0).all()
    assert (np.diff([upper for _, upper in found]) >= 0).all()
    estimate = learn(c).parameters.eigenvalue.values[0, 0]
    assert found[0][0] < estimate < found[0][1]


@pytest.mark.parametrize("unit", [1e-9, 1e9])
@pytest.mark.parametrize("step", [1e-9, 1.0, 1e9])
def test_units_do_not_matter(unit, step):
    c = coefficients(0.05, 40, 3, seed=1)
    plain, other = learn(c), learn(c, step=step, unit=unit)
    assert plain.info["profiled"] == other.info["profiled"]
    np.testing.assert_allclose(step * ends(other), ends(plain), rtol=1e-4)
    scaled = ends(other, "noise_variance") * step / unit**2
    np.testing.assert_allclose(scaled, ends(plain, "noise_variance"), rtol=1e-4)


def test_numbers_that_are_well_known_keep_the_interval_of_their_standard_error():
    law = learn(coefficients(0.5, 300, 40, seed=0), initial="stationary")
    assert law.info["profiled"] == []
    estimate, error, lower, upper = law.parameters.eigenvalue.values[0]
    np.testing.assert_allclose(
        [lower, upper], estimate * np.exp(np.array([-Z, Z]) * error / estimate)
    )


def test_what_follows_from_an_eigenvalue_has_its_interval(tmp_path):
    law = learn(coefficients(0.3, 40, 2, seed=4))
    lower, upper = ends(law)
    modes = law.eigenmodes()
    np.testing.assert_allclose(modes.decay_rate.values[0, 2:], [lower, upper])
    np.testing.assert_allclose(modes.e_folding_time.values[0, 2:], [1 / upper, 1 / lower])
    error = law.predictability([3.0]).mode_error.values[0, 0]
    np.testing.assert_allclose(error[2:], -np.expm1(-6.0 * np.array([lower, upper])))
    law.save(tmp_path / "law")
    again = sl.load(tmp_path / "law")
    assert again.info["profiled"] == law.info["profiled"]
    for ask in (sl.Law.stationary_covariance, lambda x: x.eigenmodes().decay_rate):
        np.testing.assert_array_equal(ask(again).values, ask(law).values)


def test_a_law_without_profiles_is_the_same_law():
    equation = sl.catalogue.heat(n_modes=2, initial="stationary")
    data = sl.simulate(equation, 1, np.linspace(0, 2, 41), np.linspace(0, np.pi, 9), seed=0)
    whole, quick = (
        sl.fit(data, equation.domain, 2, mean="zero", engine=sl.Exact(profile=profile))
        for profile in (True, False)
    )
    one, two = (law.parameters["eigenvalue"] for law in (whole, quick))
    np.testing.assert_array_equal(two.sel(statistic="estimate"), one.sel(statistic="estimate"))
    np.testing.assert_array_equal(two.sel(statistic="stderr"), one.sel(statistic="stderr"))
    assert whole.info["profiled"]
    assert not quick.info["profiled"]
    with pytest.raises(InputError, match="profile"):
        sl.Exact(profile="no")


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
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


def test_a_coefficient_at_its_bound_widens_the_others(monkeypatch):
    words = {"mean": "zero", "drift": "parametric"}
    equation = sl.catalogue.heat(n_modes=4)
    fields = sl.simulate(equation, 20, 0.05 * np.arange(41), POINTS, seed=2)
    law = sl.fit(fields, DOMAIN, 4, **words)
    assert law.parameters.kappa.values[2] == 0.0
    monkeypatch.setattr("spdelaw.infer.uncertainty.beside_bound", lambda level: Z)
    plain = sl.fit(fields, DOMAIN, 4, **words)
    for name in ("nu", "eigenvalue"):
        own, other = (x.parameters[name].values.reshape(-1, 4)[0, 2:] for x in (law, plain))
        assert 1.01 < np.ptp(np.log(own)) / np.ptp(np.log(other)) < 1.12
    np.testing.assert_allclose(law.parameters.kappa, plain.parameters.kappa, rtol=1e-6)
