"""The chaos and amortized engines work on mode coefficients: two dimensions are as good as one."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.errors import InputError
from spdelaw.law.prediction import chaos_posterior

pytest.importorskip("torch")

TIMES = np.linspace(0.0, 1.0, 21)
DOMAINS = {
    "box": (sl.Box((0, np.pi), (0, np.pi)), 8),
    "sphere": (sl.Sphere(), 6),
}
ENGINES = {
    "chaos": {"engine": "chaos", "n_time": 8},
    "amortized": {"engine": "amortized", "preset": "structured"},
}
DROPPED = {"engine": "chaos", "n_time": 8, "tail": "dropped"}


def estimates(law):
    return [law.parameters[name].sel(statistic="estimate").values
            for name in ("eigenvalue", "noise_variance")]  # fmt: skip


def stderrs(law):
    return [law.parameters[name].sel(statistic="stderr").values
            for name in ("eigenvalue", "noise_variance")]  # fmt: skip


@pytest.fixture(scope="module")
def line():
    """Coefficients of four modes, and noise-free fields of them on an interval."""
    heat = sl.catalogue.heat(n_modes=4, nu=0.3, kappa=1.0)
    coefficients = heat.domain.analyse(sl.simulate(heat, 60, TIMES, seed=0), 4)
    return heat.domain, coefficients


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", DOMAINS)
def test_the_same_coefficients_give_the_same_law(name, engine, line):
    """Whatever the modes look like; two maximisers stop within a part of a standard error."""
    interval, coefficients = line
    domain, n_points = DOMAINS[name]
    fields = domain.synthesise(coefficients, domain.grid(n_points))
    one = sl.fit(interval.synthesise(coefficients, interval.grid(33)), interval, 4,
                 **ENGINES[engine])  # fmt: skip
    two = sl.fit(fields, domain, 4, **ENGINES[engine])
    for a, b, error in zip(estimates(one), estimates(two), stderrs(one), strict=True):
        assert (np.abs(a - b) < 0.02 * error).all()


def test_a_dropped_tail_sees_only_the_number_of_points(line):
    """It counts as noise at each point: 64 on a line are as good as 8 times 8 in a square."""
    interval, coefficients = line
    box, n_points = DOMAINS["box"]
    first, second = interval.grid(n_points**2), box.grid(n_points)
    one = sl.fit(interval.synthesise(coefficients, first), interval, 4, **DROPPED)
    two = sl.fit(box.synthesise(coefficients, second), box, 4, **DROPPED)
    for a, b in zip(estimates(one), estimates(two), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_a_dropped_tail_comes_back_with_more_functions_of_time():
    """The law tends to the exact one, and the likelihood it gives away to nothing."""
    sphere, n_points = DOMAINS["sphere"]
    equation = sl.catalogue.heat_on(sphere, 4, nu=0.3, initial=0.0)
    data = sl.simulate(equation, 20, TIMES, sphere.grid(n_points), seed=0, observation_std=0.05)
    gappy = sl.mask(data, "random", 0.2, seed=0)
    exact = sl.fit(gappy, sphere, 4, initial="deterministic")
    few, many = (
        sl.fit(gappy, sphere, 4, **DROPPED | {"n_time": k}, initial="deterministic")
        for k in (8, 32)
    )
    assert abs(many.info["truncation_loss"]) < 0.1 * few.info["truncation_loss"]
    near, far = (np.abs(np.log(estimates(law)[1] / estimates(exact)[1])).max()
                 for law in (many, few))  # fmt: skip
    assert near < 0.5 * far


@pytest.fixture(scope="module", params=DOMAINS)
def gappy(request):
    domain, n_points = DOMAINS[request.param]
    equation = sl.catalogue.heat_on(domain, 4, nu=0.3)
    data = sl.simulate(equation, 40, TIMES, domain.grid(n_points), seed=0, observation_std=0.05)
    return domain, sl.mask(data, "random", 0.2, seed=0), data


def test_chaos_coordinates_through_gaps(gappy):
    """With all of the tail the law is the exact one; coordinates rebuild what was not seen."""
    domain, data, whole = gappy
    exact = sl.fit(data, domain, 4, initial="stationary")
    law = sl.fit(data, domain, 4, initial="stationary", engine="chaos", n_time=24)
    for a, b in zip(estimates(law), estimates(exact), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    found = chaos_posterior(law, data)
    assert found["xi_mean"].sizes["k"] == 24
    field = found["reconstruct_truncated"]
    assert field.dims == data.dims
    hidden = data.isnull().values
    error = (field - law.reconstruct(data)["mean"]).values[hidden]
    assert np.sqrt((error**2).mean()) < 0.2 * whole.values[hidden].std()


def test_structured_reconstruction_through_gaps(gappy):
    from spdelaw.amortized.engine import amortized_reconstruct

    domain, data, whole = gappy
    exact = sl.fit(data, domain, 4, initial="stationary")
    law = sl.fit(data, domain, 4, initial="stationary", engine="amortized", preset="structured")
    for a, b, error in zip(estimates(law), estimates(exact), stderrs(exact), strict=True):
        assert (np.abs(a - b) < 0.02 * error).all()
    found = amortized_reconstruct(law, data)["mean"]
    assert found.dims == data.dims
    hidden = data.isnull().values
    hidden[:, 0] = False  # not fitted and not scored, as in the paper
    error = (found - whole).values[hidden]
    assert np.sqrt((error**2).mean()) < 0.5 * whole.values[hidden].std()


@pytest.mark.parametrize("engine", ["chaos", "amortized"])
def test_transport_needs_the_exact_engine(engine):
    sphere = sl.Sphere()
    data = sl.simulate(sl.catalogue.rotating_sphere(4), 8, TIMES, sphere.grid(6), seed=0)
    with pytest.raises(InputError, match="engine='exact'"):
        sl.fit(data, sphere, 4, drift="normal", engine=engine)
