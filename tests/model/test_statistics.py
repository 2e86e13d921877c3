"""Sufficient statistics of complete, noise-free fields."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from tests.model import _brute_force as oracle
from tests.model.cases import KINDS, STRUCTURES, basis, draw, parameters
from tests.model.numbers import evaluate_statistics, white_noise_z
from tests.model.test_likelihood import FORCING, check_score

from spdelaw.errors import DataError
from spdelaw.model import collect
from spdelaw.model._step_sums import around

EXACT = 1e-10
SCORE_TOLERANCE = 1e-6
FALSE_ALARM = 1e-4
TIMES = np.array([0.0, 0.1, 0.35, 0.5, 0.9, 1.0])


def fields(kind, n_paths=6, orthogonal=False, seed=0, noise=0.0, structure="diagonal", **extra):
    rng = np.random.default_rng(seed)
    p, phi = parameters(kind, structure=structure), basis(orthogonal)
    p = p._replace(observation_variance=np.asarray(noise**2), **extra)
    return p, np.stack([draw(p, TIMES, phi, rng) for _ in range(n_paths)]), phi


def statistics(values, phi, chunks=1, pairs=True):
    parts = np.array_split(values, chunks)
    return collect(parts, TIMES, np.linalg.pinv(phi), phi, pairs=pairs)


structures = pytest.mark.parametrize("structure", STRUCTURES)
forced = pytest.mark.parametrize("extra", [{}, {"forcing": FORCING}])


@structures
@forced
@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_is_the_density_of_the_states(kind, structure, extra):
    p, values, phi = fields(kind, structure=structure, **extra)
    got = evaluate_statistics(statistics(values, phi), p).log_likelihood.sum()
    c = values @ np.linalg.pinv(phi).T
    expected = sum(oracle.state_log_density(p, path, TIMES) for path in c)
    np.testing.assert_allclose(got, expected, rtol=1e-7 if extra else EXACT)


@structures
@forced
@pytest.mark.parametrize("kind", KINDS)
def test_score_by_differences(kind, structure, extra):
    p, values, phi = fields(kind, structure=structure)
    s = statistics(values, phi)
    if kind == "deterministic":  # given the first states, which then say nothing
        p = p._replace(initial_mean=values[0, 0] @ np.linalg.pinv(phi).T)
    check_score(lambda q: evaluate_statistics(s, q), p._replace(**extra))
    if kind != "deterministic":
        found = evaluate_statistics(s, p).initial_information
        expected = 6 * np.linalg.inv(oracle.matrix(p.initial_covariance))
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("chunks", [2, 3, 6])
def test_halves_add_up_to_the_whole(chunks):
    _, values, phi = fields("gaussian", noise=0.1)
    whole = dataclasses.asdict(statistics(values, phi))
    parts = dataclasses.asdict(statistics(values, phi, chunks))
    for key, value in whole.items():
        if key != "pairs":
            np.testing.assert_allclose(parts[key], value, rtol=1e-11, err_msg=key)
    one, other = statistics(values, phi).pairs, statistics(values, phi, chunks).pairs
    for key in one._fields:
        np.testing.assert_allclose(getattr(other, key), getattr(one, key), atol=1e-11, err_msg=key)


def test_sums_are_those_of_the_coefficients():
    p, values, phi = fields("gaussian", noise=0.1)
    s = statistics(values, phi)
    c = values @ np.linalg.pinv(phi).T
    np.testing.assert_allclose(s.first, c.sum(0), rtol=1e-12)
    np.testing.assert_allclose(s.square, (c**2).sum(0), rtol=1e-12)
    np.testing.assert_allclose(s.cross, (c[:, 1:] * c[:, :-1]).sum(0), rtol=1e-10)
    np.testing.assert_allclose(s.skip, (c[:, 2:] * c[:, :-2]).sum(0), rtol=1e-10)
    np.testing.assert_allclose(s.start_spread, 6 * c[:, 0].var(0), rtol=1e-10)
    np.testing.assert_allclose(s.outside, ((values - c @ phi.T) ** 2).sum(), rtol=1e-9)
    assert s.n_values == values.size
    assert s.n_modes == p.n_modes


@structures
def test_sums_around_a_mean_are_those_of_shifted_states(structure):
    _, values, phi = fields("gaussian", structure=structure)
    m = np.array([3.0, -1.0, 0.5])
    s, moved = statistics(values, phi), statistics(values - phi @ m, phi)
    for own, other in ((s.steps, moved.steps), (s.pair_steps, moved.pair_steps)):
        got = around(*own, m, s.first_steps)
        np.testing.assert_allclose(got, other[1], rtol=1e-10, atol=1e-10)


def test_equal_starts_keep_a_spread_of_zero():
    """Sums of squares would leave rounding; the spread must not look random."""
    _, values, phi = fields("deterministic", n_paths=8)
    spread = statistics(values, phi, chunks=3).start_spread
    assert (spread < 1e-25).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, -1])
def test_a_missing_value_in_any_chunk_gives_none(bad, where):
    _, values, phi = fields("gaussian")
    values[where, 2, 3] = bad
    with np.errstate(invalid="ignore"):
        assert statistics(values, phi, chunks=3) is None


def test_statistics_of_other_times_do_not_add():
    _, values, phi = fields("gaussian")
    one = statistics(values, phi)
    with pytest.raises(DataError, match="same times"):
        one + dataclasses.replace(one, times=TIMES + 0.5)
    with pytest.raises(DataError, match="same times"):
        one + statistics(values[..., :], phi[:, :2])


def test_products_of_pairs_are_needed_only_where_modes_are_coupled():
    p, values, phi = fields("gaussian", structure="matrix")
    alone = statistics(values, phi, pairs=False)
    with pytest.raises(DataError, match="same times"):
        _ = alone + statistics(values, phi)
    with pytest.raises(DataError, match="products"):
        evaluate_statistics(alone, p)
    evaluate_statistics(alone, fields("gaussian")[0])


def noise_scores(noise, sets, n_paths=4, structure="diagonal"):
    out = []
    for seed in range(sets):
        p, values, phi = fields(
            "gaussian", n_paths, orthogonal=True, seed=seed, noise=noise, structure=structure
        )
        out.append(white_noise_z(statistics(values, phi), p, phi.T @ phi))
    return np.array(out)


@structures
def test_noise_score_is_standard_normal_without_noise(structure):
    """Null: mean 0, variance 1 over 200 sets; joint false alarm 1e-4.

    The statistic is a sum of products of normals, so its fourth moment exceeds 3; the bound
    on the variance uses the measured one.
    """
    z = noise_scores(0.0, 200, structure=structure)
    bound = oracle.largest_normal(2, FALSE_ALARM)
    assert abs(z.mean()) < bound / np.sqrt(len(z))
    error = np.sqrt(((z**2 - 1) ** 2).mean() / len(z))
    assert abs((z**2).mean() - 1) < bound * error
    assert stats.kurtosis(z) < 5


@structures
def test_noise_score_is_large_with_noise(structure):
    assert noise_scores(0.5, 5, n_paths=100, structure=structure).min() > 6.0


def test_noise_score_needs_three_times():
    p, values, phi = fields("gaussian")
    s = collect([values[:, :2]], TIMES[:2], np.linalg.pinv(phi), phi)
    assert white_noise_z(s, p, np.eye(3)) == 0.0
