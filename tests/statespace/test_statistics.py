"""Sufficient statistics of complete, noise-free fields."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from tests.parameters import cross
from tests.statespace import _brute_force as oracle
from tests.statespace.cases import FORCING, KINDS, STRUCTURES, basis, check_score, draw, parameters
from tests.statespace.numbers import evaluate_statistics, white_noise_z

from spdelaw.errors import DataError
from spdelaw.statespace.chain import center_sums
from spdelaw.statespace.statistics import collect

EXACT = 1e-10
FALSE_ALARM = 1e-4
TIMES = np.array([0.0, 0.1, 0.35, 0.5, 0.9, 1.0])


def fields(kind, n_paths=6, orthogonal=False, seed=0, noise=0.0, structure="diagonal", **extra):
    p, phi = parameters(kind, structure=structure), basis(orthogonal)
    p = p._replace(observation_variance=np.asarray(noise**2), **extra)
    return p, draw(p, TIMES, phi, np.random.default_rng(seed), n_paths), phi


def statistics(values, phi, chunks=1, pairs=True):
    parts = np.array_split(values, chunks)
    return collect(parts, TIMES, np.linalg.pinv(phi), phi, pairs=pairs)


@cross(kind=KINDS, structure=STRUCTURES, extra={"plain": {}, "forced": {"forcing": FORCING}})
def test_likelihood_is_the_density_of_the_states(kind, structure, extra):
    p, values, phi = fields(kind, structure=structure, **extra)
    got = evaluate_statistics(statistics(values, phi), p).log_likelihood.sum()
    c = values @ np.linalg.pinv(phi).T
    expected = sum(oracle.state_log_density(p, path, TIMES) for path in c)
    np.testing.assert_allclose(got, expected, rtol=1e-7 if extra else EXACT)
    # The data of the score were not made with a forcing: nothing is at a maximum.
    p, values, phi = fields(kind, structure=structure)
    s = statistics(values, phi)
    if kind == "deterministic":  # given the first states, which then say nothing
        p = p._replace(initial_mean=values[0, 0] @ np.linalg.pinv(phi).T)
    else:
        information = evaluate_statistics(s, p).initial_information
        expected = 6 * np.linalg.inv(oracle.matrix(p.initial_covariance))
        np.testing.assert_allclose(information, expected, atol=1e-9 * np.abs(expected).max())
    check_score(lambda q: evaluate_statistics(s, q), p._replace(**extra))


@pytest.mark.parametrize("chunks", [1, 2, 3, 6])
def test_sums_are_those_of_the_coefficients_in_any_chunks(chunks):
    p, values, phi = fields("gaussian", noise=0.1)
    s, whole = statistics(values, phi, chunks), statistics(values, phi)
    c = values @ np.linalg.pinv(phi).T
    np.testing.assert_allclose(s.first, c.sum(0), rtol=1e-12)
    np.testing.assert_allclose(s.square, (c**2).sum(0), rtol=1e-12)
    np.testing.assert_allclose(s.cross, (c[:, 1:] * c[:, :-1]).sum(0), rtol=1e-10)
    np.testing.assert_allclose(s.skip, (c[:, 2:] * c[:, :-2]).sum(0), rtol=1e-10)
    np.testing.assert_allclose(s.start_spread, 6 * c[:, 0].var(0), rtol=1e-10)
    np.testing.assert_allclose(s.outside, ((values - c @ phi.T) ** 2).sum(), rtol=1e-9)
    np.testing.assert_allclose(s.energy, whole.energy, rtol=1e-11)
    assert (s.n_values, s.n_modes) == (values.size, p.n_modes)
    for got, expected in zip(s.pairs, whole.pairs, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-11)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_sums_around_a_mean_are_those_of_shifted_states(structure):
    _, values, phi = fields("gaussian", structure=structure)
    m = np.array([3.0, -1.0, 0.5])
    s, moved = statistics(values, phi), statistics(values - phi @ m, phi)
    for sums, other in ((s.steps, moved.steps), (s.pair_steps, moved.pair_steps)):
        got = center_sums(*sums, m, s.first_steps)
        np.testing.assert_allclose(got, other[1], rtol=1e-10, atol=1e-10)


def test_equal_starts_keep_a_spread_of_zero():
    """Sums of squares would leave rounding; the spread must not look random."""
    _, values, phi = fields("deterministic", n_paths=8)
    assert (statistics(values, phi, chunks=3).start_spread < 1e-25).all()


@cross(bad=[np.nan, np.inf, -np.inf], where=[0, -1])
def test_a_missing_value_in_any_chunk_gives_none(bad, where):
    _, values, phi = fields("gaussian")
    values[where, 2, 3] = bad
    with np.errstate(invalid="ignore"):
        assert statistics(values, phi, chunks=3) is None


def test_what_does_not_add_or_lacks_products_of_pairs_is_refused():
    p, values, phi = fields("gaussian", structure="matrix")
    one, alone = statistics(values, phi), statistics(values, phi, pairs=False)
    later, fewer = dataclasses.replace(one, times=TIMES + 0.5), statistics(values, phi[:, :2])
    for other in (later, fewer, alone):
        with pytest.raises(DataError, match="same times"):
            one + other
    with pytest.raises(DataError, match="products"):
        evaluate_statistics(alone, p)
    evaluate_statistics(alone, parameters("gaussian"))  # modes that are not coupled need none


def noise_scores(noise, sets, n_paths, structure):
    p, values, phi = fields("gaussian", sets * n_paths, True, 0, noise, structure)
    parts = (statistics(part, phi) for part in np.split(values, sets))
    return np.array([white_noise_z(s, p, phi.T @ phi) for s in parts])


@pytest.mark.parametrize("structure", STRUCTURES)
def test_noise_score_is_standard_normal_without_noise(structure):
    """Null: mean 0, variance 1 over 200 sets; joint false alarm 1e-4.

    The statistic is a sum of products of normals, so its fourth moment exceeds 3; the bound
    on the variance uses the measured one.
    """
    z = noise_scores(0.0, 200, 4, structure)
    bound = oracle.largest_normal(2, FALSE_ALARM)
    assert abs(z.mean()) < bound / np.sqrt(len(z))
    error = np.sqrt(((z**2 - 1) ** 2).mean() / len(z))
    assert abs((z**2).mean() - 1) < bound * error
    assert stats.kurtosis(z) < 5
    assert noise_scores(0.5, 5, 100, structure).min() > 6.0  # and it is large with noise


def test_noise_score_needs_three_times():
    p, values, phi = fields("gaussian")
    s = collect([values[:, :2]], TIMES[:2], np.linalg.pinv(phi), phi)
    assert white_noise_z(s, p, np.eye(3)) == 0.0
