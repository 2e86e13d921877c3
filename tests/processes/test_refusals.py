"""Wrong equations and parts of equations: an error with the word that leads to the fix."""

import dataclasses

import numpy as np
import pytest
from tests.processes.test_matrices import equation as coupled
from tests.processes.test_spde import equation as plain

import spdelaw as sl
from spdelaw.errors import DomainError, EquationError
from spdelaw.processes.terms import bind, bound

RING = sl.Interval(0.0, 2 * np.pi, "periodic")
BOTH = sl.Fields(RING, ("u", "v"))
HEAT, EXCITABLE = sl.catalogue.periodic_heat(5), sl.catalogue.fitzhugh_nagumo(3).linear
FORCING = sl.Forcing([0.0, 2.0], np.ones((2, 3)))
SEASON = sl.Season(0.7, [4.0, 1.0, 0.5])
REMEDY = r"expected .* got .* Fix:"

PLAIN = [
    {"domain": "interval"}, {"drift": [1.0, 2.0]},
    {"drift": [-1.0, 1.0, 2.0, 3.0]}, {"drift": "fast"}, {"noise": [1.0, np.nan, 1.0, 1.0]},
    {"noise": None}, {"initial": "equilibrium"}, {"initial": [1.0] * 5},
    {"initial": sl.Gaussian(0.0, -1.0)},
    {"initial": "stationary", "drift": sl.OperatorFormula()}, {"times": [0.0, 0.0]},
    {"times": [[0.0]]}, {"times": []}, {"times": "now"},
]  # fmt: skip
COUPLED = [
    ({"drift": -np.eye(3)}, "negative real part"),
    ({"drift": np.eye(4)}, "shape"),
    ({"drift": np.full((3, 3), np.nan)}, "finite"),
    ({"noise": np.diag([1.0, 1.0, -1.0])}, "negative eigenvalues"),
    ({"noise": np.triu(np.ones((3, 3)))}, "symmetric"),
    ({"initial": sl.Gaussian(0.0, np.eye(2))}, "shape"),
    ({"drift": np.diag([1.0, 2.0, 0.0]), "initial": "stationary"}, "damps"),
    (
        {"drift": np.eye(3), "noise": np.ones(3), "initial": "stationary", "season": SEASON},
        "season",
    ),
    ({"season": 4}, "a Season"),
    ({"forcing": 1.0}, "a Forcing"),
]
FORCINGS = [
    ([0.0], [[1.0]]), ([0.0, 0.0], [[1.0], [1.0]]), ([0.0, np.nan], [[1.0], [1.0]]),
    ([0.0, 1.0], [[1.0]]), ([0.0, 1.0], [1.0, 2.0]), ([0.0, 1.0], [[np.inf], [1.0]]),
    ([0.0, 1.0], np.zeros((2, 0))), (["a", "b"], [[1.0], [1.0]]),
]  # fmt: skip
SEASONS = [
    (0.0, 4), (-1.0, 4), (np.inf, 4), ("year", 4), (True, 4), (1.0, 1), (1.0, 1000), (1.0, True),
    (1.0, [1.0]), (1.0, [1.0, 0.0]), (1.0, [1.0, -1.0]), (1.0, [1.0, np.nan]), (1.0, "four"),
    (1.0, [[1.0, 2.0]]), (1.0, 2.5),
]  # fmt: skip
STILL = [
    sl.Interval(0, 1), sl.Line(), sl.Plane(), sl.Box((0, 1), (0, 1)),
    sl.Box((0, 1), (0, 1), boundary="periodic"),
]  # fmt: skip
ROWS = [
    *((lambda c=c: plain(**c), REMEDY) for c in PLAIN),
    *((lambda c=c: coupled(**c), word) for c, word in COUPLED),
    *((lambda v=v: sl.PowerLaw(v), "finite number") for v in ("2", None, np.inf, True)),
    *(
        (lambda d=d: sl.SpectralSPDE.from_dict(d), "to_dict")
        for d in ({}, {"domain": {"name": "line"}}, {"initial": 3})
    ),
    *((lambda a=a: sl.Forcing(*a), "forcing") for a in FORCINGS),
    *((lambda a=a: sl.Season(*a), "season") for a in SEASONS),
    *((lambda d=d: sl.catalogue.advection_diffusion_on(d, 5), r"can rotate.*Fix: ") for d in STILL),
    *(
        (lambda n=n: bind([n], RING, 5), "polynomial")
        for n in ("v", "u^9", "", "u_w", "sin(u)", "u^")
    ),
    (lambda: FORCING.response(np.ones(3), np.array([2.5])), r"known from 0 to 2\b"),
    (lambda: FORCING.response(np.ones(3), np.array([1.0]), -1.0), "known from"),
    (lambda: bind(["u_x^2"], sl.Sphere(), 4), "without derivatives"),
    (lambda: bind(["u_y"], RING, 4), "derivatives along"),
    (lambda: bind(["u", "u"], RING, 4), "each term once"),
    (lambda: bound(("u^3",), BOTH, 6), "field of a term"),
    (lambda: bound(("u: u",), BOTH, 5), "as many modes of each"),
    (lambda: sl.Semilinear(HEAT, ["u"]), "expected a dict"),
    (lambda: sl.Semilinear(HEAT, {"u": np.nan}), "finite numbers"),
    (lambda: sl.Semilinear(HEAT, {"u": "much"}), "numbers"),
    (lambda: sl.Semilinear(sl.catalogue.advection_diffusion(5), {"u": 1.0}), "not coupled"),
    (lambda: sl.Semilinear("heat", {"u": 1.0}), "SpectralSPDE"),
    (lambda: sl.Semilinear.from_dict({"terms": {}}), "plain description"),
    (lambda: sl.Semilinear(EXCITABLE, {"u": {"u w": 1.0}, "v": {}}), "polynomial"),
    (lambda: sl.Semilinear(EXCITABLE, {"u": {"u u_x": 1.0}, "v": {}}), "polynomial"),
    (lambda: sl.Semilinear(EXCITABLE, {"u": {"|grad u|^2": 1.0}, "v": {}}), "polynomial"),
    (lambda: sl.Semilinear(EXCITABLE, {"w": {"u": 1.0}, "v": {"v": 1.0}}), "terms by field"),
    (lambda: sl.Semilinear(EXCITABLE, {"u": 1.0}), "names in a tuple"),
    (
        lambda: sl.catalogue.fields_on(
            RING, 3, {"u": {}, "v": {}}, nu={"u": 1.0}, noise={}, initial={}, times=[0.0, 1.0]
        ),
        "one entry for each",
    ),
    (lambda: dataclasses.replace(plain(), initial_time=5.0, times=[5.0]).mean([4.0]), "initial"),
    (lambda: plain().with_modes(5), "at most 4"),
]


@pytest.mark.parametrize(("call", "word"), ROWS)
def test_refusals(call, word):
    with pytest.raises((DomainError, EquationError), match=word):
        call()


@pytest.mark.parametrize("changes", [{"n_modes": 0}, {"initial": lambda x: 1 / 0}])
def test_refusals_of_the_domain(changes):
    with pytest.raises(DomainError, match=REMEDY):
        plain(**changes)
