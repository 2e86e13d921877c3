"""A law of coupled modes around a cycle that nothing disturbs is a stable law, rounding or not."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.infer.assemble import _decaying
from spdelaw.processes.linear import Linear
from spdelaw.processes.specification import InitialState
from spdelaw.statespace.chain import StateSpace


@pytest.mark.parametrize("kind", ["stationary", "gaussian"])
@pytest.mark.parametrize("decay", [0.0, -3e-16, 1e-12])
def test_a_cycle_without_decay_is_a_law(kind, decay):
    """Raw sea-surface temperatures of 8 dense modes had a decay of -3e-16, and no file to load."""
    drift = np.array([[decay, 0.5, 0.0], [-0.5, decay, 0.1], [0.0, 0.0, 0.2]])
    start = InitialState(kind, np.zeros(3), np.eye(3))
    space = _decaying(StateSpace(Linear(drift, np.ones(3)), start, np.asarray(0.0)))
    found = space.linear.drift
    assert (np.linalg.eigvals(found).real > 0).all()
    np.testing.assert_allclose(found, drift, atol=1e-8)
    equation = sl.SpectralSPDE(
        sl.Interval(0, np.pi), 3, found, noise=np.ones(3), initial="stationary"
    )
    assert len(equation.eigenvalues) == 3
    if kind == "stationary":  # Lambda P + P Lambda' = Q
        p = space.initial.covariance
        np.testing.assert_allclose(found @ p + p @ found.T, np.eye(3), atol=1e-5)
    else:
        np.testing.assert_array_equal(space.initial.covariance, np.eye(3))


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
def test_a_fit_gives_such_a_law(monkeypatch):
    """Whatever the search ends with, the law has at least the decay that `_decaying` leaves."""
    times, points = np.linspace(0.0, 1.0, 21), np.linspace(0.1, 3.0, 7)
    fields = sl.simulate(sl.catalogue.heat(n_modes=2), 5, times, points, seed=0)
    monkeypatch.setattr("spdelaw.infer.assemble.LEAST_DECAY", 10.0)
    law = sl.fit(fields, sl.Interval(0, np.pi), 2, drift="dense", mean="zero", nuisance=0)
    drift = law.parameters.drift.values[..., 0]
    assert np.linalg.eigvals(law.linear.drift).real.min() > 9.0 * np.abs(drift).max()


def test_what_decays_is_left_alone():
    drift = np.array([[0.1, 0.5], [-0.5, 0.1]])
    start = InitialState("stationary", np.zeros(2), np.eye(2))
    for own in (drift, np.array([0.0, 1.0])):
        space = StateSpace(Linear(own, np.ones(2)), start, np.asarray(0.0))
        assert _decaying(space) is space
