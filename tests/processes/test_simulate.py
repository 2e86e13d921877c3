"""simulate: moments against closed forms, orders, streams, labels, bad input.

Statistical tests use a fixed seed and reject at a joint false-alarm rate of 1e-4.
"""

import json
import sys

import numpy as np
import pytest
from scipy import stats

import spdelaw as sl
from spdelaw.errors import FileError, SpdeLawError
from spdelaw.processes.paths import steps

ALPHA = 1e-4


def assert_moments(coefficients, mean, variance):
    """Means and variances of independent Gaussian samples, Bonferroni over all entries."""
    n, k = len(coefficients), 2 * mean.size
    z = (coefficients.mean(0) - mean) / np.sqrt(variance / n)
    assert np.abs(z).max() < stats.norm.isf(ALPHA / k / 2)
    ratio = (n - 1) * coefficients.var(0, ddof=1) / variance
    assert ratio.min() > stats.chi2.ppf(ALPHA / k / 2, n - 1)
    assert ratio.max() < stats.chi2.isf(ALPHA / k / 2, n - 1)


def smallest_batches(monkeypatch):
    # The function spdelaw.simulate hides the package of the same name from attribute look-up.
    monkeypatch.setattr(sys.modules["spdelaw.processes.paths"], "BATCH_BYTES", 1.0)


def coefficients_of(equation, fields):
    return equation.domain.analyse(fields, equation.n_modes).values


@pytest.mark.parametrize("make", [sl.catalogue.heat, sl.catalogue.ornstein_uhlenbeck])
def test_observation_noise(make):
    """(noisy - clean) is white with the given standard deviation, and the path is unchanged."""
    e = make(n_modes=4)
    clean = sl.simulate(e, 20, seed=3)
    noise = (sl.simulate(e, 20, seed=3, observation_std=0.3) - clean).values
    n = noise.size
    assert abs(noise.mean()) < stats.norm.isf(ALPHA / 4) * 0.3 / np.sqrt(n)
    assert abs(noise.var() / 0.09 - 1) < stats.norm.isf(ALPHA / 4) * np.sqrt(2 / n)
    lag = (noise[:, 1:] * noise[:, :-1]).mean() / 0.09
    assert abs(lag) < stats.norm.isf(ALPHA / 4) / np.sqrt(n)


@pytest.mark.parametrize(("scheme", "low", "high"), [("semi_implicit", 0.9, 1.1), ("exact", 0, 0)])
def test_weak_order(scheme, low, high):
    """Slope of the error of Var c(1) in the step; the exact scheme has none.

    The variance is propagated through the scheme's own coefficients, without Monte Carlo.
    """
    e = sl.SpectralSPDE(sl.Interval(0, np.pi), 1, [2.0], noise=[1.0], initial=[0.0])
    errors, numbers = [], np.array([10, 20, 40, 80, 160])
    for n in numbers:
        rule = steps(e, np.arange(1, n + 1) / n, scheme)
        v = 0.0
        for a, amplitude in zip(rule.factor[:, 0], rule.amplitude[:, 0], strict=True):
            v = a**2 * v + amplitude**2
        errors.append(abs(v - e.variance([1.0]).values[0, 0]))
    if scheme == "exact":
        assert max(errors) < 1e-13
    else:
        assert low < -np.polyfit(np.log(numbers), np.log(errors), 1)[0] < high


@pytest.mark.parametrize("scheme", ["exact", "semi_implicit"])
def test_driving_noise_has_the_law_of_increments_and_drives_the_path(scheme):
    """Var = q dt, independent over time; regression of the path's noise on it is exact."""
    e = sl.SpectralSPDE(sl.Interval(0, np.pi), 2, [1.0, 30.0], noise=[1.0, 0.5], initial=[1.0, 1.0])
    t = np.array([0.0, 0.05, 0.2, 0.25])
    data = sl.simulate(e, 6000, t, seed=5, scheme=scheme, return_noise=True)
    w = data.noise_increment.values[:, 1:]
    dt = np.diff(t)[:, None]
    assert_moments(w, np.zeros((3, 2)), dt * e.noise_variance)
    flat = (w / np.sqrt(dt * e.noise_variance)).reshape(6000, -1)
    correlation = flat.T @ flat / 6000 - np.eye(6)
    off = np.abs(correlation - np.diag(np.diag(correlation))).max()
    assert off < stats.norm.isf(ALPHA / 30) / np.sqrt(6000)
    c = coefficients_of(e, data.field)
    if scheme == "semi_implicit":
        step = (c[:, :-1] + w) / (1 + e.eigenvalues * dt)
        np.testing.assert_allclose(c[:, 1:], step, atol=1e-12)
    else:
        a = np.exp(-e.eigenvalues * dt)
        innovation = c[:, 1:] - a * c[:, :-1]
        expected = e.noise_variance * (1 - a) / e.eigenvalues
        covariance = (innovation * w).mean(0)
        spread = (innovation * w).std(0) / np.sqrt(6000)
        z = (covariance - expected) / spread
        assert np.abs(z).max() < stats.norm.isf(ALPHA / z.size / 2)
    np.testing.assert_allclose(
        data.noise_field.values,
        data.noise_increment.values @ e.domain.eigenfunctions(data.x.values, 2).T,
    )


def test_batches_do_not_show(monkeypatch):
    e = sl.catalogue.heat(n_modes=4)
    settings = {"times": [0.0, 0.5, 1.0], "seed": 7, "observation_std": 0.1}
    whole = sl.simulate(e, 70, **settings)
    for k in (1, 15, 16, 17):  # the first paths do not depend on how many follow
        np.testing.assert_array_equal(sl.simulate(e, k, **settings), whole[:k])
    smallest_batches(monkeypatch)
    calls = []
    parts = sl.simulate(e, 70, **settings, progress=lambda *done: calls.append(done))
    np.testing.assert_array_equal(whole, parts)
    assert calls == [(16, 70), (32, 70), (48, 70), (64, 70), (70, 70)]


def test_seeds_differ_and_paths_are_independent():
    e = sl.catalogue.heat(n_modes=2)
    a, b = (sl.simulate(e, 500, [0.5], seed=s).values[:, 0, 50] for s in (0, 1))
    assert abs(stats.pearsonr(a, b).statistic) < stats.norm.isf(ALPHA / 4) / np.sqrt(500)
    assert abs(stats.pearsonr(a[1:], a[:-1]).statistic) < stats.norm.isf(ALPHA / 4) / np.sqrt(500)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "expected_rel", "expected_rmse"),
    [(sl.catalogue.heat, 0.478, 0.31), (sl.catalogue.ornstein_uhlenbeck, 0.216, 0.75)],
)
def test_mean_predictor_of_the_paper(make, expected_rel, expected_rmse):
    """The exact mean as predictor gives the numbers of the paper's baselines (50 modes).

    Bands of 4 standard errors from the spread over paths.
    """
    e = make()
    x = sl.simulate(e, 600, seed=11)
    truth = x.values[:, 1:]
    error = truth - e.mean(grid=x.x.values).values[1:]
    rel = np.sqrt((error**2).sum((1, 2)) / (truth**2).sum((1, 2)))
    mse = (error**2).mean((1, 2))
    # The reference values come from 150 paths; their own sampling error is twice ours.
    assert abs(rel.mean() - expected_rel) < 4 * rel.std() / np.sqrt(120)
    assert abs(mse.mean() - expected_rmse**2) < 4 * mse.std() / np.sqrt(120)


def test_labels_describe_the_equation():
    e = sl.catalogue.heat(n_modes=3)
    fields = sl.simulate(e, 2, seed=4)
    assert fields.dims == ("path", "time", "x")
    assert sl.SpectralSPDE.from_dict(json.loads(fields.attrs["equation"])) == e
    assert fields.attrs["seed"] == 4


def test_stream_to_zarr(tmp_path, monkeypatch):
    pytest.importorskip("zarr", reason="the zarr extra is not installed")
    smallest_batches(monkeypatch)
    e = sl.catalogue.heat(n_modes=3)
    kwargs = {"times": np.linspace(0, 1, 5), "seed": 0}
    lazy = sl.simulate(e, 40, out=tmp_path / "paths.zarr", **kwargs)
    np.testing.assert_array_equal(lazy, sl.simulate(e, 40, **kwargs))
    assert lazy.attrs["seed"] == 0
    both = sl.simulate(e, 20, out=tmp_path / "noise.zarr", return_noise=True, **kwargs)
    assert {"field", "noise_increment", "noise_field"} <= set(both)
    with pytest.raises(FileError, match="exists"):
        sl.simulate(e, 2, out=tmp_path / "paths.zarr")


def test_interrupted_stream_leaves_nothing(tmp_path, monkeypatch):
    pytest.importorskip("zarr", reason="the zarr extra is not installed")
    smallest_batches(monkeypatch)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sl.simulate(sl.catalogue.heat(2), 40, [0.0, 1.0], out=tmp_path / "a.zarr", progress=stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"equation": "heat"}, {"n_paths": 0}, {"n_paths": 2.5}, {"times": [0.0, 0.0]},
        {"times": [-1.0, 0.0]}, {"grid": [0.0, 7.0]}, {"grid": []}, {"seed": -1}, {"seed": None},
        {"scheme": "euler"}, {"observation_std": -0.1}, {"observation_std": np.nan},
        {"out": "paths.nc"}, {"out": "nowhere/paths.zarr"},
        {"equation": sl.catalogue.allen_cahn(5, times=[0.0, 0.1]), "scheme": "euler"},
    ],
    ids=str,
)  # fmt: skip
def test_bad_arguments(arguments):
    settings = {"equation": sl.catalogue.heat(n_modes=2), "n_paths": 2, **arguments}
    with pytest.raises(SpdeLawError, match=r"expected .* got .* Fix:"):
        sl.simulate(**settings)
