"""The mean of a law: the joint Gaussian in full, shifts, the level of the test, known means."""

import dataclasses

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import spdelaw as sl
from spdelaw.errors import DataError, InputError
from spdelaw.infer import objective as objective_module
from spdelaw.infer.engines.mean import coupled_upper_point
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear
from spdelaw.processes.specification import InitialState
from spdelaw.statespace.chain import StateSpace

SINES = sl.Interval(0, np.pi)
COSINES = sl.Interval(0, np.pi, boundary="neumann")
RATES, NOISE, MEAN = np.array([1.0, 4.0]), np.array([1.0, 0.5]), np.array([1.5, -0.4])


def paths(n_paths=20, n_times=41, span=4.0, centre=MEAN, initial="stationary", seed=0, **more):
    """Fields of two modes around a mean."""
    times = np.linspace(0.0, span, n_times)
    equation = sl.SpectralSPDE(
        more.pop("domain", SINES), len(RATES), RATES, noise=NOISE, initial=initial, times=times,
        centre=centre, n_points=17,
    )  # fmt: skip
    return sl.simulate(equation, n_paths, seed=seed, **more)


def gappy(fields, seed=1):
    return sl.mask(fields, "random", fraction=0.4, seed=seed)


def estimates(law, name):
    return law.parameters[name].sel(statistic="estimate").values


def differences(one, other, but=("mean",)):
    """Largest change of a reported number, in standard errors."""
    out = [0.0]
    for name in set(one.parameters.data_vars) - set(but):
        a, b = one.parameters[name].values, other.parameters[name].values
        scale = np.maximum(a[..., 1:2], 1e-12 * np.abs(a[..., :1]) + 1e-300)
        gap = np.where(np.isfinite(a) | np.isfinite(b), np.abs(a - b), 0.0)
        out.append(float((gap / np.where(scale > 0, scale, 1.0))[a[..., 1] > 0].max(initial=0.0)))
    return max(out)


# -- the joint Gaussian ------------------------------------------------------------------------


def regression(fields, r):
    """Estimate and covariance of the mean by least squares with the full covariance."""
    x, t = fields["x"].values, fields["time"].values
    phi = SINES.eigenfunctions(x, 2)
    states = np.stack([np.exp(-lam * np.abs(t[:, None] - t)) for lam in RATES])
    states *= (NOISE / (2 * RATES))[:, None, None]
    joint = np.einsum("mi,its,ni->tmsn", phi, states, phi).reshape(len(t) * len(x), -1)
    joint += r * np.eye(len(joint))
    design = np.tile(phi, (len(t), 1))
    information, gradient = np.zeros((2, 2)), np.zeros(2)
    for y in fields.values.reshape(len(fields), -1):
        seen = ~np.isnan(y)
        solved = np.linalg.solve(joint[np.ix_(seen, seen)], design[seen])
        information += design[seen].T @ solved
        gradient += solved.T @ y[seen]
    covariance = np.linalg.inv(information)
    return covariance @ gradient, np.sqrt(np.diag(covariance))


@pytest.mark.parametrize("holes", [False, True])
def test_estimate_and_error_given_the_rest(holes):
    fields = paths(3, 9, 1.5, observation_std=0.2)
    fields = gappy(fields) if holes else fields
    law = sl.fit(
        fields, SINES, 2, mean="constant", initial="stationary", observation_noise=0.2,
        nuisance=0, fixed={"eigenvalue": RATES, "noise_variance": NOISE},
    )  # fmt: skip
    mean, error = regression(fields, 0.04)
    np.testing.assert_allclose(estimates(law, "mean"), mean, rtol=1e-8)
    stderr = law.parameters["mean"].sel(statistic="stderr").values
    np.testing.assert_allclose(stderr, error, rtol=1e-6)
    total = float(law.log_likelihood(fields).sum())
    assert law.info.log_likelihood == pytest.approx(total, rel=1e-10)
    assert law.info.n_parameters == 2


def test_complete_paths_given_the_rest():
    """Noise-free: the regression on transitions and first states."""
    fields = paths(3, 9, 1.5)
    held = {"eigenvalue": RATES, "noise_variance": NOISE}
    law = sl.fit(fields, SINES, 2, mean="constant", initial="stationary", fixed=held)
    mean, error = regression(fields, 1e-9)
    np.testing.assert_allclose(estimates(law, "mean"), mean, rtol=1e-5)
    stderr = law.parameters["mean"].sel(statistic="stderr").values
    np.testing.assert_allclose(stderr, error, rtol=1e-5)
    assert law.info["route"] == "statistics"


def test_error_includes_that_of_the_other_parameters():
    """``C + J Cov J'``, the slope J from laws with the eigenvalue held beside its maximum."""
    fields = paths(4, 21, 2.0, initial=np.array([3.0, 0.0]))
    words = {"mean": "constant", "initial": "deterministic"}
    law = sl.fit(fields, SINES, 2, **words)
    own = law.parameters.eigenvalue.sel(mode=1).values
    log_error, means, inside = own[1] / own[0], [], []
    for way in (-0.05, 0.05):
        held = {"eigenvalue": [own[0] * np.exp(way * log_error), np.nan]}
        one = sl.fit(fields, SINES, 2, **words, fixed=held)
        means.append(estimates(one, "mean")[0])
        inside.append(one.parameters["mean"].sel(mode=1, statistic="stderr").item())
    slope = (means[1] - means[0]) / 0.1
    expected = np.hypot(np.mean(inside), slope)
    stderr = law.parameters["mean"].sel(mode=1, statistic="stderr").item()
    assert stderr == pytest.approx(expected, rel=0.02)
    assert abs(slope) > 0.1 * stderr  # else nothing is tested


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
@pytest.mark.parametrize("initial", ["stationary", "deterministic"])
@pytest.mark.parametrize(("drift", "holes"), [("diagonal", False), ("dense", False), ("dense", 1)])
def test_two_ways_to_see_how_a_mean_follows_the_rest(drift, holes, initial, monkeypatch):
    """Differences of scores over the mean, and of the mean over all other numbers."""
    seen, own = [], objective_module._slopes
    monkeypatch.setattr(objective_module, "_slopes", lambda *args: seen.append(args) or own(*args))
    fields = paths(observation_std=0.1)
    fields = gappy(fields) if holes else fields
    sl.fit(fields, SINES, 2, drift=drift, mean="constant", initial=initial)
    found, problem, value, given = seen[-1]
    by_scores = objective_module._by_scores(found, problem, value, given)
    by_means = objective_module._by_means(found, problem)
    np.testing.assert_allclose(by_scores, by_means, rtol=1e-3, atol=1e-4 * np.sqrt(given.max()))


def test_mean_is_covered():
    """95 % intervals of 160 means; 21 or more miss with probability 6e-5 where 8 are expected."""
    misses = 0
    for seed in range(80):
        law = sl.fit(paths(6, 21, 3.0, seed=seed), SINES, 2, mean="constant")
        table = law.parameters["mean"].values
        misses += int(((table[:, 2] > MEAN) | (table[:, 3] < MEAN)).sum())
    assert misses < 21


# -- shifted data ------------------------------------------------------------------------------


def test_fluctuation_around_a_sine_is_not_slow():
    """Eigenvalue 0.25 [0.21, 0.30] for 1 in version 0.1."""
    fields = paths(50, 51, 5.0, centre=np.array([np.sqrt(np.pi / 2), 0.0]))
    law = sl.fit(fields, SINES, 2)
    row = law.parameters.eigenvalue.sel(mode=1)
    assert row.sel(statistic="lower") < 1.0 < row.sel(statistic="upper")
    decision = law.info["decisions"]["mean"]
    assert decision["answer"] == "constant"
    assert decision["gain_of_mean"] > decision["gain_needed"] > 0
    slow = sl.fit(fields, SINES, 2, mean="zero")
    assert slow.parameters.eigenvalue.sel(mode=1, statistic="upper") < 0.6
    assert "mean" not in slow.parameters


@pytest.mark.parametrize("drift", ["diagonal", "parametric", "dense"])
@pytest.mark.parametrize("kind", ["complete", "noisy", "gaps"])
def test_a_constant_field_shifts_the_mean_and_nothing_else(kind, drift):
    fields = paths(12, 16, 2.0)
    if kind != "complete":
        fields = paths(12, 16, 2.0, observation_std=0.1)
    fields = gappy(fields) if kind == "gaps" else fields
    by = np.array([7.0, 3.0])
    field = xr.DataArray(SINES.eigenfunctions(fields["x"].values, 2) @ by, dims="x")
    words = {"mean": "constant", "drift": drift, "nuisance": 0}
    if drift == "parametric":
        words["fixed"] = {"s": 1.0, "kappa": 1e-3}
    one, other = sl.fit(fields, SINES, 2, **words), sl.fit(fields + field, SINES, 2, **words)
    errors = one.parameters["mean"].sel(statistic="stderr").values
    moved = estimates(other, "mean") - estimates(one, "mean")
    np.testing.assert_allclose(moved, by, atol=2e-5 * errors.max())
    assert differences(one, other) < 2e-4
    assert other.info.log_likelihood == pytest.approx(one.info.log_likelihood, rel=1e-9)


def test_normal_drift_has_a_mean():
    ring = sl.catalogue.advection_diffusion(3, speed=2.0)
    shift = np.array([0.0, 1.0, -0.5])
    shifted = dataclasses.replace(
        ring, centre=shift, initial="stationary", drift=ring.drift_matrix + np.eye(3)
    )
    fields = sl.simulate(shifted, 30, seed=0)
    law = sl.fit(fields, ring.domain, 3, drift="normal", mean="constant")
    table = law.parameters["mean"].values
    assert (np.abs(table[:, 0] - shift) < 4.5 * table[:, 1]).all()


@pytest.mark.parametrize("kind", ["complete", "noisy", "gaps"])
def test_kelvin_without_preparation(kind):
    """One path of 40 decay times at 285 K."""
    std = 0.0 if kind == "complete" else 0.1
    fields = paths(1, 401, 40.0, np.zeros(2), domain=COSINES, observation_std=std) + 285.0
    fields = gappy(fields) if kind == "gaps" else fields
    law = sl.fit(fields, COSINES, 2, nuisance=0)
    for n, truth in enumerate(RATES, 1):
        row = law.parameters.eigenvalue.sel(mode=n)
        assert row.sel(statistic="lower") < truth < row.sel(statistic="upper")
    assert estimates(law, "mean")[0] == pytest.approx(285.0 * np.sqrt(np.pi), abs=1.5)
    assert law.info["decisions"]["mean"]["mean_over_deviation"] > 100
    assert law.initial.kind == "stationary"
    assert not any("take the mean off" in note for note in law.info.get("warnings", []))


# -- the level of the test ---------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
def test_a_process_without_a_mean_is_not_given_one():
    """Single paths of one mode with ``lambda T`` = 0.05, 1 and 5, 80 data sets each.

    At a level of 1 % there are 11 or more in 240 with probability 5e-5.
    """
    times, alarms, gains = np.linspace(0.0, 1.0, 41), 0, []
    for rate in (0.05, 1.0, 5.0):
        equation = sl.SpectralSPDE(
            SINES, 1, [rate], noise=[1.0], initial="stationary", times=times, n_points=5
        )
        for seed in range(80):
            fields = sl.simulate(equation, 1, seed=seed)
            law = sl.fit(fields, SINES, 1, observation_noise="none", nuisance=0)
            decision = law.info["decisions"]["mean"]
            alarms += decision["answer"] == "constant"
            gains.append(decision.get("gain_of_mean", 0.0))
    assert alarms < 11
    # Chi-square would have raised more: the statistic of a slow path is larger by chance.
    assert (2.0 * np.array(gains) > stats.chi2.ppf(0.99, 1)).sum() > alarms


def coupled_law(rate, n=4):
    """Modes that drive one another, of noise that goes together."""
    ones = np.ones((n, n))
    drift = rate * (np.eye(n) + 0.3 * (np.triu(ones, 1) - np.tril(ones, -1)))
    linear = Linear(drift, np.eye(n) + 0.3)
    covariance = operators.stationary_covariance(linear.drift, linear.noise)
    return StateSpace(linear, InitialState("stationary", np.zeros(n), covariance), np.asarray(0.0))


def intercept_gain(c):
    """``n log(|S_0| / |S_1|)`` of one path (T, N), by least squares."""
    x, y = c[:-1], c[1:]
    sizes = []
    for design in (x, np.c_[x, np.ones(len(x))]):
        left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
        sizes.append(np.linalg.slogdet(left.T @ left)[1])
    return len(x) * (sizes[0] - sizes[1])


def test_chance_of_a_mean_of_coupled_modes_that_forget_at_once():
    """Steps are then independent, and the statistic has Wilks' law, an F in closed form."""
    n, steps = 4, 60
    found = coupled_upper_point(coupled_law(5.0), float(steps), steps, 1, 0.01)
    f = stats.f.isf(0.01, n, steps - 2 * n)
    assert found == pytest.approx(steps * np.log1p(n / (steps - 2 * n) * f), rel=0.06)


def test_chance_of_a_mean_of_slow_coupled_modes():
    """Against the statistic of 1,500 paths; chi-square would be taken by many of them."""
    n, steps, space = 4, 80, coupled_law(0.03)
    step = space.linear.over(np.ones(1))
    roots = [np.linalg.cholesky(m) for m in (step.covariance[0], space.initial.covariance)]
    rng, gains = np.random.default_rng(0), []
    for _ in range(1500):
        c = np.empty((steps + 1, n))
        c[0] = roots[1] @ rng.standard_normal(n)
        for t in range(steps):
            c[t + 1] = step.factor[0] @ c[t] + roots[0] @ rng.standard_normal(n)
        gains.append(intercept_gain(c))
    found = coupled_upper_point(space, float(steps), steps, 1, 0.01)
    least = stats.chi2.isf(0.01, n)
    assert found > 1.3 * least
    # The slower law counts as well: more is needed than at the law itself, but not much more.
    assert 0.95 * np.quantile(gains, 0.99) < found < 1.25 * np.quantile(gains, 0.99)
    assert np.mean(np.array(gains) > least) > 0.05


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
def test_slow_modes_are_not_made_fast():
    """Median of the estimated decay of one path, mean estimated, ``lambda T`` = 5."""
    times, found = np.linspace(0.0, 5.0, 101), []
    equation = sl.SpectralSPDE(
        SINES, 1, [1.0], noise=[1.0], initial="stationary", times=times, n_points=5, centre=[50.0]
    )
    for seed in range(60):
        law = sl.fit(sl.simulate(equation, 1, seed=seed), SINES, 1, mean="constant")
        found.append(float(estimates(law, "eigenvalue")[0]))
    # Least squares with an intercept: 1.73; here the median of 2,000 is 1.22, its error 0.13.
    assert np.median(found) < 1.22 + 3.8 * 0.13


def test_far_starts_are_not_stationary():
    fields = paths(1, 101, 5.0, np.zeros(2), initial=np.array([8.0, 3.0]))
    law = sl.fit(fields, SINES, 2, mean="constant")
    assert law.initial.kind == "deterministic"
    start = law.info["decisions"]["initial_state"]
    assert start["loss_of_a_stationary_start"] > start["loss_allowed"]
    first = law.parameters["mean"].sel(mode=1).values
    assert abs(first[0]) < 4 * first[1]


# -- what a law does with its mean ---------------------------------------------------------------


@pytest.fixture(scope="module")
def law():
    return sl.fit(paths(), SINES, 2, mean="constant")


def test_forecasts_relax_to_the_mean(law):
    fields = paths(2, seed=5)
    late = law.forecast(fields, times=[4.1, 40.0])["mean"].isel(time=-1)
    expected = SINES.eigenfunctions(fields["x"].values, 2) @ estimates(law, "mean")
    np.testing.assert_allclose(late.values, np.tile(expected, (2, 1)), atol=1e-12)
    drawn = law.sample(4000, times=[30.0], seed=0).mean("path").values[0]
    assert np.abs(drawn - expected).max() < 5 * 0.6 / np.sqrt(4000)


def test_reconstruction_and_likelihood_do_not_see_a_shift(law):
    field = SINES.eigenfunctions(paths(1)["x"].values, 2) @ estimates(law, "mean")
    zero = dataclasses.replace(law, dynamics=law.linear.with_mean(None))
    fields = gappy(paths(3, seed=7, observation_std=0.1))
    shifted = fields - xr.DataArray(field, dims="x")
    np.testing.assert_allclose(
        law.reconstruct(fields)["mean"], zero.reconstruct(shifted)["mean"] + field, atol=1e-9
    )
    np.testing.assert_allclose(law.log_likelihood(fields), zero.log_likelihood(shifted), rtol=1e-9)


def test_saved_and_loaded(law, tmp_path):
    law.save(tmp_path / "around.law")
    again = sl.load(tmp_path / "around.law")
    xr.testing.assert_identical(again.parameters, law.parameters)
    np.testing.assert_array_equal(again.linear.mean, law.linear.mean)
    assert again.info["restricted_log_likelihood"] == law.info["restricted_log_likelihood"]
    fields = paths(2, seed=3)
    np.testing.assert_array_equal(
        again.forecast(fields, 5.0)["mean"], law.forecast(fields, 5.0)["mean"]
    )
    assert "mean" in repr(law)
    assert law.kl_divergence(law) == pytest.approx(0.0, abs=1e-12)
    assert again.equation == law.equation


def test_updated_with_further_paths():
    fields = paths(30)
    both = sl.update(sl.fit(fields[:12], SINES, 2, mean="constant"), fields[12:])
    whole = sl.fit(fields, SINES, 2, mean="constant")
    assert differences(whole, both, but=()) < 1e-3
    assert both.info["mean"] == "constant"


def test_bootstrap_of_a_mean():
    law = sl.fit(paths(8, 21, 2.0), SINES, 2, mean="constant", bootstrap=20)
    table = law.parameters["mean"].values
    assert (table[:, 2] < table[:, 0]).all()
    assert (table[:, 0] < table[:, 3]).all()
    wald = sl.fit(paths(8, 21, 2.0), SINES, 2, mean="constant").parameters["mean"].values
    assert (table[:, 1] < 2.5 * wald[:, 1]).all()
    assert (table[:, 1] > 0.4 * wald[:, 1]).all()


def test_innovations_of_a_law_with_a_mean_are_white(law):
    found = sl.evaluate(law, paths(20, seed=9))
    assert found.checks.passed.all() if hasattr(found, "checks") else True


def test_forcing_and_season_beside_a_mean():
    times = np.linspace(0.0, 6.0, 61)
    forcing = sl.Forcing(times, np.stack([np.sin(2 * times), np.zeros(61)], axis=1))
    equation = sl.SpectralSPDE(
        SINES, 2, RATES, noise=NOISE, initial=[2.0, 0.0], times=times, n_points=17, centre=MEAN,
        forcing=forcing, season=sl.Season(2.0, [1.5, 0.5]),
    )  # fmt: skip
    fields = sl.simulate(equation, 40, seed=0)
    law = sl.fit(
        fields, SINES, 2, mean="constant", forcing=forcing, season=sl.Season(2.0, 2), nuisance=0
    )
    table = law.parameters["mean"].values
    assert (np.abs(table[:, 0] - MEAN) < 4.5 * table[:, 1]).all()
    rates = law.parameters.eigenvalue.values
    assert (np.abs(rates[:, 0] - RATES) < 4.5 * rates[:, 1]).all()
    total = float(law.log_likelihood(fields).sum())
    assert law.info.log_likelihood == pytest.approx(total, rel=1e-8)


# -- known means -------------------------------------------------------------------------------


@pytest.mark.parametrize("labelled", [True, False])
def test_known_mean_is_taken_off_and_added_back(labelled, tmp_path):
    fields = paths(8, 16, 2.0, np.zeros(2), observation_std=0.1)
    x = fields["x"].values
    known = xr.DataArray(3.0 + np.cos(7 * x), {"x": x}, ["x"])
    law = sl.fit(fields + known, SINES, 2, mean=known if labelled else known.values)
    plain = sl.fit(fields, SINES, 2, mean="zero")
    assert differences(plain, law) < 1e-9
    new = paths(2, 16, 2.0, np.zeros(2), seed=4, observation_std=0.1)
    np.testing.assert_allclose(
        law.forecast(new + known, 3.0)["mean"], plain.forecast(new, 3.0)["mean"] + known, atol=1e-9
    )
    np.testing.assert_allclose(law.sample(3, seed=0), plain.sample(3, seed=0) + known, atol=1e-9)
    np.testing.assert_allclose(
        law.log_likelihood(new + known), plain.log_likelihood(new), rtol=1e-9
    )
    law.save(tmp_path / "known.law")
    again = sl.load(tmp_path / "known.law")
    np.testing.assert_array_equal(
        again.reconstruct(new + known)["mean"], law.reconstruct(new + known)["mean"]
    )
    assert law.info["mean"] == "known"
    np.testing.assert_allclose(law.known_mean, known.values, atol=1e-12)


def test_known_mean_and_further_paths():
    fields, shift = paths(20, centre=np.zeros(2)), 4.0
    known = np.full(17, shift)
    law = sl.update(sl.fit(fields[:10] + shift, SINES, 2, mean=known), fields[10:] + shift)
    whole = sl.fit(fields + shift, SINES, 2, mean=known)
    assert differences(whole, law, but=()) < 1e-6


@pytest.mark.parametrize(
    ("mean", "error"),
    [
        ("steady", InputError),
        (np.zeros(5), DataError),
        (np.zeros((17, 2)), DataError),
        (object(), DataError),
        (np.full(17, np.nan), DataError),
        (np.full(17, np.inf), DataError),
        (xr.DataArray(np.zeros((2, 17)), dims=("time", "x")), DataError),
        (xr.DataArray(np.zeros(17), {"x": np.linspace(0, 1, 17)}, ["x"]), DataError),
    ],
)
def test_wrong_means_are_refused(mean, error):
    with pytest.raises(error, match="mean"):
        sl.fit(paths(4, 9), SINES, 2, mean=mean)
