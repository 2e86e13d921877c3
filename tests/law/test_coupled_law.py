"""A law of coupled modes does all that a law does: the joint Gaussian in full, files, text."""

import importlib.util
from functools import cache

import numpy as np
import pytest
from scipy import linalg
from tests.infer.coupled import POINTS, RING, TIMES, N, equation, fields
from tests.law.laws import make, near, numbers
from tests.statespace import _brute_force as oracle

import spdelaw as sl
from spdelaw.errors import InputError, MissingExtraError
from spdelaw.law.derived import _operators_with_roots, _predictability_limit
from spdelaw.law.prediction import chaos_posterior

T = TIMES[:8]
PHI = RING.eigenfunctions(POINTS, N)


@cache
def law(noise: float = 0.2, drift: str = "dense", of_noise: str = "dense") -> sl.Law:
    return make(*near(equation(drift, of_noise)), noise**2, RING, POINTS, TIMES)


@cache
def fitted(noise: float) -> sl.Law:
    words = {"drift": "dense", "noise": "dense", "initial": "stationary"}
    words["observation_noise"] = "estimate" if noise else "none"
    return sl.fit(fields(equation("dense", "dense"), 40, std=noise), RING, N, **words)


@cache
def gappy():
    data = sl.simulate(equation("dense", "dense"), 3, T, POINTS, seed=9, observation_std=0.2)
    return sl.mask(data, "random", 0.4, seed=1)


def test_likelihood_reconstruction_and_forecast_are_those_of_the_joint_gaussian():
    later = np.array([0.8, 1.05])
    ahead, smooth = law().forecast(gappy(), later), law().reconstruct(gappy())
    logs = law().log_likelihood(gappy())
    t = np.append(T, later)
    for i, y in enumerate(gappy().values):
        expected = oracle.log_likelihood(numbers(law()), y, T, PHI)
        np.testing.assert_allclose(logs[i], expected, rtol=1e-9)
        wide = np.vstack([y, np.full((2, len(POINTS)), np.nan)])
        mean, covariance = oracle.smoothed(numbers(law()), wide, t, PHI)
        observe = np.kron(np.eye(len(t)), PHI)
        field = (observe @ mean).reshape(len(t), -1)
        std = np.sqrt(np.diag(observe @ covariance @ observe.T)).reshape(len(t), -1)
        for result, at in ((smooth, slice(-2)), (ahead, slice(-2, None))):
            np.testing.assert_allclose(result["mean"][i], field[at], atol=1e-8)
            np.testing.assert_allclose(result["std_field"][i], std[at], atol=1e-8)


def test_files_keep_everything(tmp_path):
    some = fitted(0.0)
    some.save(tmp_path / "some.law")
    again = sl.load(tmp_path / "some.law")
    assert again.parameters.identical(some.parameters)
    assert again.eigenmodes().equals(some.eigenmodes())
    assert repr(again) == repr(some)
    assert "e-folding time" in repr(some)
    assert "drift dense, noise dense" in repr(some)
    more = fields(equation("dense", "dense"), 10, seed=5)
    a, b = (sl.update(x, more).parameters["drift"].values for x in (some, again))
    np.testing.assert_allclose(a, b, atol=1e-9)


def test_scorecard_against_the_truth():
    e = equation("dense", "dense")
    for some, std in ((fitted(0.2), 0.2), (fitted(0.0), 0.0)):
        card = sl.evaluate(some, fields(e, 30, std=std, seed=7), truth=e)
        assert card.check.fits, card.verdict
        assert card.distance["largest_z"] < 4.5
        assert card.distance["n_undetermined"] == 0
        assert np.shape(card.distance["drift_z"]) == (N, N)
        assert card.distance["kl_per_path"] < 3 * card.distance["kl_limit"]


def test_arviz():
    if importlib.util.find_spec("arviz") is None:
        with pytest.raises(MissingExtraError, match=r"pip install 'spdelaw\[arviz\]'"):
            law().to_arviz()
        return
    posterior = law().to_arviz(n_draws=2000).posterior
    assert set(posterior.data_vars) >= {"noise_covariance", "observation_std"}
    assert posterior["drift"].dims == ("chain", "draw", "mode", "mode_2")
    table = law().parameters["drift"]
    mean = posterior["drift"].mean(("chain", "draw")).values
    gap = (mean - table.sel(statistic="estimate")) / table.sel(statistic="stderr")
    assert np.abs(gap).max() < 5 / np.sqrt(2000)


# -- chaos coordinates -------------------------------------------------------------------


def test_chaos_coordinates_of_coupled_noise():
    """All functions of time together give the field back."""
    e = equation("diagonal", "dense", 0.0)
    data = sl.simulate(e, 40, T, POINTS, seed=1)
    some = sl.fit(data, RING, N, noise="dense", engine="chaos")
    assert some.info["engine"] == "chaos"
    few, many = (chaos_posterior(some, data[:3], n_time=k) for k in (4, 60))
    errors = [np.abs(x.reconstruct_truncated - data[:3]).max().item() for x in (few, many)]
    assert errors[1] < 0.3 * errors[0]
    xi = chaos_posterior(some, data, n_time=4)["xi_mean"].values.reshape(40, -1)
    assert np.abs(xi.mean(0)).max() < 5 / np.sqrt(40)


def test_chaos_coordinates_of_a_coupled_drift():
    """They give back the field of the smoother as K grows, through gaps."""
    data = gappy()
    smoothed = law().reconstruct(data)["mean"]
    errors = [
        float(np.abs(chaos_posterior(law(), data, n_time=k).reconstruct_truncated - smoothed).max())
        for k in (4, 40)
    ]
    assert errors[1] < 0.4 * errors[0]


# -- what follows from drift and noise ------------------------------------------------------


def test_eigenmodes_of_the_drift():
    table = law().eigenmodes()
    mu = np.linalg.eigvals(law().dynamics.drift)
    mu = np.sort_complex(mu[mu.imag >= 0])
    estimate = table.sel(statistic="estimate")
    np.testing.assert_allclose(estimate["decay_rate"], mu.real)
    np.testing.assert_allclose(estimate["e_folding_time"], 1 / mu.real)
    np.testing.assert_allclose(estimate["frequency"], mu.imag, atol=1e-12)
    turning = mu.imag > 0
    np.testing.assert_allclose(estimate["period"][turning], 2 * np.pi / mu.imag[turning])
    assert np.isinf(estimate["period"][~turning]).all()
    pattern = table["pattern"].values
    np.testing.assert_allclose(law().dynamics.drift @ pattern.T, pattern.T * mu, atol=1e-10)


def test_standard_errors_of_eigenvalues_by_simulation():
    """Draws of the coordinates, mapped to eigenvalues: an independent way to the delta method."""
    some = law(0.2, "normal", "diagonal")
    c = some.coordinates
    rng = np.random.default_rng(0)
    small = 0.05  # so near that the map is linear
    draws = small * rng.multivariate_normal(np.zeros(c.sizes["coordinate"]), c["covariance"], 4000)
    moved = some.dynamics.drift + (draws @ c["jacobian"].values.T)[:, : N * N].reshape(-1, N, N)
    rates = np.sort(np.linalg.eigvals(moved).real, axis=1)[:, [0, 1, 3]]
    expected = some.eigenmodes().decay_rate.sel(statistic="stderr").values
    np.testing.assert_allclose(rates.std(0) / small, expected, rtol=0.06)


def test_spectra_of_diagonal_laws_in_closed_form():
    """Rate a: 1/a, q / 2a, q / (4 pi^2 f^2 + a^2), 1 - e^(-2 a t)."""
    e = sl.SpectralSPDE(RING, 3, [0.5, 1.0, 2.0], noise=[1.0, 0.5, 0.3], initial="stationary")
    some = make(*near(e), 0.0, RING, POINTS, TIMES)
    p = some.parameters
    lam, error = (p.eigenvalue.sel(statistic=s).values for s in ("estimate", "stderr"))
    q = p.noise_variance.sel(statistic="estimate").values
    modes = some.eigenmodes()
    order = np.argsort(lam)
    np.testing.assert_allclose(modes.e_folding_time[:, 0], 1 / lam[order])
    np.testing.assert_allclose(modes.decay_rate[:, 1], error[order], rtol=1e-6)
    stationary = some.stationary_covariance().sel(statistic="estimate").values
    np.testing.assert_allclose(np.diag(stationary), q / (2 * lam))
    power = some.power_spectrum([0.0, 0.7]).sel(statistic="estimate").values
    np.testing.assert_allclose(power[1], q / (4 * np.pi**2 * 0.49 + lam**2))
    lost = some.predictability([0.3, 1.0]).mode_error.sel(statistic="estimate").values
    np.testing.assert_allclose(lost[1], 1 - np.exp(-2 * lam), rtol=1e-9)
    growth = some.optimal_growth([0.3]).growth.values[0]
    np.testing.assert_allclose(growth[0], np.exp(-0.6 * lam.min()))
    slowest = error[lam.argmin()] * 0.6 * growth[0]
    np.testing.assert_allclose(growth[1], slowest, rtol=1e-3)


def test_power_integrates_to_the_stationary_variance():
    """With f = tan(angle) the midpoint rule over the circle converges like a Fourier series."""
    angle = np.pi * ((np.arange(200) + 0.5) / 200 - 0.5)
    power = law().power_spectrum(np.tan(angle)).sel(statistic="estimate").values
    total = (power / np.cos(angle)[:, None] ** 2).sum(0) * np.pi / 200
    p = np.diag(law().stationary_covariance().sel(statistic="estimate").values)
    np.testing.assert_allclose(total, p, rtol=1e-6)


def test_optimal_growth_is_reached_by_its_pattern():
    leads = np.array([0.0, 0.5, 2.0])
    growth = law().optimal_growth(leads)
    for i, lead in enumerate(leads):
        start = growth.initial_pattern.values[i]
        end = linalg.expm(-lead * law().dynamics.drift) @ start
        np.testing.assert_allclose(end, growth.final_pattern.values[i], atol=1e-10)
        np.testing.assert_allclose(end @ end, growth.growth.values[i, 0], rtol=1e-9)
    np.testing.assert_allclose(growth.growth.values[0], [1.0, 0.0, 1.0, 1.0], atol=1e-12)


def test_predictability_falls_to_one_half_at_its_limit():
    limit = law().predictability([1.0])["limit"].values
    assert limit[2] < limit[0] < limit[3]
    at = law().predictability([limit[0]])["error"].values[0, 0]
    np.testing.assert_allclose(at, 0.5, rtol=1e-8)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: law().predictability([-1.0]), "expected"),
        (lambda: law().optimal_growth([]), "expected"),
        (lambda: law().power_spectrum([np.nan]), "expected"),
    ],
)
def test_refusals(call, word):
    with pytest.raises(InputError, match=word):
        call()


def test_standard_error_of_the_limit_by_differences():
    """The limit of laws moved along one root of the covariance, solved anew."""
    some = law(0.2, "normal", "diagonal")
    expected = 0.0
    for a, b in zip(*_operators_with_roots(some)[2:], strict=True):
        step = 1e-3
        ends = [
            _predictability_limit(
                some.dynamics.drift + s * step * a, some.dynamics.noise + s * step * b
            )
            for s in (1, -1)
        ]
        expected += ((ends[0] - ends[1]) / (2 * step)) ** 2
    limit = some.predictability([1.0])["limit"].sel(statistic="stderr")
    np.testing.assert_allclose(limit, np.sqrt(expected), rtol=1e-3)
