"""Searches that end, short or not, and numbers that cannot be factorised: a law or one error."""

import dataclasses
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import rosen, rosen_der
from tests.fitted import INTERVAL, small

import spdelaw as sl
from spdelaw.data.observed import observe
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.infer import optimise as optimise_module
from spdelaw.infer.assemble import _decaying
from spdelaw.infer.engines.filter_route import build_objective
from spdelaw.infer.model import Model
from spdelaw.infer.objective import _root_of_inverse
from spdelaw.infer.optimise import (
    MINIMUM_EVALUATIONS,
    SEARCH_SECONDS,
    Counted,
    difference_information,
    maximise,
)
from spdelaw.infer.parameters import Covariance, OperatorTied, Stable
from spdelaw.infer.pipeline import clear_errors
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear
from spdelaw.processes.specification import InitialState
from spdelaw.statespace.chain import StateSpace

HEAT = sl.catalogue.heat(n_modes=3)


def search(objective, scale, seconds=0.0, **words):
    """Maximise a bare function, with a curvature that has to be differenced."""
    scale = np.ones(scale) if np.ndim(scale) == 0 else scale
    posterior = SimpleNamespace(
        at=lambda x: (*objective(x), None),
        scale=scale,
        n_plain=len(scale),
        seconds=seconds,
        maximum_by_scores=lambda: None,
        exact_information=lambda x: None,
        expected_information=lambda x: None,
    )

    def differenced_information(score, x, scale):
        information = difference_information(score, x, scale, len(x), lambda x: np.zeros((0, 0)))
        return information, np.zeros((0, len(x)))

    posterior.differenced_information = differenced_information
    return maximise(posterior, **words)


def test_a_saddle_is_left_for_the_maximum():
    """``-(x^2 - 9)^2 / 40 - y^2 / 2`` from its saddle at the origin to ``x = +-3``."""

    def objective(z):
        x, y = z + np.array([1e-6, 0.0])
        return -((x**2 - 9) ** 2) / 40 - y**2 / 2, np.array([-x * (x**2 - 9) / 10, -y])

    optimum = search(objective, 2)
    assert optimum.converged
    assert optimum.note is None
    np.testing.assert_allclose(np.abs(optimum.x), [3.0, 0.0], atol=1e-5)


def test_a_likelihood_without_a_maximum_is_said_to_have_none(monkeypatch):
    """A variance that runs off to zero: the logarithm rises until numbers overflow."""

    def objective(x):
        if x[0] > 700:
            raise OverflowError
        return float(x[0]), np.ones(1)

    optimum = search(objective, 1)
    assert not optimum.converged
    assert "keeps increasing along one direction" in optimum.note
    monkeypatch.setattr(optimise_module, "MOST_ITERATIONS", 3)
    optimum = search(lambda x: (np.logaddexp(0.0, x).sum(), 1.0 / (1.0 + np.exp(-x))), 2)
    assert not optimum.converged
    assert optimum.note


def test_what_cannot_be_computed_sends_the_search_back():
    """``log x - x`` from 1/2, with the errors of libraries beyond the edge at zero."""

    def objective(z):
        x = 0.5 + z[0]
        if x <= 0:
            raise OverflowError if x > -1 else ValueError("array must not contain infs or NaNs")
        return float(np.log(x) - x), np.array([1 / x - 1])

    np.testing.assert_allclose(0.5 + search(objective, 1).x, 1.0, atol=1e-6)


def test_no_likelihood_at_all_is_an_error_with_advice():
    with pytest.raises(ConvergenceError) as caught:
        search(lambda x: (np.nan, np.full_like(x, np.nan)), 2)
    for word in ("fit fewer modes", "fix or tie", "prior", "unit of time"):
        assert word in caught.value.fix


def test_a_search_of_slow_evaluations_is_bounded_and_keeps_its_best():
    calls = []

    def banana(x):
        """A curved ridge in 80 dimensions, its end at one."""
        calls.append(x)
        return -1e3 * rosen(x), -1e3 * rosen_der(x)

    def climb(seconds, **words):
        calls.clear()
        return search(banana, np.full(80, 0.1), seconds, **words), len(calls)

    free, many = climb(0.0, polish=False)
    bound, few = climb(SEARCH_SECONDS, polish=False)  # one evaluation would take all of it
    assert many > 2 * MINIMUM_EVALUATIONS
    assert few < 1.3 * MINIMUM_EVALUATIONS
    assert banana(np.zeros(80))[0] < bound.value <= free.value
    short, _ = climb(SEARCH_SECONDS)
    assert not short.converged
    assert "the optimiser stopped" in short.note
    assert "anomalies" in short.note


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


@pytest.mark.parametrize("error", [np.linalg.LinAlgError, OverflowError, FloatingPointError])
def test_no_error_of_a_library_leaves_a_fit(error, monkeypatch):
    def fails(*arguments, **words):
        raise error("deep inside")

    monkeypatch.setattr("spdelaw.infer.engines.exact.maximum_likelihood", fails)
    with pytest.raises(ConvergenceError, match="deep inside") as caught:
        sl.fit(sl.simulate(HEAT, 5, seed=0), HEAT.domain, 3)
    assert isinstance(caught.value.__cause__, error)
    plain = ConvergenceError("fit", expected="a", got="b", fix="c")
    with pytest.raises(ConvergenceError) as caught, clear_errors():
        raise plain
    assert caught.value is plain


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
    # The diagonal of a stable matrix need not be positive: nuisance modes started from NaN.
    tied = OperatorTied((1.0, 4.0, 9.0))
    assert (tied.values(tied.start(np.array([1.0, -0.5, 2.0]))) > 0).all()


def test_the_point_where_a_search_ends_is_not_computed_again():
    points = []

    def parabola(x):
        points.append(x.copy())
        return -float(x @ x), -2.0 * x

    counted, at = Counted(parabola), np.ones(2)
    first, again = counted(at), counted(at.copy())
    assert again == first
    assert counted.calls == len(points) == 1
    at += 1.0  # in place: another point
    assert counted(at)[0] == -8.0
    other = counted(at, lambda x: (7.0, x))  # of another objective
    assert (other[0], counted.calls) == (7.0, 3)


def test_a_long_search_tells_how_far_it_is(monkeypatch, capsys):
    fields, states = small(4, noise=0.05), []
    monkeypatch.setattr(optimise_module, "PATIENCE", 0.0)
    monkeypatch.setattr(optimise_module, "REPORT_INTERVAL", 0.0)
    law = sl.fit(fields, INTERVAL, 3, mean="zero", progress=states.append)
    assert [state.evaluations for state in states] == list(range(1, len(states) + 1))
    assert len(states) >= law.info["convergence"]["evaluations"]
    assert max(state.log_likelihood for state in states) >= states[-1].log_likelihood
    sl.fit(fields, INTERVAL, 3, mean="zero")
    assert capsys.readouterr().err == ""
    sl.fit(fields, INTERVAL, 3, mean="zero", progress=True)
    assert "evaluations  log-likelihood" in capsys.readouterr().err
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


@pytest.mark.slow
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


# -- errors supposed too large -----------------------------------------------------------------


def test_a_coordinate_known_far_better_than_supposed_hides_no_other():
    """``-(x - y)^2 / 2 - 1e-3 y^2 / 2 - (1e3 z)^2 / 2`` with errors of 1, 1 and 10 supposed.

    Beside 1e8 for the third, the least information, 5e-4, was taken for none, and the standard
    errors of the first two for a thousand times what they are.
    """
    information = np.array([[1.0, -1.0, 0.0], [-1.0, 1.001, 0.0], [0.0, 0.0, 1e6]])
    scale = np.array([1.0, 1.0, 10.0])
    optimum = search(lambda x: (-0.5 * float(x @ information @ x), -information @ x), scale)
    np.testing.assert_allclose(optimum.information, information, atol=1e-6 * 1e6)
    for one in (optimum, optimum._replace(hessian=None)):
        root = _root_of_inverse(one, scale)
        np.testing.assert_array_equal(root, np.tril(root))
        np.testing.assert_allclose(root @ root.T, np.linalg.inv(information), rtol=1e-6, atol=1e-12)


def test_differences_are_over_standard_errors_not_over_what_was_supposed():
    """``-cosh(100 x)``, curvature 1e4 at its maximum, with an error of 10 supposed, not of 0.01."""

    def objective(x):
        return -float(np.cosh(100.0 * x[0])), -100.0 * np.sinh(100.0 * x)

    np.testing.assert_allclose(search(objective, np.array([10.0])).information, [[1e4]], rtol=1e-3)


@pytest.mark.slow
def test_expected_curvature_is_that_of_differences():
    """Of a long noisy record of coupled modes, each direction to a quarter.

    Null: standard errors of a curvature of 3,000 rows are some percent.
    """
    times, points = 0.2 * np.arange(3000), np.linspace(0.1, 3.0, 12)
    fields = sl.simulate(sl.catalogue.heat(2), 1, times, points, seed=0, observation_std=0.2)
    model = Model(drift="dense", mean="zero", initial="stationary", nuisance=0)
    problem = build_objective(observe(fields, INTERVAL), 2, model)
    posterior = problem.posterior(problem.run().full)
    expected = posterior.expected_information(np.zeros(len(posterior.scale)))
    rows = [
        (posterior.at(-s)[1] - posterior.at(s)[1]) / (2.0 * s.max())
        for s in np.diag(1e-3 * posterior.scale)
    ]  # fmt: skip
    ratios = np.linalg.eigvals(np.linalg.solve(expected, np.array(rows))).real
    assert (np.abs(np.log(ratios)) < np.log(1.25)).all()


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ({"drift": "dense"}, "differenced"),
        ({"drift": "dense"}, "expected"),
        ({"drift": "dense", "noise": "dense", "initial": "deterministic"}, "analytic"),
    ],
)
def test_a_law_says_how_its_standard_errors_were_made(monkeypatch, words, kind):
    if kind == "expected":
        monkeypatch.setattr(optimise_module, "DIFFERENCE_SECONDS", 0.0)
        monkeypatch.setattr(optimise_module, "SLOW", 0.0)
    times, points = np.arange(60) / 20, np.linspace(0.1, 3, 7)
    std = 0.0 if kind == "analytic" else 0.2
    fields = sl.simulate(sl.catalogue.heat(2), 3, times, points, seed=0, observation_std=std)
    if kind != "analytic":
        fields = sl.mask(fields, "random", 0.2, seed=0)
    words = {"mean": "zero", "nuisance": 0, "initial": "stationary", **words}
    law = sl.fit(fields, INTERVAL, 2, **words)
    assert law.info["standard_errors"] == kind
    assert ("standard errors use the expected information" in repr(law)) == (kind == "expected")


# -- laws without decay ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stationary", "gaussian"])
@pytest.mark.parametrize("decay", [-3e-16, 1e-12])
def test_a_cycle_without_decay_is_a_law(kind, decay):
    """Raw sea-surface temperatures of 8 dense modes had a decay of -3e-16, and no file to load."""
    drift = np.array([[decay, 0.5, 0.0], [-0.5, decay, 0.1], [0.0, 0.0, 0.2]])
    start = InitialState(kind, np.zeros(3), np.eye(3))
    space = _decaying(StateSpace(Linear(drift, np.ones(3)), start, np.asarray(0.0)))
    stable = space.linear.drift
    assert (np.linalg.eigvals(stable).real > 0).all()
    np.testing.assert_allclose(stable, drift, atol=1e-8)
    assert sl.SpectralSPDE(INTERVAL, 3, stable, noise=np.ones(3), initial="stationary")
    p = space.initial.covariance
    if kind == "stationary":  # Lambda P + P Lambda' = Q
        np.testing.assert_allclose(stable @ p + p @ stable.T, np.eye(3), atol=1e-5)
    else:
        np.testing.assert_array_equal(p, np.eye(3))
    assert _decaying(space) is space  # what decays is left alone
