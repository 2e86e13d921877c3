"""Coordinates of spectra, their layout in one vector, and the score in it."""

import numpy as np
import pytest
from tests.model.cases import KINDS, make

from spdelaw.errors import InputError
from spdelaw.infer import LogNormal, Normal
from spdelaw.infer._coordinates import Free, Joined, OperatorTied, PowerTied
from spdelaw.infer._layout import Layout, fixed_values, prior_terms
from spdelaw.model import evaluate_likelihood

JACOBIAN_TOLERANCE = 1e-8
SCORE_TOLERANCE = 1e-6

MU = (0.0, 1.0, 4.0, 9.0)
MAPS = {
    "free": Free("eigenvalue", 4),
    "operator": OperatorTied(MU),
    "power": PowerTied(4),
    "power_later": PowerTied(4, first=7),
    "joined": Joined(Free("eigenvalue", 2), OperatorTied(MU[2:], "nuisance_"), 2),
    "joined_power": Joined(PowerTied(2), PowerTied(2, 3, "nuisance_"), 2),
}


def point(coordinates):
    return np.random.default_rng(0).uniform(-0.8, 0.8, len(coordinates.names))


def differences(function, x, h=1e-5):
    """Jacobian by central differences; (outputs, len(x))."""
    columns = []
    for i in range(len(x)):
        step = h * np.eye(len(x))[i]
        columns.append((np.asarray(function(x + step)) - function(x - step)) / (2 * h))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("name", MAPS)
def test_jacobian_by_differences(name):
    coordinates = MAPS[name]
    phi = point(coordinates)
    assert (coordinates.values(phi) > 0).all()
    assert coordinates.is_log.shape == (len(coordinates.names),)
    np.testing.assert_allclose(
        coordinates.jacobian(phi),
        differences(coordinates.values, phi),
        rtol=JACOBIAN_TOLERANCE,
        atol=JACOBIAN_TOLERANCE,
    )


@pytest.mark.parametrize("name", ["free", "power", "power_later", "joined_power"])
def test_start_inverts_the_map(name):
    coordinates = MAPS[name]
    phi = point(coordinates)
    np.testing.assert_allclose(coordinates.start(coordinates.values(phi)), phi, atol=1e-10)


def test_start_of_an_operator_with_order_one():
    coordinates = OperatorTied(MU)
    phi = np.array([np.log(0.7), np.log(1.3), 0.0])
    np.testing.assert_allclose(coordinates.start(coordinates.values(phi)), phi, atol=1e-10)


def test_formulas():
    np.testing.assert_allclose(
        OperatorTied(MU).values(np.log([0.5, 2.0, 1.5])), 0.5 + 2.0 * np.array(MU) ** 1.5
    )
    np.testing.assert_allclose(
        PowerTied(3, first=2).values(np.array([np.log(3.0), -0.5])), 3.0 * np.sqrt([2, 3, 4])
    )


def layouts(kind):
    drift = {"free": Free("eigenvalue", 3), "operator": OperatorTied((1.0, 4.0, 9.0))}
    noise = {"free": Free("noise_variance", 3), "power": PowerTied(3)}
    for a in drift:
        for b in noise:
            yield Layout(drift[a], noise[b], kind, 3, 1)
    yield Layout(drift["free"], noise["free"], kind, 3, 0, known_variance=0.05)
    yield Layout(drift["free"], noise["free"], kind, 3, 1, has_mean=False)


@pytest.mark.parametrize("pattern", ["orthogonal", "random"])
@pytest.mark.parametrize("kind", KINDS)
def test_score_in_the_full_vector(kind, pattern):
    """The chain rule, with the stationary variance that depends on both spectra."""
    case = make(kind, pattern, n_paths=3)
    collapsed = case.collapsed
    for layout in layouts(kind):
        size = len(layout.names)
        assert sum(layout.sizes.values()) == size == len(layout.is_log)
        full = np.random.default_rng(1).uniform(-0.6, 0.6, size)
        mean = np.zeros(3) if kind == "stationary" else np.array([0.4, -0.2, 0.9])

        def value(x, layout=layout, mean=mean):
            found = evaluate_likelihood(collapsed, layout.unpack(x, mean))
            return found.log_likelihood.sum()

        parameters = layout.unpack(full, mean)
        assert parameters.initial_kind == kind
        if kind == "stationary":
            np.testing.assert_allclose(
                parameters.initial_variance,
                parameters.noise_variance / (2 * parameters.eigenvalues),
            )
        score = layout.score(full, parameters, evaluate_likelihood(collapsed, parameters))
        expected = differences(value, full)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(score, expected, rtol=SCORE_TOLERANCE, atol=1e-7 * scale)


def test_fixed_names_and_groups():
    layout = Layout(OperatorTied(MU), Free("noise_variance", 4), "gaussian", 4, 1)
    found = fixed_values(
        layout,
        {"s": 1.0, "kappa": 0.0, "noise_variance": [2.0, np.nan, np.nan, 3.0],
         "initial_mean[2]": -1.5, "observation_std": 0.1},
    )  # fmt: skip
    by_name = {layout.names[i]: x for i, x in found.items()}
    assert by_name == {
        "s": 0.0, "kappa": -np.inf, "noise_variance[1]": np.log(2.0),
        "noise_variance[4]": np.log(3.0), "initial_mean[2]": -1.5, "observation_std": np.log(0.1),
    }  # fmt: skip


def test_a_prior_on_a_group_reaches_every_mode():
    layout = Layout(Free("eigenvalue", 3), PowerTied(3), "deterministic", 3, 0)
    found = prior_terms(layout, {"eigenvalue": LogNormal(2.0, 1.0), "noise_exponent": Normal(2, 1)})
    assert [layout.names[i] for i, _ in found] == [
        "eigenvalue[1]", "eigenvalue[2]", "eigenvalue[3]", "noise_exponent",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("prior", "is_log"),
    [(LogNormal(2.0, 0.7), True), (Normal(1.5, 0.4), True), (Normal(1.5, 0.4), False)],
)
def test_prior_slope_by_differences(prior, is_log):
    x, h = 0.3, 1e-6
    value, slope = prior.log_density(x, is_log)
    up, down = prior.log_density(x + h, is_log)[0], prior.log_density(x - h, is_log)[0]
    np.testing.assert_allclose(slope, (up - down) / (2 * h), rtol=1e-7)
    assert value < 0


@pytest.mark.parametrize("bad", [(0.0, 1.0), (1.0, 0.0), (np.nan, 1.0), (-1.0, 1.0), (1.0, np.inf)])
def test_bad_priors(bad):
    with pytest.raises(InputError, match="LogNormal"):
        LogNormal(*bad)


@pytest.mark.parametrize("bad", [(0.0, 0.0), (np.nan, 1.0), (0.0, -1.0)])
def test_bad_normal_priors(bad):
    with pytest.raises(InputError, match="Normal"):
        Normal(*bad)
