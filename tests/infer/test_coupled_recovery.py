"""Drift matrices and noise covariances come out as they were put in, on every kind of data."""

import dataclasses

import numpy as np
import pytest
from tests.infer.coupled import (
    POINTS,
    RING,
    TIMES,
    WITHIN,
    N,
    assert_recovers,
    equation,
    fields,
    z_scores,
)

import spdelaw as sl
from spdelaw.errors import InputError

DRIFTS = ("diagonal", "parametric", "normal", "dense")
NOISES = ("diagonal", "parametric", "low_rank", "dense")
PAIRS = [(d, n) for d in DRIFTS for n in NOISES if d in ("normal", "dense") or n in NOISES[2:]]


# Two decay rates of the dense truth nearly coincide: its entries are determined, the modes are not.
@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
@pytest.mark.parametrize(("drift", "noise"), PAIRS)
def test_every_structure_on_complete_fields(drift, noise):
    e = equation(drift, noise)
    fixed = {"s": 1.0} if drift == "parametric" else None
    law = sl.fit(fields(e), RING, N, drift=drift, noise=noise, initial="stationary", fixed=fixed)
    assert law.info["route"] == "statistics"
    assert (law.info["drift"], law.info["noise"]) == (drift, noise)
    assert_recovers(law, e)
    assert law.kl_divergence(e) < 4 * law.info["n_parameters"] / (2 * 60)


@pytest.mark.parametrize(
    ("drift", "noise"),
    [("normal", "diagonal"), ("diagonal", "low_rank"),
     pytest.param("dense", "dense", marks=pytest.mark.slow)],
)  # fmt: skip
def test_noise_and_gaps(drift, noise):
    e = equation(drift, noise)
    gappy = sl.mask(fields(e, 40, std=0.3), "random", 0.3, seed=1)
    law = sl.fit(gappy, RING, N, drift=drift, noise=noise, initial="stationary")
    assert law.info["route"] == "filter"
    assert_recovers(law, e)
    std = law.parameters.observation_std.values
    assert abs(std[0] - 0.3) < WITHIN * std[1]


@pytest.mark.parametrize("initial", ["gaussian", [1.0, -2.0, 0.5]])
def test_other_initial_states(initial):
    e = equation("normal", "low_rank", "gaussian")
    if initial != "gaussian":
        e = dataclasses.replace(e, initial=initial)
    law = sl.fit(fields(e), RING, N, drift="normal", noise="low_rank")
    assert law.initial.kind == e.initial_kind
    assert_recovers(law, e)
    if initial == "gaussian":
        p = law.parameters
        for name, truth in (("initial_mean", e.initial_mean),
                            ("initial_covariance", e.initial_covariance)):  # fmt: skip
            z = (p[name].sel(statistic="estimate") - truth) / p[name].sel(statistic="stderr")
            assert np.abs(z).max() < WITHIN


def test_times_of_each_path():
    e = equation("normal", "dense")
    rng = np.random.default_rng(5)
    paths = []
    for i in range(25):
        times = np.sort(np.append(0.0, rng.uniform(0.0, 4.0, 30)))
        one = sl.simulate(e, 1, times, POINTS, seed=100 + i)
        paths.append(one.isel(path=0, drop=True))
    law = sl.fit(sl.stack(paths), RING, N, drift="normal", noise="dense", initial="stationary")
    assert_recovers(law, e)


def test_a_single_long_path():
    e = equation("dense", "dense")
    long = sl.simulate(e, 1, np.linspace(0.0, 300.0, 3001), POINTS, seed=2)
    law = sl.fit(long, RING, N, drift="dense", noise="dense")
    assert_recovers(law, e)


def test_modes_beyond_the_reported_ones():
    """Three coupled modes reported, two more modelled on a grid with gaps."""
    e = equation("normal", "diagonal")
    gappy = sl.mask(fields(e, 40, std=0.1), "random", 0.2, seed=3)
    law = sl.fit(gappy, RING, 3, drift="normal", nuisance=2, initial="stationary")
    assert law.info["n_nuisance"] == 2
    assert law.parameters["drift"].shape == (3, 3, 4)
    first = sl.SpectralSPDE(
        RING, 3, e.drift_matrix[:3, :3], noise=e.noise_variance[:3], initial="stationary"
    )
    z = z_scores(law, first)
    assert np.abs(z).max() < WITHIN, np.round(z, 2)


def test_update_adds_paths():
    data = fields(equation("normal", "low_rank"), 40)
    settings = {"drift": "normal", "noise": "low_rank", "initial": "stationary"}
    first = sl.fit(data[:20], RING, N, **settings)
    both = sl.update(first, data[20:])
    whole = sl.fit(data, RING, N, **settings)
    np.testing.assert_allclose(
        both.parameters["drift"].values, whole.parameters["drift"].values, atol=2e-4
    )


def test_coupled_structures_contain_the_diagonal_law():
    """More freedom: a higher likelihood, by about half the additional parameters."""
    e = sl.SpectralSPDE(RING, N, [0.4, 0.9, 1.1, 1.7, 2.0], noise=1.0 + np.arange(N),
                        initial="stationary")  # fmt: skip
    data = fields(e)
    small = sl.fit(data, RING, N, initial="stationary")
    large = sl.fit(data, RING, N, initial="stationary", drift="dense", noise="dense")
    extra = large.info["n_parameters"] - small.info["n_parameters"]
    assert extra == N * (N - 1) + N * (N - 1) // 2
    gain = 2 * (large.info["log_likelihood"] - small.info["log_likelihood"])
    assert 0.0 < gain < extra + 4 * np.sqrt(2 * extra)  # chi-squared with `extra` degrees
    assert_recovers(large, e)


def test_bootstrap_agrees_with_the_information_matrix():
    e = equation("normal", "diagonal")
    law = sl.fit(fields(e, 30), RING, N, drift="normal", initial="stationary", bootstrap=40)
    plain = sl.fit(fields(e, 30), RING, N, drift="normal", initial="stationary")
    a, b = (x.parameters["drift"].sel(statistic="stderr").values for x in (law, plain))
    free = b > 0
    assert np.abs(np.log(a[free] / b[free])).max() < 0.6


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"drift": "normal", "domain": sl.Interval(0, 2)}, "periodic"),
        ({"noise": "low_rank", "noise_rank": 3}, "noise_rank"),
        ({"noise": "low_rank", "noise_rank": 9}, "noise_rank"),
        ({"drift": "dense", "engine": "chaos"}, "drift"),
        ({"noise": "dense", "engine": "chaos", "tail": "dropped"}, "noise"),
        ({"drift": "dense", "fixed": {"eigenvalue": 1.0}}, "fixed"),
    ],
)
def test_what_cannot_be_is_refused(settings, word):
    chosen = {"domain": RING, **settings}
    data = sl.simulate(equation("diagonal", "diagonal"), 8, TIMES[:6], RING.grid(9)[:-1], seed=0)
    with pytest.raises(InputError, match=word):
        sl.fit(data, n_modes=N, **chosen)
