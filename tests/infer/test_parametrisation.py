"""The score in the full vector: every structure of drift and noise, seasons, forcing, nuisance.

The log-likelihood that is differenced here is the density of the joint Gaussian itself, built
without any of the package's recursions.
"""

import numpy as np
import pytest
from tests.infer.test_coordinates import differences
from tests.parameters import each
from tests.statespace import _brute_force as oracle
from tests.statespace.cases import KINDS, basis, hide
from tests.statespace.numbers import Numbers

import spdelaw as sl
from spdelaw.infer.moments import MomentEstimates
from spdelaw.infer.optimise import Decision
from spdelaw.infer.parameters import OperatorTied, PowerTied, parametrise
from spdelaw.statespace.collapse import collapse
from spdelaw.statespace.likelihood import evaluate_likelihood

N = 3
RING = sl.Interval(0.0, 2.0, "periodic")
UNITS = np.array([1.0, 0.6, 0.9])
VALUE_TOLERANCE, SCORE_TOLERANCE = 1e-9, 1e-6
FORCING = sl.Forcing(
    [0.0, 0.5, 3.0], np.array([[2.0, -1.0, 0.4], [0.3, 1.5, 0.0], [1.0, 0.0, 2.0]])
)
WORDS = {
    "diagonal": {},
    "tied": {"drift": "parametric", "noise": "parametric"},
    "turning": {"drift": "normal"},
    "dense_drift": {"drift": "dense"},
    "dense_noise": {"noise": "dense"},
    "tied_drift_dense_noise": {"drift": "parametric", "noise": "dense"},
    "low_rank": {"drift": "normal", "noise": "low_rank"},
    "dense": {"drift": "dense", "noise": "dense"},
}


def numbers(state_space):
    """The same model in the words of the oracle."""
    d, start = state_space.linear, state_space.initial
    more = (state_space.observation_variance, start.kind, d.season, d.forcing, d.origin)
    return Numbers(d.drift, d.noise, start.mean, start.covariance, *more)


def observations(n_modes, times, pattern, seed=0):
    """Values of no model in particular: the score is right everywhere or it is wrong."""
    rng = np.random.default_rng(seed)
    phi = basis(False, n_modes)
    values = rng.standard_normal((2, len(times), len(phi)))
    return hide(values, pattern, rng), phi


def check(parametrisation, pattern="random"):
    times = np.cumsum(np.random.default_rng(2).uniform(0.1, 0.4, 4))
    values, phi = observations(parametrisation.n_modes, times, pattern)
    collapsed = collapse(values, times, phi)
    full = np.random.default_rng(1).uniform(-0.5, 0.5, len(parametrisation.names))

    def density(x):
        p = numbers(parametrisation.state_space(x))
        return sum(oracle.log_likelihood(p, path, times, phi) for path in values)

    state_space = parametrisation.state_space(full)
    value = evaluate_likelihood(collapsed, state_space)
    np.testing.assert_allclose(value.log_likelihood.sum(), density(full), rtol=VALUE_TOLERANCE)
    expected = differences(density, full)
    score = parametrisation.score(full, state_space, value)
    atol = SCORE_TOLERANCE * np.abs(expected).max()
    np.testing.assert_allclose(score, expected, rtol=SCORE_TOLERANCE, atol=atol)


def of(words, kind="gaussian", n_nuisance=0, n_paths=20, **more):
    model = sl.Model(**words)
    noise = np.concatenate([UNITS, np.full(n_nuisance, 0.5)]) ** 2
    ones = np.ones(len(noise))
    moments = MomentEstimates(ones, noise, ones, ones, ones, ones, n_paths, 3, 1.0)
    settings = {"known_variance": None, "origin": 0.1, **more}
    return parametrise(model, RING, N, Decision(kind, {}), moments, **settings)


@each(name=list(WORDS), kind=KINDS)
def test_every_drift_and_noise(name, kind):
    check(of(WORDS[name], kind))


@each(
    name=["diagonal", "dense_drift", "dense_noise", "dense"],
    more=[{"season": sl.Season(0.7, 3)}, {"forcing": FORCING}],
)
def test_forcing_and_season_with_every_structure(name, more):
    check(of({**WORDS[name], **more}))


@pytest.mark.parametrize("name", ["diagonal", "dense", "turning"])
def test_nuisance_modes_beside_every_drift(name):
    layout = of(WORDS[name], n_nuisance=2)
    assert layout.parts["drift"].nuisance == OperatorTied(
        tuple(RING.eigenvalues(5)[3:]), "nuisance_"
    )
    assert layout.parts["noise"].nuisance == PowerTied(2, 4, "nuisance_")
    check(layout)


def test_everything_at_once():
    words = {**WORDS["dense"], "forcing": FORCING, "season": sl.Season(0.7, 2)}
    check(of(words, n_nuisance=1), "rows")


def test_what_is_known_is_no_coordinate():
    layout = of({}, "deterministic", known_variance=0.3, known_mean=np.array([1.0, 2.0, 3.0]))
    assert set(layout.parts) == {"drift", "noise"}
    model = layout.state_space(np.zeros(len(layout.names)))
    np.testing.assert_array_equal(model.initial.mean, [1.0, 2.0, 3.0])
    assert model.observation_variance == 0.3
    assert len(layout.names) == len(layout.is_log) == layout.slices["noise"].stop


@pytest.mark.parametrize(
    ("name", "n_paths", "shapes"),
    [
        ("dense", 20, [(3, 3), (3, 3), (3, 3)]),
        ("dense", 5, [(3, 3), (3, 3), (3,)]),  # few paths know no covariance of their start
        ("dense_noise", 20, [(3,), (3, 3), (3, 3)]),  # spectra stay diagonal beside matrices
    ],
)
def test_shapes(name, n_paths, shapes):
    layout = of(WORDS[name], n_paths=n_paths)
    space = layout.state_space(np.zeros(len(layout.names)))
    arrays = (space.linear.drift, space.linear.noise, space.initial.covariance)
    assert [a.shape for a in arrays] == shapes
