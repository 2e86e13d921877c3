"""Coordinates of spectra, numbers and matrices: Jacobians, round trips, fixed and believed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.infer.coupled import stable

from spdelaw.errors import InputError
from spdelaw.infer.objective import LogNormal, Normal, fixed_values, prior_terms
from spdelaw.infer.parameters import (
    Contrasts,
    Covariance,
    LowRankCovariance,
    OperatorTied,
    Parametrisation,
    PowerTied,
    Rotating,
    Single,
    Stable,
    WithNuisance,
)
from spdelaw.processes import operators

MU = (0.0, 1.0, 4.0, 9.0)
SCALE = (1.0, 0.3, 2.0, 0.1)
NUMBERS = {
    "deviation": Single("observation_std", None, power=2),
    "contrasts": Contrasts(4),
    "power_later": PowerTied(4, first=7),
}
OPERATORS = {
    "free": Single("eigenvalue", 4),
    "operator": OperatorTied(MU),
    "rotating": Rotating(4, ((1, 2),)),
    "covariance": Covariance("noise", SCALE),
    "stable": Stable(SCALE),
    "low_rank_1": LowRankCovariance(SCALE, 1),
    "low_rank_2": LowRankCovariance(SCALE, 2),
    "joined": WithNuisance(Stable(SCALE), PowerTied(2, 5, "nuisance_"), 4),
    "joined_power": WithNuisance(PowerTied(2), OperatorTied(MU[2:], "nuisance_"), 2),
}
EVERY = NUMBERS | OPERATORS


def differences(function, x, h=1e-5):
    """Jacobian by central differences; (outputs, len(x))."""
    steps = h * np.eye(len(x))
    columns = [(np.asarray(function(x + s)) - function(x - s)) / (2 * h) for s in steps]
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("name", EVERY)
def test_jacobian_by_differences(name):
    c = EVERY[name]
    phi = 0.4 * np.random.default_rng(0).normal(size=len(c.names))
    assert len(set(c.names)) == len(c.names) == len(c.is_log)
    jacobian = c.jacobian(phi)
    np.testing.assert_allclose(jacobian, differences(c.values, phi), rtol=1e-7, atol=1e-8)
    by = np.random.default_rng(1).normal(size=jacobian.shape[:-1])
    expected = np.tensordot(by, jacobian, by.ndim)
    np.testing.assert_allclose(c.pull_back(phi, by), expected, atol=1e-12)
    columns = np.random.default_rng(2).normal(size=(len(phi), 3))
    expected = np.tensordot(jacobian, columns, 1)
    np.testing.assert_allclose(c.push(phi, columns), expected, atol=1e-12)


@pytest.mark.parametrize("name", EVERY)
def test_start_gives_the_values_back(name):
    c = EVERY[name]
    phi = 0.3 * np.random.default_rng(1).normal(size=len(c.names))
    if "operator" in name or name == "joined_power":
        phi[-1] = 0.0  # its start supposes s = 1
    matrix = c.values(phi)
    # Principal factors only come near.
    tolerance = {"low_rank_1": 0.3, "low_rank_2": 0.3}.get(name, 1e-10)
    assert np.abs(c.values(c.start(matrix)) - matrix).max() < tolerance * np.abs(matrix).max()


@pytest.mark.parametrize("name", OPERATORS)
def test_either_shape_of_an_operator_is_a_start(name):
    """A spectrum and the same numbers on the diagonal of a matrix."""
    c = OPERATORS[name]
    n = len(c.values(np.zeros(len(c.names))))
    spectrum = 1.0 + 0.5 * np.arange(n)
    np.testing.assert_array_equal(c.start(spectrum), c.start(np.diag(spectrum)))
    assert operators.diagonal(c.values(c.start(spectrum))).shape == (n,)


def test_formulas():
    drift = OperatorTied(MU).values(np.log([0.5, 2.0, 1.5]))
    np.testing.assert_allclose(drift, 0.5 + 2.0 * np.array(MU) ** 1.5)
    noise = PowerTied(3, first=2).values(np.array([np.log(3.0), -0.5]))
    np.testing.assert_allclose(noise, 3.0 * np.sqrt([2, 3, 4]))


@pytest.mark.parametrize("seed", range(5))
def test_every_stable_matrix_has_coordinates(seed):
    drift, noise = stable(4, seed)
    c = Stable(SCALE)
    np.testing.assert_allclose(c.values(c.start(drift)), drift, rtol=1e-8, atol=1e-9)
    q = Covariance("noise", SCALE)
    np.testing.assert_allclose(q.values(q.start(noise)), noise, rtol=1e-9)


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(float, 16, elements=st.floats(-4, 4)))
def test_all_coordinates_are_stable_and_all_noise_is_positive(phi):
    matrix = Stable(SCALE).values(phi)
    rounding = 1e-13 * np.abs(matrix).max()  # of the eigenvalues of a matrix far from normal
    assert np.linalg.eigvals(matrix).real.min() > -rounding
    for c in (Covariance("noise", SCALE), LowRankCovariance(SCALE, 2)):
        q = c.values(phi[: len(c.names)])
        np.testing.assert_array_equal(q, q.T)
        assert np.linalg.eigvalsh(q / np.sqrt(np.outer(np.diag(q), np.diag(q))))[0] > -1e-14


# -- fixed and believed ------------------------------------------------------------------------


def test_fixed_names_and_priors_on_groups():
    parts = {"drift": OperatorTied(MU), "noise": Single("noise_variance", 4)}
    parts["observation"] = Single("observation_std", None, power=2)
    parts["initial_mean"] = Single("initial_mean", 4, power=0)
    layout = Parametrisation(parts, "gaussian", np.zeros(4))
    fixed = {"s": 1.0, "kappa": 0.0, "noise_variance": [2.0, np.nan, np.nan, 3.0]}
    fixed |= {"initial_mean[2]": -1.5, "observation_std": 0.1}
    assert {layout.names[i]: x for i, x in fixed_values(layout, fixed).items()} == {
        "s": 0.0, "kappa": -np.inf, "noise_variance[1]": np.log(2.0),
        "noise_variance[4]": np.log(3.0), "initial_mean[2]": -1.5, "observation_std": np.log(0.1),
    }  # fmt: skip
    priors = {"noise_variance": LogNormal(2.0, 1.0), "nu": Normal(2, 1)}
    names = {layout.names[i] for i, _ in prior_terms(layout, priors)}
    assert names == {"nu", *(f"noise_variance[{n}]" for n in range(1, 5))}


@pytest.mark.parametrize(
    ("prior", "is_log"),
    [(LogNormal(2.0, 0.7), True), (Normal(1.5, 0.4), True), (Normal(1.5, 0.4), False)],
)
def test_prior_slope_by_differences(prior, is_log):
    value, slope = prior.log_density(0.3, is_log)
    got = differences(lambda x: prior.log_density(x[0], is_log)[0], np.array([0.3]), 1e-6)
    np.testing.assert_allclose(slope, got[0], rtol=1e-7)
    assert value < 0


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [(LogNormal, (0.0, 1.0)), (LogNormal, (1.0, 0.0)), (LogNormal, (np.nan, 1.0)),
     (LogNormal, (1.0, np.inf)), (Normal, (np.nan, 1.0)), (Normal, (0.0, -1.0))],
)  # fmt: skip
def test_bad_priors(kind, numbers):
    with pytest.raises(InputError, match="finite number"):
        kind(*numbers)
