"""Searches that end short, and numbers that cannot be factorised: a law or one clear error."""

import dataclasses
import warnings

import numpy as np
import pytest
import xarray as xr
from tests.infer.objectives import as_posterior
from tests.infer.recovery import INTERVAL, small

import spdelaw as sl
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.infer import optimise as optimise_module
from spdelaw.infer.objective import _root_of_inverse
from spdelaw.infer.optimise import maximise
from spdelaw.infer.parameters import Covariance, OperatorTied, Stable
from spdelaw.infer.pipeline import clear_errors
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear

HEAT = sl.catalogue.heat(n_modes=3)


def search(objective, size):
    return maximise(as_posterior(objective, np.ones(size)))


def test_a_saddle_is_left_for_the_maximum():
    """``-(x^2 - 9)^2 / 40 - y^2 / 2`` from its saddle at the origin to ``x = +-3``."""

    def objective(z):
        x, y = z + np.array([1e-6, 0.0])
        return -((x**2 - 9) ** 2) / 40 - y**2 / 2, np.array([-x * (x**2 - 9) / 10, -y])

    found = search(objective, 2)
    assert found.converged
    assert found.note is None
    np.testing.assert_allclose(np.abs(found.x), [3.0, 0.0], atol=1e-5)


def test_a_likelihood_without_a_maximum_is_said_to_have_none():
    """A variance that runs off to zero: the logarithm rises until numbers overflow."""

    def objective(x):
        if x[0] > 700:
            raise OverflowError
        return float(x[0]), np.ones(1)

    found = search(objective, 1)
    assert not found.converged
    assert "without end" in found.note


def test_what_cannot_be_computed_sends_the_search_back():
    """``log x - x`` from 1/2, with the errors of libraries beyond the edge at zero."""

    def objective(z):
        x = 0.5 + z[0]
        if x <= 0:
            raise OverflowError if x > -1 else ValueError("array must not contain infs or NaNs")
        return float(np.log(x) - x), np.array([1 / x - 1])

    np.testing.assert_allclose(0.5 + search(objective, 1).x, 1.0, atol=1e-6)


def test_no_likelihood_at_all_is_an_error():
    with pytest.raises(ConvergenceError, match="fit fewer modes"):
        search(lambda x: (np.nan, np.full(1, np.nan)), 1)


def test_a_search_that_ends_short_returns_its_law(tmp_path):
    """Three increments of three coupled modes: the covariance of their noise has no maximum."""
    fields = sl.simulate(HEAT, 1, np.linspace(0, 1, 4), seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        law = sl.fit(fields, HEAT.domain, 3, drift="dense", noise="dense", mean="zero")
    assert law.info["converged"] is False
    assert law.info["convergence"]["remaining_gain"] > 0
    assert any("fit fewer modes" in note for note in law.info["warnings"])
    assert "fit fewer modes" in repr(law)
    law.save(tmp_path / "law")
    assert sl.load(tmp_path / "law").info.converged is False
    whole = sl.simulate(HEAT, 20, np.linspace(0, 1, 11), seed=1)
    assert sl.fit(whole, HEAT.domain, 3, mean="zero").info["converged"] is True


@pytest.mark.parametrize("error", [np.linalg.LinAlgError, OverflowError, FloatingPointError])
def test_no_error_of_a_library_leaves_a_fit(error, monkeypatch):
    def fails(*arguments, **settings):
        raise error("deep inside")

    monkeypatch.setattr("spdelaw.infer.engines.exact.maximum_likelihood", fails)
    fields = sl.simulate(HEAT, 5, seed=0)
    with pytest.raises(ConvergenceError, match="deep inside") as caught:
        sl.fit(fields, HEAT.domain, 3)
    assert isinstance(caught.value.__cause__, error)


def test_own_errors_pass_the_door_as_they_are():
    error = ConvergenceError("fit", expected="a", got="b", fix="c")
    with pytest.raises(ConvergenceError) as caught, clear_errors():
        raise error
    assert caught.value is error


def test_starts_are_stable_and_positive():
    """The leading block of a stable matrix need not be stable; rounding makes variances vanish."""
    whole = np.array([[-0.1, 2.0], [-2.0, 1.0]])
    assert (np.linalg.eigvals(whole).real > 0).all()
    block = operators.block_diagonal(whole[:1, :1], np.array([1.5]))
    drift = Stable((1.0, 2.0))
    assert (operators.decay_rates(drift.values(drift.start(block))) > 0).all()
    np.testing.assert_allclose(drift.values(drift.start(whole)), whole, rtol=1e-12, atol=1e-12)
    singular = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, -1e-17]])
    noise = Covariance("noise_root", (1.0, 1.0, 1.0))
    near = noise.values(noise.start(singular))
    assert (np.linalg.eigvalsh(near) > 0).all()
    np.testing.assert_allclose(near, singular, atol=1e-7)


def test_a_long_search_tells_how_far_it_is(monkeypatch, capsys):
    fields, told = small(4, noise=0.05), []
    monkeypatch.setattr(optimise_module, "PATIENCE", 0.0)
    monkeypatch.setattr(optimise_module, "EVERY", 0.0)
    law = sl.fit(fields, INTERVAL, 3, mean="zero", progress=told.append)
    counts = [state.evaluations for state in told]
    assert counts == list(range(1, len(told) + 1))
    assert len(told) >= law.info["convergence"]["evaluations"]
    assert max(state.log_likelihood for state in told) >= told[-1].log_likelihood
    sl.fit(fields, INTERVAL, 3, mean="zero", progress=True)
    assert "evaluations  log-likelihood" in capsys.readouterr().err
    sl.fit(fields, INTERVAL, 3, mean="zero")
    assert capsys.readouterr().err == ""
    with pytest.raises(InputError, match="progress"):
        sl.fit(fields, INTERVAL, 3, progress="loud")


def _ou(lam, q, paths, times, dt, start, seed):
    """Single modes from a known start, (path, time, mode)."""
    rng, a = np.random.default_rng(seed), np.exp(-lam * dt)
    size = np.sqrt(q * (1 - a**2) / (2 * lam))
    c = [np.broadcast_to(start, (paths, len(lam)))]
    for _ in range(times - 1):
        c.append(a * c[-1] + size * rng.standard_normal(c[0].shape))
    return np.stack(c, 1)


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
def test_three_points_of_a_sphere_at_a_time_without_noise():
    """Rows that fix some of the modes to all digits once had no likelihood at all."""
    domain, rng = sl.Sphere(), np.random.default_rng(5)
    lat, lon = np.linspace(-75, 75, 6), np.arange(0.0, 360.0, 45.0)
    lam, q, start = np.array([1.0, 4.0, 4.0, 4.0]), np.array([4.0, 2.0, 1.3, 1.0]), np.ones(4)
    c = _ou(lam, q, 8, 25, 0.7, start, 0)
    points = np.stack([x.ravel() for x in np.meshgrid(lat, lon, indexing="ij")], -1)
    values = c @ domain.eigenfunctions(points, 4).T
    values[rng.random(values.shape) < 0.95] = np.nan
    coords = {"path": np.arange(8), "time": 0.7 * np.arange(25), "lat": lat, "lon": lon}
    fields = xr.DataArray(values.reshape(8, 25, 6, 8), coords, ("path", "time", "lat", "lon"))
    words = {"initial": "deterministic", "observation_noise": "none", "nuisance": 0}
    law = sl.fit(fields, domain, 4, drift="parametric", mean="zero", **words)
    initial = law.initial._replace(mean=start)
    true = dataclasses.replace(law, dynamics=Linear(lam, q), initial=initial)
    assert float((law.log_likelihood(fields) - true.log_likelihood(fields)).sum()) > -0.5


# ------------------------------------------------------------------ errors supposed too large


def test_a_coordinate_known_far_better_than_supposed_hides_no_other():
    """``-(x - y)^2 / 2 - 1e-3 y^2 / 2 - (1e3 z)^2 / 2`` with errors of 1, 1 and 10 supposed.

    Beside 1e8 for the third, the least information, 5e-4, was taken for none, and the standard
    errors of the first two for a thousand times what they are.
    """
    information = np.array([[1.0, -1.0, 0.0], [-1.0, 1.001, 0.0], [0.0, 0.0, 1e6]])

    def objective(x):
        return -0.5 * float(x @ information @ x), -information @ x

    scale = np.array([1.0, 1.0, 10.0])
    found = maximise(as_posterior(objective, scale))
    np.testing.assert_allclose(found.information, information, atol=1e-6 * 1e6)
    for own in (found, found._replace(bend=None)):
        root = _root_of_inverse(own, scale)
        np.testing.assert_array_equal(root, np.tril(root))
        np.testing.assert_allclose(root @ root.T, np.linalg.inv(information), rtol=1e-6, atol=1e-12)


def test_differences_are_over_standard_errors_not_over_what_was_supposed():
    """``-cosh(100 x)``, curvature 1e4 at its maximum, with an error of 10 supposed, not of 0.01."""

    def objective(x):
        return -float(np.cosh(100.0 * x[0])), -100.0 * np.sinh(100.0 * x)

    found = maximise(as_posterior(objective, np.array([10.0])))
    np.testing.assert_allclose(found.information, [[1e4]], rtol=1e-3)


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
def test_standard_errors_beside_nuisance_modes():
    """Intervals of reported modes are those of the differenced likelihood around its maximum.

    Six modes at scattered points with gaps, two of them reported: the diffusivity of the others is
    known 300 times better than supposed at the start, and errors of the reported ones came out as
    hundreds of units of their logarithm.
    """
    rng = np.random.default_rng(0)
    points, heat = np.sort(rng.uniform(0.1, 3.0, 15)), sl.catalogue.heat(n_modes=6)
    heat = dataclasses.replace(heat, initial="stationary")
    fields = sl.simulate(heat, 4, np.linspace(0, 3, 121), points, seed=0, observation_std=0.02)
    law = sl.fit(
        sl.mask(fields, "random", 0.1, seed=0), heat.domain, 2, nuisance=4, initial="stationary",
        mean="zero",
    )  # fmt: skip
    relative = law.parameters["eigenvalue"].sel(statistic="stderr") / heat.eigenvalues[:2]
    # That of paths that are seen throughout is sqrt(2 / (lambda T P)).
    seen = np.sqrt(2.0 / (heat.eigenvalues[:2] * 3.0 * 4))
    assert (relative > 0.5 * seen).all()
    assert (relative < 2.0 * seen).all()


def test_a_start_from_a_diagonal_that_is_not_positive():
    """The diagonal of a stable matrix need not be: nuisance modes started from NaN."""
    tied = OperatorTied((1.0, 4.0, 9.0))
    assert np.isfinite(tied.start(np.array([1.0, -0.5, 2.0]))).all()
    assert (tied.values(tied.start(np.array([1.0, -0.5, 2.0]))) > 0).all()
