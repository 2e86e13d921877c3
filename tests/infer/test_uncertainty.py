"""Standard errors, intervals and distance to the truth mean what they say."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.fitted import INTERVAL, POINTS, TIMES, fitted, heat, refit, small
from tests.infer.recovery import estimates

import spdelaw as sl
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.infer.assemble import identifiability, identifiability_messages
from spdelaw.processes.linear import Linear

#: Allowed multiple of the expected divergence p / (2 M).
KL_FACTOR = 1.5


def test_divergence_to_the_truth_is_at_the_statistical_limit():
    equation, n_paths = heat(8), 100
    times, grid = np.linspace(0.0, 1.0, 101), INTERVAL.grid(21)
    gaps = []
    for seed in range(20):
        fields = sl.simulate(equation, n_paths, times, grid, seed=seed)
        law = sl.fit(fields, INTERVAL, 8, mean="zero", engine=sl.Exact(profile=False))
        gaps.append(law.kl_divergence(equation))
    limit = 16 / (2 * n_paths)
    assert limit / KL_FACTOR < np.mean(gaps) < KL_FACTOR * limit


def test_intervals_have_their_level():
    wide, narrow = (refit("complete", level=level) for level in (0.99, 0.5))
    for name in ("eigenvalue", "noise_variance"):
        a, b = wide.parameters[name], narrow.parameters[name]
        np.testing.assert_allclose(a.sel(statistic="stderr"), b.sel(statistic="stderr"), rtol=1e-9)
        ratio = np.log(a.sel(statistic="upper") / a.sel(statistic="lower")) / np.log(
            b.sel(statistic="upper") / b.sel(statistic="lower")
        )
        # Quantiles of the normal: 2.5758 and 0.6745. Profiles are wider far out, the others not.
        apart = np.array([f"{name}[{n}]" in wide.info["profiled"] for n in a.mode.values])
        expected = 2.575829 / 0.674490
        np.testing.assert_allclose(ratio[~apart], expected, rtol=1e-5)
        np.testing.assert_allclose(ratio, expected, rtol=0.1)
    assert wide.parameters.attrs["interval_level"] == 0.99


def test_bootstrap_agrees_with_the_information():
    """30 replicates: the ratio of errors is within its own 1e-4 quantiles, chi with 29 df."""
    plain, law = fitted("complete").law, refit("complete", bootstrap=30, seed=1)
    assert law.info["bootstrap"] == {"replicates": 30, "used": 30}
    for name in ("eigenvalue", "noise_variance"):
        ratio = estimates(law, name, "stderr") / estimates(plain, name, "stderr")
        assert (ratio > 0.5).all()
        assert (ratio < 1.7).all()
        np.testing.assert_array_equal(estimates(law, name), estimates(plain, name))
        assert (estimates(law, name, "lower") < estimates(law, name, "upper")).all()
    one, again = (refit("complete", bootstrap=3, seed=1) for _ in range(2))
    np.testing.assert_array_equal(again.parameters.eigenvalue, one.parameters.eigenvalue)


@pytest.mark.parametrize(
    ("n_sets", "noise", "least", "most"),
    [
        (30, 0.0, 0.87, 1.0),  # false alarms of 1e-4: binomial, 180 intervals of 95 %
        # One standard deviation of the share in 3,000 intervals is 0.4 %.
        pytest.param(500, 0.0, 0.935, 0.965, marks=pytest.mark.slow),
        pytest.param(500, 0.05, 0.935, 0.965, marks=pytest.mark.slow),
    ],
)
def test_simulation_based_calibration(n_sets, noise, least, most):
    """Share of 95 % intervals of both spectra that hold the truth; 3 modes, 30 x 30."""
    times, equation, hits = np.linspace(0.0, 1.0, 30), heat(), []
    truth = {"eigenvalue": equation.eigenvalues, "noise_variance": equation.noise_variance}
    for seed in range(n_sets):
        fields = sl.simulate(equation, 30, times, POINTS, seed=seed, observation_std=noise)
        law = sl.fit(fields, INTERVAL, 3, observation_noise="estimate" if noise else "none")
        for name, x in truth.items():
            hits += list((estimates(law, name, "lower") < x) & (x < estimates(law, name, "upper")))
    assert least < np.mean(hits) < most


# -- what the data cannot tell --------------------------------------------------------


def test_steps_far_longer_than_the_memory_are_named():
    """Only q / (2 lambda) is seen: the unit of time is a likely mistake."""
    fields = small(20, initial="stationary", times=1e3 * TIMES)
    with pytest.warns(IdentifiabilityWarning, match="unit of time") as caught:
        law = sl.fit(fields, INTERVAL, 3)
    assert "do not determine eigenvalue[1" in str(caught[0].message)
    assert law.info["identifiability"]["undetermined"]
    assert any("unit of time" in note for note in law.info["warnings"])


def test_a_record_far_shorter_than_the_memory_is_named():
    fields = small(4, initial="stationary", times=1e-6 * TIMES)
    with pytest.warns(IdentifiabilityWarning):
        law = sl.fit(fields, INTERVAL, 3)
    assert "eigenvalue[1]" in law.info["identifiability"]["undetermined"]


def test_modes_without_energy_are_named():
    """Ten modes of a field that has three, without noise: rounding is no law."""
    with pytest.warns(
        IdentifiabilityWarning, match="no energy beyond rounding errors in modes 4, 5"
    ):
        law = sl.fit(small(6), INTERVAL, 10, mean="zero", engine=sl.Exact(profile=False))
    assert law.info["identifiability"]["silent"] == [4, 5, 6, 7, 8, 9, 10]


def test_a_good_fit_warns_of_nothing():
    law = fitted("gaps").law
    assert not any(law.info["identifiability"].values())
    assert law.info["warnings"] == []


def test_what_is_unknown_is_said_in_one_line():
    """Once 47 names one after the other."""
    labels = [f"eigenvalue[{n}]" for n in (1, 2, 3, 5, 7, 8)] + ["noise_variance[2]"]
    groups = {"undetermined": [*labels, "observation_std"], "inseparable": [], "silent": []}
    (line,) = identifiability_messages(groups)
    names = "eigenvalue[1-3, 5, 7-8], noise_variance[2] and observation_std: their intervals"
    assert line.startswith(f"the data do not determine {names}")


def test_every_pair_that_cannot_be_separated_is_named_once():
    columns = 0.1 * np.random.default_rng(0).standard_normal((6, 6))
    columns[4], columns[5] = -2.0 * columns[1], columns[0]
    names = tuple(f"eigenvalue[{n}]" for n in range(1, 7))
    linear = Linear(np.ones(6), np.ones(6))
    estimate = SimpleNamespace(
        columns=columns,
        parametrisation=SimpleNamespace(names=names, is_log=np.ones(6, bool)),
        state_space=SimpleNamespace(dynamics=linear, linear=linear),
    )
    pairs = identifiability(estimate, 6)["inseparable"]
    assert pairs == [["eigenvalue[1]", "eigenvalue[6]"], ["eigenvalue[2]", "eigenvalue[5]"]]


@pytest.mark.filterwarnings("ignore::spdelaw.errors.SpdeLawWarning")
@pytest.mark.parametrize("seed", [0, 2])
def test_a_mode_without_noise_leaves_the_errors_of_others(seed):
    """Its likelihood lost its digits, and the curvature of all modes with them."""
    rng, rates, noise = np.random.default_rng(seed), np.array([1, 0.05, 9]), np.array([1, 0, 0.3])
    points, c = np.linspace(0.0, np.pi, 17), np.zeros((200, 3))
    c[0, 1] = 5.0
    for t in range(1, 200):
        shock = np.sqrt(0.05 * noise) * rng.standard_normal(3)
        c[t] = np.exp(-0.05 * rates) * c[t - 1] + shock
    domain = sl.Interval(0.0, np.pi)
    u = c @ domain.eigenfunctions(points, 3).T + 0.1 * rng.standard_normal((200, 17))
    fields = sl.as_fields(u[None], times=0.05 * np.arange(200), points=points)
    words = {"initial": "deterministic", "mean": "zero", "observation_noise": "estimate"}
    law = sl.fit(fields, domain, 3, **words)
    assert (law.parameters["eigenvalue"].values[:, 1] < [1.0, 0.005, 3.0]).all()
