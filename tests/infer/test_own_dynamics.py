"""A user's own nonlinear dynamics, fitted through gaps: intervals and every verb of the law."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.errors import InputError
from spdelaw.processes import Dynamics, InitialState, Step
from spdelaw.testing import DynamicsContract, check_verbs

DOMAIN = sl.Interval(0, np.pi)


@dataclasses.dataclass(frozen=True, eq=False)
class Wells(Dynamics):
    """``dc = (growth c - c^3 + pull (c_next - c)) dt + dW``: wells that pull on one another."""

    growth: float
    pull: float
    noise: np.ndarray
    n_steps: int = 3
    name: ClassVar[str] = "wells"
    positive: ClassVar[tuple[str, ...]] = ("noise",)

    @property
    def n_modes(self):
        return len(self.noise)

    @property
    def parameters(self):
        return {"growth": self.growth, "pull": self.pull, "noise": self.noise}

    def drift(self, c):
        return self.growth * c - c**3 + self.pull * (np.roll(c, -1, axis=-1) - c)

    def moments(self, mean, covariance, t, dt):
        """Cubature: ``2 N`` points ``m +- sqrt(N) L_i`` with ``L L' = P`` move by Euler steps."""
        n, h, jitter = self.n_modes, dt / self.n_steps, 1e-12 * np.eye(self.n_modes)
        cross = covariance
        for _ in range(self.n_steps):
            root = np.sqrt(n) * np.linalg.cholesky(covariance + jitter).swapaxes(-1, -2)
            points = mean[..., None, :] + np.concatenate([root, -root], axis=-2)
            moved = points + h * self.drift(points)
            ahead = moved.mean(-2)
            before, after = points - mean[..., None, :], moved - ahead[..., None, :]
            slope = np.linalg.solve(covariance + jitter, before.swapaxes(-1, -2) @ after / (2 * n))
            cross = cross @ slope
            spread = after.swapaxes(-1, -2) @ after / (2 * n)
            mean, covariance = ahead, spread + h * np.diag(self.noise)
        return Step(mean, covariance, cross)

    def sample(self, state, t, dt, generator):
        h = dt / self.n_steps
        for _ in range(self.n_steps):
            noise = np.sqrt(h * self.noise) * generator.standard_normal(np.shape(state))
            state = state + h * self.drift(state) + noise
        return state


class TestWells(DynamicsContract):
    closure_error = 0.02

    def make_dynamics(self):
        return Wells(0.8, 0.4, np.array([0.3, 0.5]))


TRUTH = Wells(0.8, 0.4, np.array([0.3, 0.5]))
BEGIN = Wells(0.3, 0.1, np.array([1.0, 1.0]))


def made_by(dynamics, n_paths=16, n_times=31, seed=2):
    initial = InitialState("gaussian", np.array([0.5, -0.5]), np.array([0.2, 0.2]))
    empty = xr.Dataset(attrs={"interval_level": 0.95})
    times, points = np.linspace(0, 6, n_times), DOMAIN.grid(10)
    law = sl.Law(DOMAIN, 2, empty, dynamics, initial, np.array(0.01), times, points)
    return law.sample(n_paths, seed=seed, observation_noise=True)


@pytest.fixture(scope="module")
def gappy():
    return sl.mask(made_by(TRUTH), "random", 0.4, seed=0)


@pytest.fixture(scope="module")
def law(gappy):
    return sl.fit(gappy, DOMAIN, dynamics=BEGIN)


def test_intervals_hold_the_truth(law):
    for name, true in {**TRUTH.parameters, "observation_std": 0.1}.items():
        estimate, stderr, lower, upper = law.parameters[name].values.T
        assert (np.abs(estimate - true) < 3.5 * stderr).all(), name
        assert (lower < upper).all()
        assert (stderr < 0.5 * np.abs(true)).all(), name
    assert law.info["converged"]
    assert law.info["engine"] == "dynamics"
    assert "growth" in str(law)


def test_every_verb_runs_and_the_scores_are_calibrated(law, gappy):
    check_verbs(law, gappy)
    assert sl.evaluate(law, gappy).verdict.startswith("the model fits")
    new = made_by(TRUTH, 200, seed=5)
    ahead = law.forecast(new.isel(time=slice(0, 20)), new.time.values[20:23])
    z = (new.isel(time=slice(20, 23)) - ahead["mean"]) / np.sqrt(ahead["std_field"] ** 2 + 0.01)
    assert 0.85 < float((z**2).mean()) < 1.15


def test_numbers_that_are_held_or_have_a_prior(gappy):
    words = {"fixed": {"pull": 0.4, "noise[1]": 0.3}, "priors": {"growth": sl.Normal(0.8, 1e-3)}}
    law = sl.fit(gappy[:6], DOMAIN, 2, dynamics=BEGIN, initial="deterministic", **words)
    assert law.dynamics.pull == 0.4
    assert law.dynamics.noise[0] == pytest.approx(0.3)
    assert float(law.parameters.pull.sel(statistic="stderr")) == 0.0
    assert law.dynamics.growth == pytest.approx(0.8, abs=5e-3)
    assert law.initial.kind == "deterministic"


def test_clocks_of_each_path(law, gappy):
    clock = xr.DataArray(np.tile(gappy.time.values, (len(gappy), 1)), dims=("path", "time"))
    clock[1] += 1e-6
    own = gappy.drop_vars("time").assign_coords(path_time=clock)
    expected = law.log_likelihood(gappy)
    np.testing.assert_allclose(law.log_likelihood(own), expected, rtol=1e-5)


def test_one_path_alone():
    path = made_by(TRUTH, 1, 61)
    fixed = {"pull": 0.4, "noise": [0.3, 0.5], "observation_std": 0.1}
    law = sl.fit(path, DOMAIN, dynamics=BEGIN, fixed=fixed)
    assert law.initial.kind == "gaussian"
    growth = law.parameters.growth.values
    assert abs(growth[0] - 0.8) < 4 * growth[1]


@dataclasses.dataclass(frozen=True, eq=False)
class Decay(Dynamics):
    """``dc = -rate c dt + dW`` by one Euler step, with or without its gradients."""

    rate: float
    noise: np.ndarray
    has_gradients: bool = True
    name: ClassVar[str] = "decay"
    positive: ClassVar[tuple[str, ...]] = ("noise",)
    n_modes: ClassVar[int] = 2

    @property
    def parameters(self):
        return {"rate": self.rate, "noise": self.noise}

    def moments(self, mean, covariance, t, dt):
        f = 1.0 - self.rate * dt

        def back(by_mean, by_covariance, by_cross):
            by_f = (by_mean * mean).sum(-1)
            by_f += ((2.0 * f * by_covariance + by_cross) * covariance).sum((-1, -2))
            by_noise = dt * np.diagonal(by_covariance, axis1=-2, axis2=-1)
            before = f * f * by_covariance + f * by_cross
            return f * by_mean, before, {"rate": -dt * by_f, "noise": by_noise}

        spread = f * f * covariance + dt * np.diag(self.noise)
        return Step(f * mean, spread, f * covariance, back if self.has_gradients else None)

    def sample(self, state, t, dt, generator):
        noise = np.sqrt(dt * self.noise) * generator.standard_normal(np.shape(state))
        return (1.0 - self.rate * dt) * state + noise


class TestDecay(DynamicsContract):
    def make_dynamics(self):
        return Decay(0.8, np.array([0.3, 0.5]))


def test_gradients_replace_differences_of_the_value():
    """The same law, first states included."""
    data = sl.mask(made_by(Decay(0.8, np.array([0.3, 0.5]))), "random", 0.3, seed=1)
    laws = [
        sl.fit(data, DOMAIN, dynamics=Decay(0.4, np.ones(2), has_gradients))
        for has_gradients in (True, False)
    ]
    for name in laws[0].parameters:
        by_scores, by_values = (law.parameters[name].values for law in laws)
        np.testing.assert_allclose(by_scores, by_values, rtol=0.02, atol=1e-3, err_msg=name)
    rate, error = laws[0].parameters.rate.values[:2]
    assert abs(rate - 0.8) < 4.0 * error
    assert laws[0].info["converged"]


@dataclasses.dataclass(frozen=True, eq=False)
class OneByOne(Wells):
    """Moments of one state alone."""

    name: ClassVar[str] = "one_by_one"

    def moments(self, mean, covariance, t, dt):
        f = np.eye(2) - dt * np.diag(self.noise)
        return Step(f @ mean, f @ covariance @ f.T, covariance @ f.T)


@dataclasses.dataclass(frozen=True, eq=False)
class WithDrift(Wells):
    """A parameter under a name that the table of parameters has."""

    name: ClassVar[str] = "with_drift"

    @property
    def parameters(self):
        return {"drift": 1.0}


@pytest.mark.parametrize(
    ("words", "about", "fix"),
    [
        ({"dynamics": "wells"}, "dynamics", "extending.md"),
        ({"dynamics": OneByOne(0.1, 0.1, np.ones(2))}, "many states at once", "swapaxes"),
        ({"dynamics": WithDrift(0.1, 0.1, np.ones(2))}, "another name", "rename"),
        ({"dynamics": Wells(0.1, 0.1, -np.ones(2))}, "positive", "other numbers"),
        ({"dynamics": Wells(-1e5, 0.1, np.ones(2))}, "log-likelihood", "other values"),
        ({"dynamics": BEGIN, "n_modes": 3}, "n_modes", "leave it out"),
        ({"dynamics": BEGIN, "bootstrap": 5}, "bootstrap", "leave bootstrap out"),
        ({"dynamics": BEGIN, "initial": "stationary"}, "initial", "leave initial out"),
        ({"dynamics": BEGIN, "drift": "dense"}, "drift", "leave drift out"),
        ({"dynamics": BEGIN, "fixed": {"pul": 1.0}}, "one of", "groups"),
    ],
)
def test_refusals(gappy, words, about, fix):
    with pytest.raises(InputError, match=about) as error:
        sl.fit(gappy, DOMAIN, **words)
    assert fix in str(error.value)
