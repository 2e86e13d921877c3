"""What was put in comes out on every domain, from data that its basis did not make."""

import numpy as np
import pytest
from tests.infer.discrete_heat import heat_paths, square_stiffness
from tests.infer.recovery import WITHIN, assert_recovers, z_scores
from tests.parameters import each

import spdelaw as sl
from spdelaw.statespace import collapse as collapse_module

TIMES = np.linspace(0.0, 1.0, 51)
KAPPA, AMPLITUDE = 1.0, 0.5


def assert_heat(law, smoothing):
    """Both spectra of the limit, ``kappa + mu`` and ``amplitude exp(-smoothing mu)``."""
    mu = law.domain.eigenvalues(law.n_modes)
    z = z_scores(law, eigenvalue=KAPPA + mu, noise_variance=AMPLITUDE * np.exp(-smoothing * mu))
    assert np.abs(z).max() < WITHIN, np.round(z, 2)
    assert np.sqrt((z**2).mean()) > 0.3, np.round(z, 2)


def square_fields(n, n_paths, smoothing):
    stiffness, points, cells = square_stiffness(n, np.pi)
    values = heat_paths(
        stiffness, cells, TIMES, n_paths, kappa=KAPPA, amplitude=AMPLITUDE, smoothing=smoothing,
        seed=0,
    )  # fmt: skip
    axis = np.unique(points[:, 0])
    return sl.as_fields(
        values.reshape(n_paths, len(TIMES), n, n), times=TIMES, points=(axis, axis), dims=("x", "y")
    )


def test_square_by_finite_differences():
    law = sl.fit(square_fields(20, 40, 0.3), sl.Box((0, np.pi), (0, np.pi)), 6)
    assert_heat(law, 0.3)


CUBOID = sl.Box((0, 1), (0, 2), (0, 1), boundary=("neumann", "periodic", "dirichlet"))
DOMAINS = {
    "cuboid": (CUBOID, 6),
    "plane": (sl.Plane(), 12),
    "disk": (sl.Disk(1.5, (1.0, 0.0), "neumann"), 15),
    "sphere": (sl.Sphere(), 8),
}


@each(case=DOMAINS, gaps=[False, True])
def test_every_domain(case, gaps):
    domain, n_points = case
    equation = sl.catalogue.heat_on(domain, 5)
    fields = sl.simulate(
        equation, 40, TIMES, domain.grid(n_points), seed=3, observation_std=0.1 * gaps
    )
    data = sl.mask(fields, "random", 0.3, seed=0) if gaps else fields
    law = sl.fit(data, domain, 5, initial="stationary")
    assert_recovers(law, equation, **({"observation_std": 0.1} if gaps else {}))


def test_decoupled_modes_recover_too(monkeypatch):
    """Where memory forbids the exact likelihood: the marginals have honest intervals as well."""
    monkeypatch.setattr(collapse_module, "MOST_BYTES", 0.0)
    domain = sl.Box((0, np.pi), (0, np.pi))
    equation = sl.catalogue.heat_on(domain, 5)
    fields = sl.simulate(equation, 40, TIMES, domain.grid(12), seed=3, observation_std=0.1)
    law = sl.fit(sl.mask(fields, "random", 0.3, seed=0), domain, 5, initial="stationary")
    assert any("marginal" in note for note in law.info["warnings"])
    assert_recovers(law, equation, observation_std=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2])
def test_few_sensors_do_not_lose_a_tied_drift(seed):
    """The larger model is likelier: eighteen gappy sensors barely tell twelve modes apart.

    Least squares of their rows is noise, so that a search from it alone ends hundreds of nats
    below the maximum.
    """
    lake = sl.Box((0, 10), (0, 6), boundary="neumann")
    truth = sl.catalogue.heat_on(lake, 16, kappa=0.05, nu=0.3, noise=sl.PowerLaw(1.0, 1.5))
    sensors = np.random.default_rng(seed).uniform([0, 0], [10, 6], (18, 2))
    fields = sl.simulate(truth, 1, np.arange(120.0), sensors, seed=seed, observation_std=0.3)
    fields = sl.mask(fields, "random", 0.2, seed=seed)
    how = {"drift": "parametric", "noise": "parametric", "initial": "stationary"}
    free, held = (
        sl.fit(fields, lake, 12, fixed={"s": 1.0, **more}, **how) for more in ({}, {"nu": 0.3})
    )
    gained = free.info["log_likelihood"] - held.info["log_likelihood"]
    assert 0 <= gained < 8  # one parameter more: 2 * 8 is beyond a chi-square by 1e-4
