"""One meaning of the log-likelihood: the log density of a named set of numbers."""

import warnings

import numpy as np
import pytest
from tests.law.laws import (
    INTERVAL,
    NOISE,
    POINTS,
    TIMES,
    basis,
    fields,
    heat,
    law,
    make,
    near,
    numbers,
    point_noise_law,
)
from tests.model import _brute_force as oracle

import spdelaw as sl
from spdelaw.errors import IdentifiabilityWarning, InputError
from spdelaw.evaluation import check_comparable
from spdelaw.law import Numbers, density_entries, statistics_density
from spdelaw.model import collect, evaluate_statistics

T = TIMES[:6]
EXACT = 1e-8
#: The filter has a floor under the noise of a law that has none; the oracle has not.
FLOORED = 1e-5
UNRESOLVED = 0.02


def rough(initial="gaussian", n_paths=4):
    """Fields with modes beyond those of the laws and with noise."""
    data = fields(initial, n_paths=n_paths, seed=3, times=T)
    rest = np.random.default_rng(5).standard_normal(data.shape)
    return data + np.sqrt(UNRESOLVED) * rest


def two_variances(some, y, phi):
    """Log density of one path with variance r in the span of the modes and r + u outside it."""
    r, s = float(some.observation_variance), float(some.observation_variance) + UNRESOLVED
    mean, covariance = oracle.state_moments(numbers(some), T)
    parts, seen = [], ~np.isnan(y)
    for row in seen:
        q, _ = np.linalg.qr(phi[row])
        inside = q @ q.T
        parts.append(r * inside + s * (np.eye(row.sum()) - inside))
    rows = np.concatenate([np.kron(np.eye(len(T))[t], phi[row]) for t, row in enumerate(seen)])
    noise = np.zeros((len(rows), len(rows)))
    at = 0
    for part in parts:
        noise[at : at + len(part), at : at + len(part)] = part
        at += len(part)
    return oracle.log_density(y[seen], rows @ mean, rows @ covariance @ rows.T + noise)


@pytest.mark.parametrize("pattern", ["complete", "random"])
@pytest.mark.parametrize("initial", ["bump", "gaussian", "stationary"])
def test_values_by_brute_force(initial, pattern):
    some = make(*near(heat(initial)), NOISE**2, unresolved_variance=UNRESOLVED)
    data = rough(initial)
    if pattern == "random":
        data = sl.mask(data, pattern, 0.3, seed=2)
    found = some.log_likelihood(data)
    assert found.attrs == {"of": "values", "count": int(data.notnull().sum())}
    expected = [two_variances(some, y, basis(some)) for y in data.values]
    np.testing.assert_allclose(found, expected, rtol=EXACT)


@pytest.mark.parametrize("initial", ["gaussian", "stationary"])
def test_values_of_a_law_without_noise_inside_the_modes(initial):
    some = make(*near(heat(initial)), 0.0, unresolved_variance=UNRESOLVED)
    found = some.log_likelihood(rough(initial))
    expected = [two_variances(some, y, basis(some)) for y in rough(initial).values]
    np.testing.assert_allclose(found, expected, rtol=FLOORED)


def test_rows_of_fewer_values_than_modes():
    some = make(*near(heat("gaussian")), NOISE**2, unresolved_variance=UNRESOLVED)
    data = rough().copy()
    data[1, 2, 5:] = np.nan
    data[1, 2, :3] = np.nan
    data[2, 3] = np.nan
    phi = basis(some)
    # Two values determine two of three coefficients, and nothing lies outside them.
    expected = [two_variances(some, y, phi) for y in data.values]
    np.testing.assert_allclose(some.log_likelihood(data), expected, rtol=EXACT)


@pytest.mark.parametrize("initial", ["bump", "gaussian", "stationary"])
def test_coefficients_where_fields_have_no_density(initial):
    some, data = law(initial), fields(initial, n_paths=4, seed=3, times=T)
    c = data.values @ np.linalg.pinv(basis(some)).T
    expected = [oracle.state_log_density(numbers(some), own, T) for own in c]
    found = some.log_likelihood(data)
    np.testing.assert_allclose(found, expected, rtol=FLOORED)
    rows = len(T) - (initial == "bump")
    assert found.attrs == {"of": "coefficients", "count": 4 * rows * 3}


def test_as_many_points_as_modes_have_a_density_without_noise():
    some = make(*near(heat("gaussian")), 0.0)
    data = fields("gaussian", n_paths=3, seed=3, times=T).isel(x=[2, 5, 7])
    phi = basis(some, POINTS[[2, 5, 7]])
    c = data.values @ np.linalg.inv(phi).T
    jacobian = len(T) * np.log(abs(np.linalg.det(phi)))
    expected = [oracle.state_log_density(numbers(some), own, T) - jacobian for own in c]
    found = some.log_likelihood(data)
    assert found.attrs["of"] == "values"
    np.testing.assert_allclose(found, expected, rtol=FLOORED)


def test_noise_per_point_is_one_density():
    some = point_noise_law()
    data = fields(n_paths=3, noise=NOISE, seed=4, times=T)
    expected = [oracle.log_likelihood(numbers(some), y, T, basis(some)) for y in data.values]
    found = some.log_likelihood(data)
    np.testing.assert_allclose(found, expected, rtol=EXACT)
    assert found.attrs["of"] == "values"


# -- the same number on every route -----------------------------------------------------


def of_statistics(some, data):
    phi = basis(some)
    s = collect([data.values], data.time.values, np.linalg.pinv(phi), phi)
    coefficients = evaluate_statistics(s, some.state_space).log_likelihood.sum()
    return statistics_density(
        s, float(coefficients), some.initial, phi.T @ phi, some.unresolved_variance
    )


@pytest.mark.parametrize("initial", ["bump", "gaussian", "stationary"])
@pytest.mark.parametrize("unresolved", [0.0, UNRESOLVED, 1e-6])
def test_statistics_and_filter_give_the_same_number(initial, unresolved):
    some = make(*near(heat(initial)), 0.0, unresolved_variance=unresolved)
    rest = np.random.default_rng(5).standard_normal((30, len(T), len(POINTS)))
    rest -= rest @ basis(some) @ np.linalg.pinv(basis(some))
    data = fields(initial, n_paths=30, seed=3, times=T) + np.sqrt(unresolved) * rest
    found, (expected, of) = some.log_likelihood(data), of_statistics(some, data)
    assert (found.attrs["of"], found.attrs["count"]) == (of.kind, of.count)
    np.testing.assert_allclose(found.sum(), expected, rtol=FLOORED)


@pytest.mark.parametrize("initial", ["bump", "gaussian", "stationary"])
@pytest.mark.parametrize("unresolved", [0.0, UNRESOLVED])
def test_one_missing_value_moves_it_a_little(initial, unresolved):
    """The same data less one value of 1200: a few nats, not thousands."""
    some = make(*near(heat(initial)), 0.0, unresolved_variance=unresolved)
    data = fields(initial, n_paths=20, seed=3, times=T)
    data = data + np.sqrt(unresolved) * np.random.default_rng(5).standard_normal(data.shape)
    whole = some.log_likelihood(data)
    less = data.copy()
    less[3, 4, 5] = np.nan
    found = some.log_likelihood(less)
    assert found.attrs["of"] == whole.attrs["of"]
    others = np.arange(20) != 3
    np.testing.assert_allclose(found[others], whole[others], rtol=1e-6)
    assert abs(float(found[3] - whole[3])) < 8.0


def test_noise_that_goes_to_zero_moves_it_continuously():
    """log p(y) + d log(sigma) has a limit, d the numbers outside the modes."""
    data = fields("gaussian", n_paths=20, seed=3, times=T)
    outside = data.size - 20 * len(T) * 3
    found = []
    for std in (1e-5, 1e-6, 1e-7, 1e-8):
        some = make(*near(heat("gaussian")), std**2)
        value = some.log_likelihood(data)
        assert value.attrs["of"] == "values"
        found.append(float(value.sum()) + outside * np.log(std))
    np.testing.assert_allclose(found, found[0], rtol=1e-4)


# -- what may be compared -------------------------------------------------------------------


def named(some, data):
    found = some.log_likelihood(data)
    of = Numbers(found.attrs["of"], found.attrs["count"])
    return some.with_info(**density_entries(found.values, of, some.observe(data)))


def test_only_densities_of_the_same_numbers_are_compared():
    data = fields("gaussian", noise=NOISE, n_paths=5)
    one, two = (named(make(*near(heat("gaussian")), r), data) for r in (0.0025, 0.01))
    assert check_comparable(one, two) == Numbers(**one.info["log_likelihood_of"])
    assert one.info.log_likelihood == pytest.approx(float(one.log_likelihood(data).sum()))
    with pytest.raises(InputError, match="to the same data"):
        check_comparable(one, named(two, data[:4]))
    quiet = named(make(*near(heat("gaussian")), 0.0), data)
    with pytest.raises(InputError, match="coefficients"):
        check_comparable(one, quiet)
    with pytest.raises(InputError, match="without that name"):
        check_comparable(one, law())


def test_a_law_keeps_the_name_of_its_numbers(tmp_path):
    some = named(make(*near(heat("gaussian")), 0.01), fields("gaussian", noise=0.1))
    some.save(tmp_path / "some.law")
    assert sl.load(tmp_path / "some.law").info.log_likelihood_of == some.info.log_likelihood_of
    assert str(INTERVAL) in repr(some)


# -- what a fit reports ---------------------------------------------------------------------


def fit(data, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        return sl.fit(data, INTERVAL, 3, **settings)


@pytest.mark.parametrize("std", [0.0, 1e-4, NOISE])
@pytest.mark.parametrize("initial", ["bump", "gaussian"])
def test_a_fit_reports_the_density_of_its_data_under_its_law(initial, std):
    data = fields(initial, noise=std, n_paths=30)
    some = fit(data)
    found = some.log_likelihood(data)
    assert some.info.log_likelihood_of["kind"] == found.attrs["of"]
    assert some.info.log_likelihood_of["count"] == found.attrs["count"]
    np.testing.assert_allclose(some.info.log_likelihood, found.sum(), rtol=FLOORED)


@pytest.mark.parametrize("std", [0.0, 1e-6, NOISE])
def test_one_missing_value_changes_no_fit_by_thousands(std):
    """Version 0.1 had 672 for complete fields without noise and 369,173 for one value less.

    Here a value less is worth its own density, 12 nats for a noise of 1e-6, and the decision
    whether that noise is inside the modes, too.
    """
    data = fields(noise=std, n_paths=30)
    less = data.copy()
    less[3, 4, 5] = np.nan
    whole, gappy = fit(data), fit(less)
    assert gappy.info.log_likelihood_of["kind"] == whole.info.log_likelihood_of["kind"]
    assert abs(gappy.info.log_likelihood - whole.info.log_likelihood) < 25.0
    assert (
        gappy.info.log_likelihood_of["fingerprint"] != whole.info.log_likelihood_of["fingerprint"]
    )


ENGINES = {
    "chaos": {"engine": "chaos", "n_time": 4},
    "structured": {"engine": "amortized", "preset": "structured", "n_time": 4, "epochs": 20},
}


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_give_one_number(engine):
    data = fields("gaussian", noise=NOISE, n_paths=30)
    exact, other = fit(data), fit(data, **ENGINES[engine])
    assert check_comparable(exact, other).kind == "values"
    np.testing.assert_allclose(other.info.log_likelihood, exact.info.log_likelihood, rtol=1e-8)


def test_numbers_of_modes_are_compared_on_the_same_values():
    data = fields("gaussian", noise=NOISE, n_paths=30)
    few, enough = (sl.fit(data, INTERVAL, n, nuisance=0) for n in (2, 3))
    assert check_comparable(few, enough).count == data.size
    assert enough.info.log_likelihood > few.info.log_likelihood + 100.0
