"""Coordinates of spectra and single numbers; what is fixed and believed about them."""

import numpy as np
import pytest

from spdelaw.errors import InputError
from spdelaw.infer.objective import LogNormal, Normal, fixed_values, prior_terms
from spdelaw.infer.parameters import (
    Contrasts,
    OperatorTied,
    Parametrisation,
    PowerTied,
    Single,
    WithNuisance,
)

JACOBIAN_TOLERANCE = 1e-8

MU = (0.0, 1.0, 4.0, 9.0)
MAPS = {
    "free": Single("eigenvalue", 4),
    "operator": OperatorTied(MU),
    "power": PowerTied(4),
    "power_later": PowerTied(4, first=7),
    "joined": WithNuisance(Single("eigenvalue", 2), OperatorTied(MU[2:], "nuisance_"), 2),
    "joined_power": WithNuisance(PowerTied(2), PowerTied(2, 3, "nuisance_"), 2),
    "deviation": Single("observation_std", None, power=2),
    "contrasts": Contrasts(4),
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


@pytest.mark.parametrize(
    "name", ["free", "power", "power_later", "joined_power", "deviation", "contrasts"]
)
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


def parametrisation(drift, noise, initial="deterministic", **more):
    n = 4
    parts = {"drift": drift, "noise": noise, **more}
    if initial != "stationary":
        parts["initial_mean"] = Single("initial_mean", n, power=0)
    return Parametrisation(parts, initial, np.zeros(n))


def test_fixed_names_and_groups():
    layout = parametrisation(
        OperatorTied(MU),
        Single("noise_variance", 4),
        "gaussian",
        observation=Single("observation_std", None, power=2),
    )
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
    layout = parametrisation(Single("eigenvalue", 4), PowerTied(4))
    found = prior_terms(layout, {"eigenvalue": LogNormal(2.0, 1.0), "noise_exponent": Normal(2, 1)})
    assert [layout.names[i] for i, _ in found] == [
        *(f"eigenvalue[{n}]" for n in range(1, 5)),
        "noise_exponent",
    ]


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
