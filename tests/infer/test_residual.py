"""Memory of the residual learned from residuals: recovery, shrinking, the test of "auto", bands."""

import numpy as np
import pytest
import scipy
from tests.law.test_residual import HEAT, process, with_residual

import spdelaw as sl
from spdelaw.infer.residuals import memory_test
from spdelaw.law.residuals import AR1

TIMES = 0.5 * np.arange(600)


def fit(fields, residual="memory", **words):
    return sl.fit(fields, HEAT.domain, 2, residual=residual, nuisance=0, **words)


def test_decay_and_variance_per_point_are_recovered():
    """Two modes take a twentieth of the freedom of a residual at 40 points, the slow part first."""
    decay, variance = np.linspace(0.2, 1.0, 40), np.linspace(0.05, 0.2, 40)
    fields = with_residual(4, TIMES, decay, variance, 0.0, points=np.linspace(0.1, 3.0, 40))
    law = fit(fields, observation_noise="none")
    np.testing.assert_allclose(law.residual_memory.decay, decay, rtol=0.35)
    np.testing.assert_allclose(law.residual_memory.variance, variance, rtol=0.25)
    assert not law.residual_memory.white.any()


def test_white_noise_and_memory_are_told_apart_through_gaps_and_irregular_times():
    """The estimator itself, on residuals: 40 paths of 300 times, a third of them missing."""
    generator = np.random.default_rng(5)
    times = np.cumsum(generator.uniform(0.2, 1.8, 300))
    values = process(0.2, np.full(6, 0.5), times, 40, generator)
    values += np.sqrt(0.3) * generator.standard_normal(values.shape)
    values[generator.uniform(size=values.shape) < 1 / 3] = np.nan
    residual, given = AR1.fit(values, times, None), AR1.fit(values, times, 0.3)
    np.testing.assert_allclose(residual.decay, 0.2, rtol=0.2)
    np.testing.assert_allclose(residual.variance, 0.5, rtol=0.15)
    np.testing.assert_allclose(residual.white, 0.3, rtol=0.25)
    np.testing.assert_allclose(given.decay, 0.2, rtol=0.15)
    np.testing.assert_allclose(given.white, 0.3)


def test_auto_finds_memory_where_there_is_some_and_none_elsewhere():
    """White residuals under the null: 200 data sets, none may be called memory (rate 1e-4)."""
    generator = np.random.default_rng(7)
    mixing = generator.standard_normal((8, 8))
    for _ in range(200):
        white = generator.standard_normal((1, 60, 8)) @ mixing  # points alike, times not
        assert not memory_test(white)["found"]
    some = process(0.5, np.ones(8), np.arange(100.0), 1, generator) @ mixing
    assert memory_test(some)["found"]


@pytest.mark.parametrize(("decay", "answer"), [(0.4, "memory"), (None, "white")])
def test_auto_in_a_fit(decay, answer):
    law = fit(with_residual(2, TIMES, decay or 1.0, 0.1 if decay else 0.0, 0.02), "auto")
    assert law.info["residual"]["answer"] == answer
    assert (law.residual_memory is None) == (answer == "white")


def test_rest_is_the_earlier_name_of_residual():
    fields = with_residual(2, TIMES[:200], 0.4, 0.1, 0.02)
    words = {"mean": "zero", "initial": "stationary", "nuisance": 0}
    one, two = (
        sl.fit(fields, HEAT.domain, 2, **words, **{w: "memory"}) for w in ("rest", "residual")
    )
    np.testing.assert_array_equal(one.residual_memory.decay, two.residual_memory.decay)
    assert two.residual is two.residual_memory is two.rest
    assert sl.fit(fields, HEAT.domain, 2, residual="white", **words).residual.variance >= 0


def test_bands_hold_what_they_say():
    """Forecasts of one to eight steps from 60 origins of 4 paths, noise included.

    Values of one origin are dependent; the tolerance is five standard errors for 240 of them.
    """
    fields = with_residual(4, 0.5 * np.arange(900), 0.3, 0.15, 0.05, seed=3)
    law = fit(fields.isel(time=slice(400)), observation_noise="estimate")
    z = []
    for origin in range(400, 880, 8):
        ahead = fields.isel(time=slice(origin, origin + 8))
        got = law.forecast(fields.isel(time=slice(origin - 100, origin)), ahead.time.values)
        z.append((ahead.values - got["mean"].values) / got["std"].values)
    for level in (0.5, 0.8, 0.95):
        share = float((np.abs(z) <= scipy.special.ndtri(0.5 + level / 2)).mean())
        assert abs(share - level) < 5 * np.sqrt(level * (1 - level) / 240)


def test_gaps_are_filled_better_than_with_a_white_residual():
    fields = with_residual(2, TIMES, 0.2, 0.2, 0.0, seed=4)
    holes = sl.mask(fields, "random", fraction=0.2, seed=0)
    error = []
    for residual in ("memory", "white"):
        gap = fit(holes, residual).reconstruct(holes)["mean"] - fields
        error.append(float((gap**2).where(holes.isnull()).mean()))
    assert error[0] < 0.8**2 * error[1]
    chaos = fit(fields.isel(time=slice(60)), engine="chaos")
    assert chaos.residual_memory is not None


def test_the_default_is_auto_and_the_law_says_what_it_assumes():
    slow = sl.fit(with_residual(2, TIMES, 0.4, 0.1, 0.02), HEAT.domain, 2, nuisance=0)
    white = sl.fit(with_residual(2, TIMES, 1.0, 0.0, 0.02), HEAT.domain, 2, nuisance=0)
    assert slow.info["residual"]["word"] == white.info["residual"]["word"] == "auto"
    assert slow.info["assumed"].endswith("residual with memory at each point")
    assert white.info["assumed"].endswith("one observation noise, residual white")
    assert f"assumed: {white.info['assumed']}" in repr(white)


def test_no_memory_of_rounding():
    """Complete fields in the modes leave rounding, which is alike in time."""
    law = sl.fit(sl.simulate(HEAT, 20, seed=0), HEAT.domain, 2)
    assert law.info["residual"]["share"] < 1e-8
    assert law.residual_memory is None


def test_the_test_looks_at_some_values_and_the_memory_is_learned_from_all(monkeypatch):
    fields = with_residual(4, TIMES[:200], 0.4, 0.1, 0.02)
    whole = fit(fields, "auto")
    monkeypatch.setattr("spdelaw.infer.residuals.TESTED_VALUES", 150 * fields.sizes["x"])
    some = fit(fields, "auto")
    assert some.info["residual"]["correlation"] != whole.info["residual"]["correlation"]
    np.testing.assert_array_equal(some.residual_memory.decay, whole.residual_memory.decay)
