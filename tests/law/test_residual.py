"""The residual with memory: closed forms, the brute-force Gaussian, files, and calibrated bands."""

import dataclasses

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.law.residuals import AR1, Grid

POINTS = np.linspace(0.2, 3.0, 12)
HEAT = sl.catalogue.heat(n_modes=2, initial="stationary")


def process(decay, variance, times, n_paths, generator):
    """Ornstein-Uhlenbeck paths (n_paths, T, M), one decay and variance per point."""
    decay, variance = np.broadcast_arrays(decay, variance)
    z = np.empty((n_paths, len(times), len(decay)))
    z[:, 0] = np.sqrt(variance) * generator.standard_normal(z[:, 0].shape)
    for t, dt in enumerate(np.diff(times)):
        phi = np.exp(-decay * dt)
        fresh = np.sqrt(variance * (1 - phi**2)) * generator.standard_normal(z[:, 0].shape)
        z[:, t + 1] = phi * z[:, t] + fresh
    return z


def with_residual(n_paths, times, decay, variance, white, seed=0, points=POINTS):
    """Modes of a heat equation, an Ornstein-Uhlenbeck residual at each point, and white noise."""
    generator = np.random.default_rng(seed)
    fields = sl.simulate(HEAT, n_paths, times, points, seed=seed)
    residual = process(decay + np.zeros(len(points)), variance, times, n_paths, generator)
    noise = np.sqrt(white) * generator.standard_normal(residual.shape)
    return fields + residual + noise


def test_smoother_is_the_brute_force_gaussian():
    generator = np.random.default_rng(1)
    times = np.cumsum(generator.exponential(1.0, 9))
    residual = AR1(np.array([0.3, 2.0]), np.array([1.5, 0.7]), np.array([0.4, 0.0]))
    seen = process(residual.decay, residual.variance, times, 3, generator)
    seen += np.sqrt(residual.white) * generator.standard_normal(seen.shape)
    seen[generator.uniform(size=seen.shape) < 0.3] = np.nan
    seen[:, -2:] = np.nan  # two steps of forecast
    mean, variance, weight = residual.predict(seen, Grid(times, None))
    each = residual.predict(seen, Grid(np.tile(times, (3, 1)), None))  # a clock of each path
    np.testing.assert_allclose(each, (mean, variance, weight), atol=1e-14)
    for p in range(3):
        for j in range(2):
            prior = residual.variance[j] * np.exp(
                -residual.decay[j] * np.abs(times[:, None] - times)
            )
            at = ~np.isnan(seen[p, :, j])
            gain = prior[:, at] @ np.linalg.inv(
                prior[np.ix_(at, at)] + residual.white[j] * np.eye(at.sum())
            )
            np.testing.assert_allclose(mean[p, :, j], gain @ seen[p, at, j], atol=1e-10)
            left = np.diag(prior - gain @ prior[at])
            np.testing.assert_allclose(variance[p, :, j], left, atol=1e-10)
            diagonal = np.zeros(9)
            diagonal[at] = np.diag(gain[at])
            np.testing.assert_allclose(weight[p, :, j], diagonal, atol=1e-10)


@pytest.fixture(scope="module")
def learned():
    times = 0.5 * np.arange(400)
    fields = with_residual(2, times, 0.4, 0.09, 0.0)
    return fields, sl.fit(
        fields, HEAT.domain, 2, residual="memory", observation_noise="none", nuisance=0
    )


def test_forecast_of_the_rest_is_the_closed_form(learned):
    """Noise-free: the last residual decays by ``exp(-a h)`` and its variance grows to v."""
    fields, law = learned
    ahead = np.array([0.5, 1.0, 5.0])
    white = dataclasses.replace(law, residual_memory=None)
    got = law.forecast(fields, fields.time.values[-1] + ahead)
    modes = white.forecast(fields, fields.time.values[-1] + ahead)
    smooth = law.reconstruct(fields)
    np.testing.assert_allclose(smooth["mean"], fields, atol=1e-10)
    assert float(smooth["std_field"].max()) < 1e-6
    left = fields.values[:, -1] - white.reconstruct(fields)["mean"].values[:, -1]
    phi = np.exp(-law.residual_memory.decay * ahead[:, None])
    np.testing.assert_allclose(got["mean"] - modes["mean"], phi * left[:, None], atol=1e-10)
    grown = law.residual_memory.variance * (1 - phi**2) - law.unresolved_variance
    np.testing.assert_allclose(
        got["std_field"] ** 2 - modes["std_field"] ** 2,
        np.broadcast_to(grown, got["std_field"].shape),
        atol=1e-10,
    )


def test_draws_have_the_moments_of_the_forecast(learned):
    """1,600 draws of 2 x 3 x 12 numbers; all means within 5 standard errors, 4e-5 by chance."""
    fields, law = learned
    last = fields.time.values[-1]
    got = law.forecast(fields[:, -12:], last + np.array([0.5, 1.0, 4.0]), n_samples=1600, seed=3)
    error = (got["sample"].mean("draw") - got["mean"]) / (got["sample"].std("draw") / 40)
    assert float(abs(error).max()) < 5.0
    np.testing.assert_allclose(got["sample"].std("draw"), got["std_field"], rtol=0.15)


def test_other_points_get_a_rest_that_was_never_seen(learned):
    fields, law = learned
    here = law.forecast(fields, steps=1)
    both = law.forecast(fields, steps=1, grid=np.append(POINTS[:3], 1.234))
    np.testing.assert_allclose(both["mean"][..., :3], here["mean"][..., :3], atol=1e-10)
    np.testing.assert_allclose(both["std_field"][..., :3], here["std_field"][..., :3], atol=1e-10)
    white = dataclasses.replace(law, residual_memory=None).forecast(fields, steps=1, grid=[1.234])
    assert float(both["mean"][0, 0, 3]) == pytest.approx(float(white["mean"][0, 0, 0]))
    wider = float(both["std_field"][0, 0, 3]) ** 2 - float(white["std_field"][0, 0, 0]) ** 2
    assert wider == pytest.approx(law.residual_memory.variance.mean() - law.unresolved_variance)


def test_saved_and_loaded_with_a_likelihood_that_ignores_the_rest(learned, tmp_path):
    fields, law = learned
    law.save(tmp_path / "a.law")
    again = sl.load(tmp_path / "a.law")
    for old, new in zip(law.residual_memory, again.residual_memory, strict=True):
        np.testing.assert_array_equal(old, new)
    assert again.forecast(fields, steps=2).equals(law.forecast(fields, steps=2))
    assert "residual: memory per point" in repr(again)
    assert "residual: memory per point" in again._repr_html_()
    assert again.info["residual"]["answer"] == "memory"
    white = dataclasses.replace(law, residual_memory=None)
    assert law.log_likelihood(fields).equals(white.log_likelihood(fields))
