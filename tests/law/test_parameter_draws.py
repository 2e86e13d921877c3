"""Bands that know how well the parameters are known."""

import dataclasses

import numpy as np
import pytest
import xarray as xr
from scipy import linalg

import spdelaw as sl
from spdelaw.errors import InputError

INTERVAL = sl.Interval(0.0, np.pi)


def short_record(drift="diagonal", noise="diagonal", seed=0, **words):
    truth = sl.SpectralSPDE(INTERVAL, 2, [0.5, 2.0], noise=[1.0, 0.5], initial="stationary")
    data = sl.simulate(truth, 1, 0.2 * np.arange(40), np.linspace(0.2, 2.9, 9), seed=seed)
    words = {"initial": "stationary", "mean": "zero", "observation_noise": "none"} | words
    return data, sl.fit(data, INTERVAL, 2, drift=drift, noise=noise, **words)


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
@pytest.mark.parametrize(
    "words",
    [{"drift": "dense", "noise": "dense"}, {"mean": "constant", "observation_noise": 0.1}],
    ids=str,
)
def test_bands_grow_by_the_spread_of_the_means(words):
    data, law = short_record(**words)
    later = data.time.values[-1] + np.array([0.2, 2.0, 8.0])
    plain = law.forecast(data, later)
    wide = law.forecast(data, later, n_samples=40, parameter_draws=40)
    assert wide["sample"].sizes["draw"] == 40
    assert np.isfinite(wide["std_field"]).all()
    assert float((wide["std_field"] / plain["std_field"]).sel(time=later[1]).max()) > 1.02
    # Just ahead little can go wrong: the state is seen, and the decay hardly matters.
    assert float(np.abs(wide["mean"] - plain["mean"]).isel(time=0).max()) < 0.2


def test_a_law_without_errors_keeps_its_bands():
    data, law = short_record()
    table = law.coordinates.assign(covariance=0.0 * law.coordinates["covariance"])
    sure = dataclasses.replace(law, coordinates=table)
    later = np.array([9.0, 12.0])
    for one, two in (
        (sure.forecast(data, later), sure.forecast(data, later, parameter_draws=4)),
        (sure.reconstruct(data), sure.reconstruct(data, parameter_draws=4)),
    ):
        np.testing.assert_allclose(two["mean"], one["mean"], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(two["std_field"], one["std_field"], rtol=1e-10, atol=1e-12)
    with pytest.raises(InputError, match="parameter_draws"):
        dataclasses.replace(law, coordinates=None).forecast(data, later, parameter_draws=4)


def test_the_variance_of_one_mode_is_that_of_its_law():
    """``q / 2 lambda (1 - e^(-2 lambda h))`` and ``c e^(-lambda h)`` over drawn parameters."""
    data, law = short_record()
    far = float(data.time[-1]) + 3.0
    wide = law.forecast(data, [far], parameter_draws=300, seed=1)
    rng, table = np.random.default_rng(0), law.coordinates
    drawn = rng.multivariate_normal(np.zeros(len(table.estimate)), table["covariance"], 20000)
    logs = drawn @ table["jacobian"].values.T
    number = np.concatenate([law.linear.drift, law.linear.noise])
    lam, q = np.split(number * np.exp(np.clip(logs / number, -3, 3)), 2, axis=1)
    x, phi = data.x.values, INTERVAL.eigenfunctions(data.x.values, 2)
    c = np.linalg.lstsq(phi, data.values[0, -1], rcond=None)[0]
    mean = (c * np.exp(-3.0 * lam)) @ phi.T
    variance = (q / (2 * lam) * (1 - np.exp(-6.0 * lam))) @ (phi**2).T
    std = np.sqrt(variance.mean(0) + mean.var(0))
    inner = (x > 0.3) & (x < 2.8)
    np.testing.assert_allclose(wide["std_field"].values[0, 0, inner], std[inner], rtol=0.12)


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
@pytest.mark.parametrize("drift", ["diagonal", "dense"])
def test_forecasts_include_the_error_of_the_mean(drift):
    """Zero at once, all of its standard error in the end, and closed forms in between."""
    data, law = short_record(drift, mean="constant", observation_noise=0.1)
    table = law.coordinates
    sure = dataclasses.replace(law, coordinates=table.drop_vars(["mean_given", "mean_slopes"]))
    later = data.time.values[-1] + [0.0, 1.0, 90.0]
    wide, narrow = (one.forecast(data, later)["std"].values[0] ** 2 for one in (law, sure))
    given, slopes = table["mean_given"].values, table["mean_slopes"].values
    others = slopes @ table["covariance"].values @ slopes.T
    matrix = law.linear.drift
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    for h, row in zip((0.0, 1.0, 90.0), wide - narrow, strict=True):
        f = linalg.expm(-matrix * h)
        left, drawn = np.eye(2) - f, np.eye(2) - f - h * matrix @ f
        total = left @ given @ left.T + drawn @ others @ drawn.T
        basis = INTERVAL.eigenfunctions(law.points, 2)
        np.testing.assert_allclose(row, np.diag(basis @ total @ basis.T), atol=1e-10)
    drawn = law.forecast(data, later, n_samples=4000, seed=1)
    ratio = (drawn["sample"].std("draw") / drawn["std_field"]).values[0, 1:]
    assert np.abs(ratio - 1.0).max() < 5.0 / np.sqrt(2 * 4000)


def test_an_unobserved_path_has_the_error_of_the_mean_too():
    """As where nothing was observed from its first time on."""
    data, law = short_record(mean="constant", observation_noise=0.1)
    both = xr.concat([data, data.where(False)], "path").assign_coords(path=[0, 1])
    std = law.reconstruct(both)["std"].values[1]
    far = law.forecast(data, [float(data.time[-1]) + 50.0])["std"].values[0, 0]
    np.testing.assert_allclose(std[-1], far, rtol=1e-2)
    assert (np.diff(std[:, 4]) >= 0).all()


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
def test_the_error_of_the_mean_given_the_others_is_part_of_its_standard_error(tmp_path):
    """``Cov m = C + S Cov(x) S'``; both parts are saved."""
    _, law = short_record(mean="constant", observation_noise=0.1)
    law.save(tmp_path / "short.law")
    table = sl.load(tmp_path / "short.law").coordinates
    slopes, others = table["mean_slopes"].values, table["covariance"].values
    total = table["mean_given"].values + slopes @ others @ slopes.T
    stderr = law.parameters["mean"].sel(statistic="stderr").values
    np.testing.assert_allclose(np.sqrt(np.diag(total)), stderr, rtol=1e-8)
