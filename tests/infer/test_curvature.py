"""Information from differences of the score: closed form, fewer moves where modes do not meet."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.data.observed import observe
from spdelaw.infer import optimise as optimise_module
from spdelaw.infer.engines.filter_route import build_objective
from spdelaw.infer.objective import LogPosterior, owner_of
from spdelaw.infer.optimise import SHARED, difference_information

N = 5


def separable(n=N, seed=0):
    """Information of n modes with two coordinates each, a shared one and two known ones."""
    rng = np.random.default_rng(seed)
    owners = np.array([*range(1, n + 1), *range(1, n + 1), SHARED, 1, 3])
    size = len(owners)
    a = rng.standard_normal((size, size))
    full = a @ a.T + size * np.eye(size)
    meets = (owners[:, None] == owners) | (owners == SHARED) | (owners[:, None] == SHARED)
    return np.where(meets, full, 0.0), owners


@pytest.mark.parametrize("group", [False, True])
def test_quadratics_are_found_exactly(group):
    h, owners = separable()
    calls = []

    def objective(x):
        calls.append(1)
        return -0.5 * x @ h @ x, -h @ x

    size, n_plain = len(h), len(h) - 2
    scale = np.random.default_rng(1).uniform(0.5, 2.0, size)
    got = difference_information(
        objective, np.ones(size), scale, n_plain, lambda x: h[n_plain:, n_plain:],
        owners if group else None,
    )  # fmt: skip
    np.testing.assert_allclose(got, h, atol=1e-9)
    assert len(calls) == 2 * (3 if group else n_plain)


def many(size, bend, rounding=0.0, seed=0):
    """Information ``h`` at zero, and an objective that bends on and whose score is rounded."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((size, 2 * size))
    h, calls = a @ a.T, []

    def objective(x):
        calls.append(1)
        slope = -h @ x - bend * x**2 * np.diag(h) ** 1.5
        return 0.0, slope + rounding * np.sqrt(np.diag(h)) * rng.standard_normal(size)

    return h, objective, calls, 1.0 / np.sqrt(np.diag(h))


def test_many_coordinates_are_moved_to_one_side():
    """The step leaves an error of itself times the bend: 1e-4 of the information."""
    h, objective, calls, scale = many(120, 1.0)
    got = difference_information(
        objective, np.zeros(120), scale, 118, lambda x: h[118:, 118:], None
    )
    np.testing.assert_allclose(got, h, atol=2e-4 / scale.min() ** 2)
    errors, known = (np.sqrt(np.diag(np.linalg.inv(x))) for x in (got, h))
    np.testing.assert_allclose(errors, known, rtol=1e-3)
    assert len(calls) == 119


@pytest.mark.parametrize("rounding", [1e-7, 1e-5])
def test_rounding_that_shows_on_one_side_asks_for_both(rounding):
    h, objective, calls, scale = many(120, 0.0, rounding)
    got = difference_information(objective, np.zeros(120), scale, 120, lambda x: h, None)
    assert len(calls) == 1 + 10 + 240
    assert np.abs(got - h).max() < 500 * rounding / scale.min() ** 2


def test_standard_errors_of_coupled_modes_are_those_of_both_sides(monkeypatch):
    rng = np.random.default_rng(0)
    drift = np.diag([0.1, 0.2, 0.4]) + 0.1 * rng.standard_normal((3, 3))
    law = sl.SpectralSPDE(sl.Interval(0, np.pi), 3, drift, noise=np.eye(3))
    times = np.arange(300.0)
    data = sl.simulate(law, 1, times, law.domain.grid(30), seed=0, observation_std=0.1)
    data = data.where(rng.uniform(size=data.shape) > 0.01)
    both = sl.fit(data, law.domain, 3, drift="dense", noise="dense")
    monkeypatch.setattr(optimise_module, "MANY", 1)
    one = sl.fit(data, law.domain, 3, drift="dense", noise="dense")
    n = [law.info["convergence"]["evaluations"] for law in (both, one)]
    assert n[1] < 0.7 * n[0]
    for name, part in both.parameters.data_vars.items():
        if "statistic" in part.dims:
            got, expected = (
                law.parameters[name].sel(statistic="stderr").values for law in (one, both)
            )
            np.testing.assert_allclose(got, expected, rtol=1e-4, err_msg=str(name))


def test_owners_by_name():
    assert owner_of("eigenvalue[3]") == 3
    assert owner_of("initial_mean[12]") == 12
    shared = ("kappa", "season[2]", "observation_std", "nuisance_s")
    assert [owner_of(name) for name in shared] == [SHARED] * 4


def fitted(n_modes, noise=0.0, **options):
    """Law of modes that all decay within the time of observation and by far not within a step."""
    equation = sl.SpectralSPDE(
        sl.Interval(0, np.pi), n_modes, 5.0 + np.arange(n_modes), noise=sl.PowerLaw(1.0),
        initial=sl.Gaussian(np.ones(n_modes), np.full(n_modes, 0.5)),
    )  # fmt: skip
    times = np.linspace(0, 2, 101)
    fields = sl.simulate(
        equation, 30, times, equation.domain.grid(81), seed=0, observation_std=noise
    )
    return sl.fit(fields, equation.domain, n_modes, **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"initial": "stationary"},
        {"noise": 0.05, "observation_noise": "estimate"},
        {"noise": 0.05, "observation_noise": 0.05},
        {"fixed": {"eigenvalue[2]": 6.0}},
        {"priors": {"noise_variance": sl.LogNormal(0.5, 1.0)}},
    ],
)
def test_fits_are_the_same_with_all_coordinates_moved_alone(options, monkeypatch):
    grouped = fitted(4, **options)
    monkeypatch.setattr(LogPosterior, "owners", lambda posterior: None)
    alone = fitted(4, **options)
    assert grouped.info["convergence"]["evaluations"] < alone.info["convergence"]["evaluations"]
    for name in grouped.parameters.data_vars:
        np.testing.assert_allclose(
            grouped.parameters[name].values[..., :2], alone.parameters[name].values[..., :2],
            rtol=5e-3, atol=1e-9,
        )  # fmt: skip


def test_evaluations_grow_far_less_than_the_number_of_modes():
    few, many = (fitted(n).info["convergence"]["evaluations"] for n in (4, 32))
    assert many < 4 * few


GAPPY = {
    "free": {},
    "stationary": {"initial": "stationary"},
    "tied": {"drift": "parametric", "noise": "parametric"},
    "believed": {"priors": {"eigenvalue[2]": sl.LogNormal(1.0, 0.5)}},
    "held": {"fixed": {"eigenvalue[1]": 0.5}},
    "nuisance": {"nuisance": 2},
}


@pytest.mark.parametrize("words", GAPPY.values(), ids=GAPPY)
def test_information_of_gappy_modes_is_that_of_differences(words):
    """Louis' identity and the chain rule against the differenced score, away from a maximum too."""
    domain, rng = sl.Interval(0, np.pi), np.random.default_rng(1)
    times = np.linspace(0, 4.0, 60)
    fields = sl.simulate(
        sl.catalogue.heat(4), 1, times, domain.grid(21), seed=3, observation_std=0.1
    )
    fields.values[rng.uniform(size=fields.shape) < 0.4] = np.nan
    model = sl.Model(mean="zero", **words)
    posterior = build_objective(observe(fields, domain), 3, model).posterior()
    for x in (np.zeros(len(posterior.scale)), 0.3 * rng.normal(size=len(posterior.scale))):
        x *= posterior.scale
        got = posterior.exact_information(x)
        expected = difference_information(
            lambda y: posterior.at(y)[:2], x, 0.05 * np.minimum(posterior.scale, 1.0),
            posterior.n_plain, posterior.initial_information,
        )  # fmt: skip
        scale = np.sqrt(np.abs(np.diag(expected)))
        np.testing.assert_allclose(
            got / np.outer(scale, scale), expected / np.outer(scale, scale), atol=2e-5
        )
