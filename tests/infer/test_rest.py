"""Memory of the rest learned from residuals: recovery, shrinking, the test of "auto", bands."""

import numpy as np
import pytest
import scipy
from tests.law.test_rest import HEAT, POINTS, process, with_residual

import spdelaw as sl
from spdelaw.errors import InputError
from spdelaw.infer.model import Model
from spdelaw.law.observations import noise_at

TIMES = 0.5 * np.arange(600)


def test_decay_and_variance_per_point_are_recovered():
    """Two modes take a twentieth of the freedom of a rest at 40 points, the slow part first."""
    decay = np.linspace(0.2, 1.0, 40)
    variance = np.linspace(0.05, 0.2, 40)
    points = np.linspace(0.1, 3.0, 40)
    fields = with_residual(4, TIMES, decay, variance, 0.0, points=points)
    law = sl.fit(fields, HEAT.domain, 2, rest="memory", observation_noise="none", nuisance=0)
    np.testing.assert_allclose(law.rest.decay, decay, rtol=0.35)
    np.testing.assert_allclose(law.rest.variance, variance, rtol=0.25)
    assert not law.rest.white.any()


def test_white_noise_and_memory_are_told_apart_through_gaps_and_irregular_times():
    """The estimator itself, on residuals: 40 paths of 300 times, a third of them missing."""
    from spdelaw.infer.residuals import learn_residual

    generator = np.random.default_rng(5)
    times = np.cumsum(generator.uniform(0.2, 1.8, 300))
    seen = process(0.2, np.full(6, 0.5), times, 40, generator)
    seen += np.sqrt(0.3) * generator.standard_normal(seen.shape)
    seen[generator.uniform(size=seen.shape) < 1 / 3] = np.nan
    rest = learn_residual(seen, times, None)
    np.testing.assert_allclose(rest.decay, 0.2, rtol=0.2)
    np.testing.assert_allclose(rest.variance, 0.5, rtol=0.15)
    np.testing.assert_allclose(rest.white, 0.3, rtol=0.25)
    known = learn_residual(seen, times, 0.3)
    np.testing.assert_allclose(known.decay, 0.2, rtol=0.15)
    np.testing.assert_allclose(known.white, 0.3)


def test_points_with_few_values_are_drawn_to_the_others():
    from spdelaw.infer.residuals import learn_residual

    generator = np.random.default_rng(6)
    times = np.arange(400.0)
    seen = process(0.25, np.ones(30), times, 1, generator)
    seen[:, 12:, 0] = np.nan  # twelve values
    seen[:, :, 1] = np.nan  # none
    rest = learn_residual(seen, times, 0.0)
    middle = np.median(rest.decay)
    assert middle == pytest.approx(0.25, rel=0.15)
    np.testing.assert_allclose(rest.decay[:2], middle, rtol=0.4)
    assert 0.5 < rest.variance[1] < 2.0


def test_auto_finds_memory_where_there_is_some_and_none_elsewhere():
    """White residuals under the null: 200 data sets, none may be called memory (rate 1e-4)."""
    from spdelaw.infer.residuals import memory_test

    generator = np.random.default_rng(7)
    mixing = generator.standard_normal((8, 8))
    for _ in range(200):
        white = generator.standard_normal((1, 60, 8)) @ mixing  # points alike, times not
        assert not memory_test(white)["found"]
    some = process(0.5, np.ones(8), np.arange(100.0), 1, generator) @ mixing
    assert memory_test(some)["found"]


@pytest.mark.parametrize(("decay", "answer"), [(0.4, "memory"), (None, "white")])
def test_auto_in_a_fit(decay, answer):
    fields = with_residual(2, TIMES, decay or 1.0, 0.1 if decay else 0.0, 0.02)
    law = sl.fit(fields, HEAT.domain, 2, rest="auto", nuisance=0)
    assert law.info["rest"]["answer"] == answer
    assert (law.rest is None) == (answer == "white")


def test_bands_hold_what_they_say():
    """Forecasts of one to eight steps from 60 origins of 4 paths, noise included.

    Values of one origin are dependent; the tolerance is five standard errors for 240 of them.
    """
    fields = with_residual(4, 0.5 * np.arange(900), 0.3, 0.15, 0.05, seed=3)
    past = fields.isel(time=slice(400))
    law = sl.fit(past, HEAT.domain, 2, rest="memory", observation_noise="estimate", nuisance=0)
    noise = noise_at(law, POINTS)
    z = []
    for origin in range(400, 880, 8):
        ahead = fields.isel(time=slice(origin, origin + 8))
        got = law.forecast(fields.isel(time=slice(origin - 100, origin)), ahead.time.values)
        z.append((ahead.values - got["mean"].values) / np.sqrt(got["std"].values ** 2 + noise))
    z = np.abs(np.array(z))
    for level in (0.5, 0.8, 0.95):
        share = float((z <= scipy.special.ndtri(0.5 + level / 2)).mean())
        assert abs(share - level) < 5 * np.sqrt(level * (1 - level) / 240)


def test_gaps_are_filled_better_than_with_a_white_rest():
    fields = with_residual(2, TIMES, 0.2, 0.2, 0.0, seed=4)
    holes = sl.mask(fields, "random", fraction=0.2, seed=0)
    hidden = np.isnan(holes.values)
    error = {}
    for rest in ("white", "memory"):
        law = sl.fit(holes, HEAT.domain, 2, rest=rest, nuisance=0)
        found = law.reconstruct(holes)["mean"].values
        error[rest] = np.sqrt(np.mean((found - fields.values)[hidden] ** 2))
    assert error["memory"] < 0.8 * error["white"]


def test_every_engine_takes_it():
    fields = with_residual(4, 0.5 * np.arange(60), 0.4, 0.09, 0.0)
    law = sl.fit(fields, HEAT.domain, 2, rest="memory", engine="chaos", nuisance=0)
    assert law.rest is not None


def test_an_unknown_word_is_refused():
    with pytest.raises(InputError, match="one of"):
        Model(rest="pink")
