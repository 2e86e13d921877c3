"""The score in the full vector: every structure of drift and noise, seasons, forcing, nuisance.

The log-likelihood that is differenced here is the density of the joint Gaussian itself, built
without any of the package's recursions.
"""

import numpy as np
import pytest
from tests.infer.test_coordinates import differences
from tests.statespace import _brute_force as oracle
from tests.statespace.cases import KINDS, basis, hide
from tests.statespace.numbers import Numbers

import spdelaw as sl
from spdelaw.infer.model import Decision
from spdelaw.infer.moments import MomentEstimates
from spdelaw.infer.parameters import OperatorTied, PowerTied, WithNuisance, parametrise
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
    r, known = state_space.observation_variance, (d.season, d.forcing, d.origin)
    return Numbers(d.drift, d.noise, start.mean, start.covariance, r, start.kind, *known)


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
    found = evaluate_likelihood(collapsed, state_space)
    np.testing.assert_allclose(found.log_likelihood.sum(), density(full), rtol=VALUE_TOLERANCE)
    expected = differences(density, full)
    score = parametrisation.score(full, state_space, found)
    atol = SCORE_TOLERANCE * np.abs(expected).max()
    np.testing.assert_allclose(score, expected, rtol=SCORE_TOLERANCE, atol=atol)


def of(words, kind="gaussian", n_nuisance=0, n_paths=20, **more):
    model = sl.Model(**words)
    noise = np.concatenate([UNITS, np.full(n_nuisance, 0.5)]) ** 2
    ones = np.ones(len(noise))
    moments = MomentEstimates(ones, noise, ones, ones, ones, ones, n_paths, 3, 1.0)
    settings = {"known_variance": None, "origin": 0.1, **more}
    return parametrise(model, RING, N, Decision(kind, {}), moments, **settings)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WORDS)
def test_every_drift_and_noise(name, kind):
    check(of(WORDS[name], kind))


@pytest.mark.parametrize("name", ["diagonal", "dense_drift", "dense_noise"])
def test_forcing_with_every_drift(name):
    check(of({**WORDS[name], "forcing": FORCING}))


@pytest.mark.parametrize("name", ["diagonal", "dense_drift", "dense_noise"])
def test_season_with_every_noise(name):
    check(of({**WORDS[name], "season": sl.Season(0.7, 3)}))


@pytest.mark.parametrize("name", ["diagonal", "dense", "turning"])
def test_nuisance_modes_beside_every_drift(name):
    found = of(WORDS[name], n_nuisance=2)
    assert isinstance(found.parts["drift"], WithNuisance)
    assert {"nuisance_nu", "nuisance_exponent"} <= set(found.names)
    check(found)


def test_everything_at_once():
    words = {**WORDS["dense"], "forcing": FORCING, "season": sl.Season(0.7, 2)}
    check(of(words, n_nuisance=1), "rows")


def test_what_is_known_is_no_coordinate():
    found = of({}, "deterministic", known_variance=0.3, known_mean=np.array([1.0, 2.0, 3.0]))
    assert set(found.parts) == {"drift", "noise"}
    model = found.state_space(np.zeros(len(found.names)))
    np.testing.assert_array_equal(model.initial.mean, [1.0, 2.0, 3.0])
    assert model.observation_variance == 0.3
    assert len(found.names) == len(found.is_log) == found.slices["noise"].stop


@pytest.mark.parametrize(("n_paths", "shape"), [(20, (3, 3)), (5, (3,))])
def test_few_paths_know_no_covariance_of_their_start(n_paths, shape):
    found = of(WORDS["dense"], n_paths=n_paths)
    assert found.state_space(np.zeros(len(found.names))).initial.covariance.shape == shape


def test_spectra_stay_diagonal_beside_matrices():
    found = of(WORDS["dense_noise"])
    linear = found.state_space(np.zeros(len(found.names))).linear
    assert (linear.drift.shape, linear.noise.shape) == ((N,), (N, N))


def test_tied_nuisance_modes_follow_the_domain():
    found = of({}, n_nuisance=2)
    drift, noise = found.parts["drift"].nuisance, found.parts["noise"].nuisance
    assert drift == OperatorTied(tuple(RING.eigenvalues(5)[3:]), "nuisance_")
    assert noise == PowerTied(2, 4, "nuisance_")
