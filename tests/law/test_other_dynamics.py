"""Dynamics that the package does not know: all that a law does, without a line in ``law/``.

The toy is a particle in a double well, ``dc = (a c - b c^3) dt + s dW``, one mode, by Euler steps;
its moments are those of a Gaussian, with ``E c^3 = m^3 + 3 m v`` and
``Cov(c, c^3) = 3 v (m^2 + v)``.
"""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
from tests.law.laws import INTERVAL, POINTS, make

import spdelaw as sl
from spdelaw.errors import EquationError, InputError
from spdelaw.law.parameters import Quantity, parameters_dataset
from spdelaw.processes.linear import Dynamics, Linear, Step, dynamics_from_dict
from spdelaw.processes.specification import InitialState

TIMES = np.linspace(0.0, 2.0, 21)
FALSE_ALARM = 1e-4


class DoubleWell(Dynamics):
    name: ClassVar[str] = "double well of a test"

    def __init__(self, a: float, b: float, s: float) -> None:
        self.a, self.b, self.s = a, b, s

    n_modes = 1

    @property
    def parameters(self):
        return {key: np.array([getattr(self, key)]) for key in ("a", "b", "s")}

    def moments(self, mean, covariance, t, dt):
        m, v = mean[..., 0], covariance[..., 0, 0]
        cross = v
        n = max(1, round(dt / 0.01))
        h = dt / n
        for _ in range(n):
            slope = 1.0 + h * (self.a - 3.0 * self.b * (m**2 + v))
            m = m + h * (self.a * m - self.b * (m**3 + 3.0 * m * v))
            v, cross = slope**2 * v + self.s**2 * h, slope * cross
        return Step(m[..., None], v[..., None, None], cross[..., None, None])

    def sample(self, state, t, dt, generator):
        n = max(1, round(dt / 0.01))
        h = dt / n
        for _ in range(n):
            z = generator.standard_normal(np.shape(state))
            state = state + h * (self.a * state - self.b * state**3) + self.s * np.sqrt(h) * z
        return state

    def leading(self, n):
        return self

    def to_dict(self):
        return {"a": self.a, "b": self.b, "s": self.s}

    @classmethod
    def from_dict(cls, description):
        return cls(**description)


def law(b: float = 1.0, variance: float = 0.01) -> sl.Law:
    start = InitialState("gaussian", np.array([0.2]), np.array([0.04]))
    numbers = {"a": 1.0, "b": b, "s": 0.3}
    rows = {k: Quantity(np.array([v]), np.array([0.1 * v]), True) for k, v in numbers.items()}
    rows["observation_std"] = Quantity(np.sqrt(variance), 0.01, True)
    table, well = parameters_dataset(rows, 0.95, {}), DoubleWell(**numbers)
    return make(well, start, variance, times=TIMES, parameters=table, info={"drift": None})


@pytest.fixture(scope="module")
def data():
    fields = law().sample(12, seed=3, observation_noise=True)
    return sl.mask(fields, "random", 0.2, seed=1)


def linear_twin() -> sl.Law:
    """The toy with b = 0 is linear: its Euler steps are the exact ones of another drift."""
    start = InitialState("gaussian", np.array([0.2]), np.array([0.04]))
    h, s = 0.01, 0.3
    drift = -np.log1p(h) / h
    noise = s**2 * h * 2 * drift / (1 - np.exp(-2 * drift * h))
    return make(Linear(np.array([drift]), np.array([noise])), start, 0.01, times=TIMES)


def test_samples_visit_both_wells():
    """No Gaussian has so little in the middle."""
    c = INTERVAL.analyse(law().sample(2000, [0.0, 8.0], seed=0), 1).values[:, 1, 0]
    assert (np.abs(c) < 0.3).mean() < 0.5 * (np.abs(np.abs(c) - 1.0) < 0.3).mean()


def test_without_its_cubic_it_is_the_linear_law(data):
    """One answer through the filter and through the exact chain."""
    toy, exact = law(b=0.0), linear_twin()
    np.testing.assert_allclose(toy.log_likelihood(data), exact.log_likelihood(data), rtol=1e-9)
    for method, arguments in (("reconstruct", ()), ("forecast", ([1.5, 2.5, 3.0],))):
        one, two = (getattr(some, method)(data, *arguments) for some in (toy, exact))
        np.testing.assert_allclose(one["mean"], two["mean"], atol=1e-9)
        np.testing.assert_allclose(one["std_field"], two["std_field"], atol=1e-9)


class OneByOne(DoubleWell):
    def moments(self, mean, covariance, t, dt):
        return super().moments(mean[0], covariance[0], t, dt)


def test_moments_of_one_state_alone_are_refused(data):
    with pytest.raises(EquationError, match="all states at once"):
        dataclasses.replace(law(), dynamics=OneByOne(1.0, 1.0, 0.3)).log_likelihood(data)


def test_forecast_and_its_draws(data):
    """Null: mean of the draws; within the history they are Gaussian, after it of the dynamics."""
    n = 2000
    result = law().forecast(data[:2], [1.0, 2.0, 2.05], n_samples=n, seed=1)
    draws = result["sample"]
    assert draws.dims == ("draw", "path", "time", "x")
    std = result["std_field"].values
    free = std > 1e-9
    z = (draws.mean("draw") - result["mean"]).values[free] / std[free] * np.sqrt(n)
    assert np.abs(z).max() < 6.0  # five sigma, and the closure of one short step
    late = law().forecast(data[:2], [12.0], n_samples=n, seed=1)["sample"]
    c = INTERVAL.analyse(late.stack(p=("draw", "path")).transpose("p", "time", "x").values, 1,
                         POINTS)  # fmt: skip
    assert (np.abs(np.abs(c) - 1.0) < 0.4).mean() > 0.6


def test_coverage_of_reconstructions():
    """Closure is an approximation: between 90 and 98 % inside 95 % intervals on 60 paths."""
    truth = law().sample(60, seed=9)
    seen = sl.mask(law().sample(60, seed=9, observation_noise=True), "rows", 0.5, seed=2)
    result = law().reconstruct(seen)
    hidden = np.isnan(seen.values) & (result["std_field"].values > 1e-6)
    inside = np.abs((truth - result["mean"]) / result["std_field"]).values[hidden] < 1.96
    assert 0.90 < inside.mean() < 0.98


def test_files_and_text(data, tmp_path):
    law().save(tmp_path / "well.law")
    again = sl.load(tmp_path / "well.law")
    assert isinstance(again.dynamics, DoubleWell)
    logs = law().log_likelihood(data)
    assert logs.attrs == {"of": "values", "count": int(data.notnull().sum())}
    np.testing.assert_array_equal(again.log_likelihood(data), logs)
    np.testing.assert_array_equal(again.sample(2, seed=5), law().sample(2, seed=5))
    with pytest.raises(EquationError, match="import the package that defines it"):
        dynamics_from_dict("unknown", {})
    for word in ("1 modes", "0.3 [0.2466, 0.365]", "observation noise"):
        assert word in repr(again)
    assert "<table>" in again._repr_html_()


def test_what_needs_a_linear_law_says_so():
    some = law()
    for call in (
        some.eigenmodes,
        some.stationary_covariance,
        lambda: some.power_spectrum([0.1]),
        lambda: some.predictability([0.1]),
        lambda: some.optimal_growth([0.1]),
        lambda: some.kl_divergence(sl.catalogue.heat(1)),
        lambda: some.equation,
    ):
        with pytest.raises(InputError, match="a linear law"):
            call()


def test_checks_and_scores(data):
    card = sl.evaluate(law(), law().sample(20, seed=7, observation_noise=True))
    assert card.check.fits, card.verdict
    assert 0.9 < card.tiers["gaps"].coverage < 0.99
    assert np.isfinite(card.check.innovations).mean() > 0.9


def test_report(data, tmp_path):
    pytest.importorskip("plotly")
    page = sl.report.write_report(tmp_path / "well.html", law(), data).read_text()
    assert "double well of a test" in page
    assert 'id="calibration"' in page
    assert "Eigenvalues (left)" not in page
