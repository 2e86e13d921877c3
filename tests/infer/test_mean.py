"""The mean of a law: the joint Gaussian in full, shifts, the level of the test, known means."""

import dataclasses

import numpy as np
import pytest
import xarray as xr
from benchmarks._calibration_kinds import KINDS
from tests.fitted import INTERVAL, MEAN, fitted, two_modes
from tests.infer.recovery import estimates
from tests.parameters import each

import spdelaw as sl
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.infer.moments import pooled_states

NOISY = pytest.param("noisy", marks=pytest.mark.slow)
RATES, NOISE = np.array([1.0, 4.0]), np.array([1.0, 0.5])


def paths(n_paths=20, n_times=41, span=4.0, centre=MEAN, seed=0, std=0.0, **more):
    """Fields of two modes around a mean."""
    equation = two_modes(centre, n_times=n_times, span=span, **more)
    return sl.simulate(equation, n_paths, seed=seed, observation_std=std)


def gappy(fields, seed=1):
    return sl.mask(fields, "random", fraction=0.4, seed=seed)


def fit(fields, mean="constant", **words):
    return sl.fit(fields, INTERVAL, 2, mean=mean, **words)


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
    phi = INTERVAL.eigenfunctions(x, 2)
    states = np.stack([np.exp(-lam * np.abs(t[:, None] - t)) for lam in RATES])
    states *= (NOISE / (2 * RATES))[:, None, None]
    joint = np.einsum("mi,its,ni->tmsn", phi, states, phi).reshape(len(t) * len(x), -1)
    joint += r * np.eye(len(joint))
    design = np.tile(phi, (len(t), 1))
    information, gradient = np.zeros((2, 2)), np.zeros(2)
    for y in fields.values.reshape(len(fields), -1):
        rows = ~np.isnan(y)
        solved = np.linalg.solve(joint[np.ix_(rows, rows)], design[rows])
        information += design[rows].T @ solved
        gradient += solved.T @ y[rows]
    covariance = np.linalg.inv(information)
    return covariance @ gradient, np.sqrt(np.diag(covariance))


@pytest.mark.parametrize("kind", ["complete", "noisy", "gaps"])
def test_estimate_and_error_given_the_rest(kind):
    fields = paths(3, 9, 1.5, std=0.0 if kind == "complete" else 0.2)
    fields = gappy(fields) if kind == "gaps" else fields
    words = {"fixed": {"eigenvalue": RATES, "noise_variance": NOISE}, "initial": "stationary"}
    if kind != "complete":
        words |= {"observation_noise": 0.2, "nuisance": 0}
    law = fit(fields, **words)
    mean, error = regression(fields, 1e-9 if kind == "complete" else 0.04)
    exact = {"rtol": 1e-5} if kind == "complete" else {"rtol": 1e-8}
    np.testing.assert_allclose(estimates(law, "mean"), mean, **exact)
    rtol = max(exact["rtol"], 1e-6)
    np.testing.assert_allclose(estimates(law, "mean", "stderr"), error, rtol=rtol)
    total = float(law.log_likelihood(fields).sum())
    assert law.info.log_likelihood == pytest.approx(total, rel=1e-10)
    assert law.info.n_parameters == 2
    assert law.info["route"] == ("statistics" if kind == "complete" else "filter")


@pytest.mark.parametrize("std", [0.0, 0.1])
def test_error_includes_that_of_the_other_parameters(std):
    """``C + J Cov J'``, the slope J from laws with the eigenvalue held beside its maximum."""
    fields = paths(4, 21, 2.0, initial=np.array([3.0, 0.0]), std=std)
    words = {"initial": "deterministic", "observation_noise": std or "none", "nuisance": 0}
    law = fit(fields, **words)
    rate = law.parameters.eigenvalue.sel(mode=1).values
    log_error, means, inside = rate[1] / rate[0], [], []
    for way in (-0.05, 0.05):
        held = {"eigenvalue": [rate[0] * np.exp(way * log_error), np.nan]}
        one = fit(fields, **words, fixed=held)
        means.append(estimates(one, "mean")[0])
        inside.append(estimates(one, "mean", "stderr")[0])
    slope = (means[1] - means[0]) / 0.1
    stderr = estimates(law, "mean", "stderr")[0]
    assert stderr == pytest.approx(np.hypot(np.mean(inside), slope), rel=0.02)
    assert abs(slope) > 0.1 * stderr  # else nothing is tested


@pytest.mark.slow
def test_mean_is_covered():
    """95 % intervals of 160 means; 21 or more miss with probability 6e-5 where 8 are expected."""
    misses = 0
    for seed in range(80):
        table = fit(paths(6, 21, 3.0, seed=seed)).parameters["mean"].values
        misses += int(((table[:, 2] > MEAN) | (table[:, 3] < MEAN)).sum())
    assert misses < 21


# -- shifted data ------------------------------------------------------------------------------


def test_fluctuation_around_a_sine_is_not_slow():
    """Eigenvalue 0.25 [0.21, 0.30] for 1 in version 0.1."""
    fields = paths(50, 51, 5.0, centre=np.array([np.sqrt(np.pi / 2), 0.0]))
    law, slow = fit(fields, "auto"), fit(fields, "zero")
    assert estimates(law, "eigenvalue", "lower")[0] < 1.0 < estimates(law, "eigenvalue", "upper")[0]
    decision = law.info["decisions"]["mean"]
    assert decision["answer"] == "constant"
    assert decision["largest_z_of_mean"] > decision["mean_from_z"] > 0
    assert estimates(slow, "eigenvalue", "upper")[0] < 0.6
    assert "mean" not in slow.parameters


@each(kind=["complete", "noisy", "gaps"], drift=["diagonal", "parametric", "dense"])
def test_a_constant_field_shifts_the_mean_and_nothing_else(kind, drift):
    fields = paths(12, 16, 2.0, std=0.0 if kind == "complete" else 0.1)
    fields = gappy(fields) if kind == "gaps" else fields
    by = np.array([7.0, 3.0])
    field = xr.DataArray(INTERVAL.eigenfunctions(fields["x"].values, 2) @ by, dims="x")
    words = {"drift": drift, "nuisance": 0}
    if drift == "parametric":
        words["fixed"] = {"s": 1.0, "kappa": 1e-3}
    one, other = fit(fields, **words), fit(fields + field, **words)
    moved = estimates(other, "mean") - estimates(one, "mean")
    np.testing.assert_allclose(moved, by, atol=2e-5 * estimates(one, "mean", "stderr").max())
    assert differences(one, other) < 2e-4
    assert other.info.log_likelihood == pytest.approx(one.info.log_likelihood, rel=1e-9)


@pytest.mark.parametrize("kind", ["complete", "gaps", NOISY])
def test_kelvin_without_preparation(kind):
    """One path of 40 decay times at 285 K."""
    std, cosines = 0.0 if kind == "complete" else 0.1, sl.Interval(0, np.pi, boundary="neumann")
    fields = paths(1, 401, 40.0, np.zeros(2), domain=cosines, std=std) + 285.0
    law = sl.fit(gappy(fields) if kind == "gaps" else fields, cosines, 2, nuisance=0)
    assert (estimates(law, "eigenvalue", "lower") < RATES).all()
    assert (estimates(law, "eigenvalue", "upper") > RATES).all()
    assert estimates(law, "mean")[0] == pytest.approx(285.0 * np.sqrt(np.pi), abs=1.5)
    assert law.info["decisions"]["mean"]["largest_z_of_mean"] > 10
    assert law.initial.kind == "stationary"
    assert not any("--anomalies" in note for note in law.info.get("warnings", []))


# -- the level of the test ---------------------------------------------------------------------


@pytest.mark.parametrize("size", [0.0, 1.4])
@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
def test_default_intervals_hold_with_and_without_a_mean_in_a_slow_mode(size):
    """Where they hold in 9 of 10 sets, fewer than 12 of 20 do with a probability of 1e-5."""
    centre = np.array([size * np.sqrt(NOISE[0] / (2 * RATES[0])), 0.0])
    laws = [
        fit(paths(8, 61, 3.0, centre, seed=seed, initial="stationary"), "auto")
        for seed in range(20)
    ]
    ends = np.array(
        [law.parameters["eigenvalue"].sel(statistic=["lower", "upper"]).values for law in laws]
    )
    held = ((ends[..., 0] <= RATES) & (ends[..., 1] >= RATES)).sum(0)
    assert (held >= 12).all()
    n_means = sum(law.info["mean"] == "constant" for law in laws)
    assert n_means >= 18 if size else n_means <= 16


def test_a_mean_compatible_with_zero_is_dropped_and_reported():
    law = fit(paths(20, centre=np.zeros(2)), "auto")
    decision = law.info["decisions"]["mean"]
    assert (law.info["mean"] == "constant") == (
        decision["largest_z_of_mean"] >= decision["mean_from_z"]
    )


def test_far_starts_are_not_stationary():
    law = fit(paths(1, 101, 5.0, np.zeros(2), initial=np.array([8.0, 3.0])))
    assert law.initial.kind == "deterministic"
    start = law.info["decisions"]["initial_state"]
    assert start["first_state_chi2"] > start["chi2_below"]
    first = law.parameters["mean"].sel(mode=1).values
    assert abs(first[0]) < 4 * first[1]


def test_modes_that_vanish_at_all_points_have_no_first_state():
    """Divided by the rounding of their squares, they had a variance of 1e30."""
    gram, vector = np.diag([2.0, 1e-31]), np.array([1.0, 1e-16])
    _, spread = pooled_states([(gram, vector, 3.0, 4)], 2)
    assert np.isfinite(spread[0])
    assert np.isnan(spread[1])


def test_a_trend_that_passes_for_a_mean_is_named():
    """A line in time is the start of a way to a mean far away."""
    fields = paths(10, 61, 3.0, np.zeros(2), seed=3)
    t = xr.DataArray(fields.time.values, dims="time")
    moved = (fields + 4.0 * t * np.sin(fields["x"])).transpose(*fields.dims)
    with pytest.warns(IdentifiabilityWarning, match="times the largest value.*--detrend"):
        fit(moved)
    assert not any("largest value" in text for text in fit(fields).info["warnings"])


# -- what a law does with its mean ---------------------------------------------------------------


def test_forecasts_relax_to_the_mean():
    fields, _, law = fitted("mean")
    late = law.forecast(fields[:2], times=[4.1, 40.0])["mean"].isel(time=-1)
    expected = INTERVAL.eigenfunctions(fields["x"].values, 2) @ estimates(law, "mean")
    np.testing.assert_allclose(late.values, np.tile(expected, (2, 1)), atol=1e-12)
    drawn = law.sample(4000, times=[30.0], seed=0).mean("path").values[0]
    assert np.abs(drawn - expected).max() < 5 * 0.6 / np.sqrt(4000)


def test_reconstruction_and_likelihood_do_not_see_a_shift():
    law, fields = fitted("mean").law, gappy(paths(3, seed=7, std=0.1))
    field = INTERVAL.eigenfunctions(fields["x"].values, 2) @ estimates(law, "mean")
    zero = dataclasses.replace(law, dynamics=law.linear.with_mean(None))
    shifted = fields - xr.DataArray(field, dims="x")
    np.testing.assert_allclose(
        law.reconstruct(fields)["mean"], zero.reconstruct(shifted)["mean"] + field, atol=1e-9
    )
    np.testing.assert_allclose(law.log_likelihood(fields), zero.log_likelihood(shifted), rtol=1e-9)


@pytest.mark.parametrize(("mean", "tolerance"), [("constant", 1e-3), (np.full(17, 4.0), 1e-6)])
def test_updated_with_further_paths(mean, tolerance):
    fields = paths(30) if isinstance(mean, str) else paths(20, centre=np.zeros(2)) + 4.0
    both, whole = sl.update(fit(fields[:10], mean), fields[10:]), fit(fields, mean)
    assert differences(whole, both, but=()) < tolerance
    assert both.info["mean"] == whole.info["mean"]


def test_forcing_and_season_beside_a_mean():
    times = np.linspace(0.0, 6.0, 61)
    forcing = sl.Forcing(times, np.stack([np.sin(2 * times), np.zeros(61)], axis=1))
    words = {"n_times": 61, "span": 6.0, "initial": [2.0, 0.0], "forcing": forcing}
    fields = paths(40, season=sl.Season(2.0, [1.5, 0.5]), **words)
    law = fit(fields, forcing=forcing, season=sl.Season(2.0, 2), nuisance=0)
    for name, truth in (("mean", MEAN), ("eigenvalue", RATES)):
        z = (estimates(law, name) - truth) / estimates(law, name, "stderr")
        assert np.abs(z).max() < 4.5
    total = float(law.log_likelihood(fields).sum())
    assert law.info.log_likelihood == pytest.approx(total, rel=1e-8)


@pytest.mark.filterwarnings("ignore::spdelaw.errors.SpdeLawWarning")
@pytest.mark.parametrize("seed", [4, 11])
def test_a_front_that_drifts_has_a_likelihood(seed):
    """A mean 1e6 times the data left no digits: noise 1e-65, log-likelihood -1e64."""
    kind = next(kind for kind in KINDS if kind.name.startswith("Nagumo"))
    fields = kind.data(seed)
    law = sl.fit(fields, kind.truth.domain, 8)
    plain = sl.fit(fields, kind.truth.domain, 8, mean="zero")
    assert law.info["log_likelihood"] >= plain.info["log_likelihood"] - 1e-3
    assert law.linear.noise.min() > 1e-6


# -- known means -------------------------------------------------------------------------------


@pytest.mark.parametrize("labelled", [True, False])
def test_known_mean_is_taken_off_and_added_back(labelled, tmp_path):
    fields = paths(8, 16, 2.0, np.zeros(2), std=0.1)
    x = fields["x"].values
    field = xr.DataArray(3.0 + np.cos(7 * x), {"x": x}, ["x"])
    law, plain = fit(fields + field, field if labelled else field.values), fit(fields, "zero")
    assert differences(plain, law) < 1e-9
    new = paths(2, 16, 2.0, np.zeros(2), seed=4, std=0.1)
    ahead = plain.forecast(new, 3.0)["mean"] + field
    np.testing.assert_allclose(law.forecast(new + field, 3.0)["mean"], ahead, atol=1e-9)
    np.testing.assert_allclose(law.sample(3, seed=0), plain.sample(3, seed=0) + field, atol=1e-9)
    log_likelihoods = plain.log_likelihood(new)
    np.testing.assert_allclose(law.log_likelihood(new + field), log_likelihoods, rtol=1e-9)
    law.save(tmp_path / "known.law")
    again = sl.load(tmp_path / "known.law")
    smooth = (one.reconstruct(new + field)["mean"] for one in (again, law))
    np.testing.assert_array_equal(*smooth)
    assert law.info["mean"] == "known"
    np.testing.assert_allclose(law.known_mean, field.values, atol=1e-12)
