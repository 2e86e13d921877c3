"""Many intervals at once: closed forms, the profile of each number, and when it keeps silent."""

from unittest import mock

import numpy as np
import pytest
from scipy import optimize, special

import spdelaw as sl
from spdelaw.infer.uncertainty import Held, Point, joint_ends, profile_end

Z = special.ndtri(0.975)
#: Ends are found where ``r`` is this close to the quantile.
CLOSE = 1e-2
COUNTS = np.array([30, 60, 90, 150, 400])


def variances(coupling, calls=None):
    """``sum_i -n_i/2 (t_i + exp(-t_i))`` of logarithms, tied by a term that shares a sixth number.

    Coordinates have unit variance where there is no coupling.
    """
    s = np.append(np.sqrt(2 / COUNTS), 1.0)

    def objective(u):
        if calls is not None:
            calls.append(1)
        t, shared = s[:-1] * u[:-1], u[-1]
        own = -COUNTS / 2 * (t + np.exp(-t))
        off = shared - coupling * np.tanh(u[:-1]).sum()
        by = -COUNTS / 2 * (1 - np.exp(-t)) * s[:-1] + off * coupling / np.cosh(u[:-1]) ** 2
        return own.sum() - off**2 / 2, np.append(by, -off)

    targets = [lambda u, i=i: (s[i] * u[i], np.eye(6)[i] * s[i]) for i in range(5)]
    return objective, targets


def test_numbers_that_are_apart_have_their_closed_form():
    calls = []
    objective, targets = variances(0.0, calls)
    held = Held(objective, targets, Point.top(6, -COUNTS.sum() / 2))
    for side, far in ((-1, -5.0), (1, 5.0)):
        wanted = [
            optimize.brentq(lambda t, n=n: n * (t + np.exp(-t)) - n - Z**2, side * 1e-9, far)
            for n in COUNTS
        ]
        got = joint_ends(held, np.full(5, -0.5), side, Z)
        np.testing.assert_allclose(got, wanted, atol=(CLOSE * np.sqrt(2 / COUNTS)).min())
    assert len(calls) < 12


@pytest.mark.parametrize("coupling", [0.1, 0.25])
def test_numbers_that_share_a_little_have_the_profile_of_each(coupling):
    """The shared number follows all of them: what one gains from it the others do not see."""
    objective, targets = variances(coupling)
    # Around the maximum, in coordinates of unit variance.
    step = 1e-4
    curve = [(objective(-d)[1] - objective(d)[1]) / (2 * step) for d in step * np.eye(6)]
    root = np.linalg.inv(np.linalg.cholesky(np.array(curve))).T

    def around(u):
        value, slope = objective(root @ u)
        return value, root.T @ slope

    own = [lambda u, t=t: (t(root @ u)[0], root.T @ t(root @ u)[1]) for t in targets]
    top = Point.top(6, around(np.zeros(6))[0])
    for side in (-1, 1):
        wanted = [profile_end(Held(around, [t], top), side, Z, True, -0.5) for t in own]
        got = joint_ends(Held(around, own, top), np.full(5, -0.5), side, Z)
        np.testing.assert_allclose(got, wanted, rtol=CLOSE)


def test_numbers_that_share_much_are_left_to_their_own_profiles():
    a = np.random.default_rng(0).normal(size=(4, 4))
    targets = [lambda u, row=row: (float(row @ u), row) for row in np.ones((4, 4)) + 0.1 * a]
    held = Held(lambda u: (-u @ u / 2, -u), targets, Point.top(4, 0.0))
    assert np.isnan(joint_ends(held, np.zeros(4), 1, Z)).all()


def test_a_likelihood_that_the_slopes_do_not_explain_is_left_alone():
    """Terms of many numbers at once: no sum of falls is the fall of all."""

    def objective(u):
        knot = np.prod(np.tanh(u))
        by = knot / (np.sinh(u) * np.cosh(u))
        return -u @ u / 2 - 3.0 * knot, -u - 3.0 * by

    with np.errstate(all="ignore"):
        targets = [lambda u, i=i: (u[i], np.eye(4)[i]) for i in range(4)]
        held = Held(objective, targets, Point.top(4, 0.0))
        assert np.isnan(joint_ends(held, np.zeros(4), 1, Z)).all()


def test_numbers_that_overflow_on_the_way_are_left_alone():
    """Beyond half a unit the numbers have no value: no end is found, and nothing breaks."""
    objective, targets = variances(0.0)

    def over(u, i):
        value, slope = targets[i](u)
        return (np.inf, slope * np.nan) if abs(u[i]) > 0.5 else (value, slope)

    short = [lambda u, i=i: over(u, i) for i in range(5)]
    held = Held(objective, short, Point.top(6, -COUNTS.sum() / 2))
    assert np.isnan(joint_ends(held, np.zeros(5), 1, Z)).all()


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
def test_a_fit_behind_clouds_has_the_ends_of_each_number():
    """Modes that gaps tie to one another a little: same intervals, in far fewer evaluations."""
    domain, rng = sl.Interval(0, np.pi), np.random.default_rng(1)
    times, points = np.linspace(0, 40.0, 400), domain.grid(40)
    equation = sl.catalogue.heat(5, nu=0.5, noise=sl.PowerLaw(0.5))
    fields = sl.simulate(equation, 1, times, points, seed=3, observation_std=0.1)
    fields.values[rng.uniform(size=fields.shape) < 0.4] = np.nan
    law = sl.fit(fields, domain, 5, mean="zero")
    with mock.patch("spdelaw.infer.uncertainty.FEWEST", 1000):
        single = sl.fit(fields, domain, 5, mean="zero")
    assert law.info["profiled"] == single.info["profiled"]
    assert len(law.info["profiled"]) >= 4
    for name in ("eigenvalue", "noise_variance"):
        own, other = law.parameters[name].values, single.parameters[name].values
        error = other[:, 1] / other[:, 0]  # of the logarithm
        gap = np.abs(np.log(own[:, 2:] / other[:, 2:])) / error[:, None]
        assert gap.max() < CLOSE
    spent = [x.info["convergence"]["evaluations_for_intervals"] for x in (law, single)]
    assert spent[0] < 0.5 * spent[1]
