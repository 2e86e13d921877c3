"""Standard errors, intervals and distance to the truth mean what they say."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.infer.recovery import INTERVAL, POINTS, TIMES, heat, small

import spdelaw as sl
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.infer.assemble import _rates_with_errors, identifiability, in_words
from spdelaw.infer.engines.exact import build_statistics_objective
from spdelaw.statespace.statistics import collect

#: Allowed multiple of the expected divergence p / (2 M).
KL_FACTOR = 1.5


def test_divergence_to_the_truth_is_at_the_statistical_limit():
    equation = sl.catalogue.heat(n_modes=8)
    times, grid = np.linspace(0.0, 1.0, 101), INTERVAL.grid(21)
    n_paths, found = 100, []
    for seed in range(20):
        fields = sl.simulate(equation, n_paths, times, grid, seed=seed)
        found.append(sl.fit(fields, INTERVAL, 8).kl_divergence(equation))
    limit = 16 / (2 * n_paths)
    assert limit / KL_FACTOR < np.mean(found) < KL_FACTOR * limit


def test_errors_shrink_like_the_root_of_the_paths():
    errors = [
        sl.fit(small(n, seed=1), INTERVAL, 3).parameters.eigenvalue.sel(statistic="stderr").values
        for n in (50, 800)
    ]
    np.testing.assert_allclose(errors[0] / errors[1], 4.0, rtol=0.15)


def test_intervals_have_the_level_asked_for():
    fields = small(30, seed=2)
    wide, narrow = (sl.fit(fields, INTERVAL, 3, level=level) for level in (0.99, 0.5))
    for name in ("eigenvalue", "noise_variance"):
        a, b = wide.parameters[name], narrow.parameters[name]
        np.testing.assert_allclose(a.sel(statistic="stderr"), b.sel(statistic="stderr"), rtol=1e-9)
        ratio = np.log(a.sel(statistic="upper") / a.sel(statistic="lower")) / np.log(
            b.sel(statistic="upper") / b.sel(statistic="lower")
        )
        # Quantiles of the normal: 2.5758 and 0.6745. Profiles are wider far out, the others not.
        apart = [f"{name}[{n}]" in wide.info["profiled"] for n in a.mode.values]
        expected = 2.575829 / 0.674490
        np.testing.assert_allclose(ratio[~np.array(apart)], expected, rtol=1e-5)
        np.testing.assert_allclose(ratio, expected, rtol=0.1)
    assert wide.parameters.attrs["interval_level"] == 0.99


def test_bootstrap_agrees_with_the_information():
    """30 replicates: the ratio of errors is within its own 1e-4 quantiles, chi with 29 df."""
    fields = small(40, seed=3)
    plain = sl.fit(fields, INTERVAL, 3)
    law = sl.fit(fields, INTERVAL, 3, bootstrap=30, seed=1)
    assert law.info["bootstrap"] == {"replicates": 30, "used": 30}
    for name in ("eigenvalue", "noise_variance"):
        a, b = (x.parameters[name].sel(statistic="stderr").values for x in (law, plain))
        assert (a / b > 0.5).all()
        assert (a / b < 1.7).all()
        table = law.parameters[name]
        np.testing.assert_array_equal(
            table.sel(statistic="estimate"), plain.parameters[name].sel(statistic="estimate")
        )
        assert (table.sel(statistic="lower") < table.sel(statistic="upper")).all()
    again = sl.fit(fields, INTERVAL, 3, bootstrap=30, seed=1)
    np.testing.assert_array_equal(again.parameters.eigenvalue, law.parameters.eigenvalue)


def coverage(n_sets, noise):
    """Share of 95 % intervals of both spectra that hold the truth; 3 modes, 30 x 30."""
    times = np.linspace(0.0, 1.0, 30)
    equation = heat()
    hits = []
    for seed in range(n_sets):
        fields = sl.simulate(equation, 30, times, POINTS, seed=seed, observation_std=noise)
        law = sl.fit(fields, INTERVAL, 3, observation_noise="estimate" if noise else "none")
        for name in ("eigenvalue", "noise_variance"):
            table, truth = (
                law.parameters[name],
                getattr(equation, {"eigenvalue": "eigenvalues"}.get(name, name)),
            )
            low, high = (table.sel(statistic=s).values for s in ("lower", "upper"))
            hits += list((low < truth) & (truth < high))
    return np.mean(hits)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_simulation_based_calibration(noise):
    """500 data sets, 3000 intervals: one standard deviation of the share is 0.4 %."""
    assert abs(coverage(500, noise) - 0.95) < 0.015


def test_coverage_of_a_few_sets():
    """180 intervals; the false-alarm rate of the bound is 1e-4 (binomial, 95 %)."""
    assert coverage(30, 0.0) > 0.87


# -- what the data cannot tell --------------------------------------------------------


def test_steps_far_longer_than_the_memory_are_named():
    """Only q / (2 lambda) is seen: the unit of time is a likely mistake."""
    fields = small(20, initial="stationary", times=1e3 * TIMES)
    with pytest.warns(IdentifiabilityWarning, match="unit of time") as seen:
        law = sl.fit(fields, INTERVAL, 3)
    assert "do not determine eigenvalue[1" in str(seen[0].message)
    assert law.info["identifiability"]["undetermined"]
    assert any("unit of time" in note for note in law.info["warnings"])


def test_what_is_unknown_is_said_in_one_line():
    """Once 47 names one after the other."""
    labels = [f"eigenvalue[{n}]" for n in (1, 2, 3, 5, 7, 8)] + ["noise_variance[2]"]
    found = {"undetermined": [*labels, "observation_std"], "inseparable": [], "silent": []}
    (line,) = in_words(found)
    told = "eigenvalue[1-3, 5, 7-8], noise_variance[2] and observation_std: their intervals"
    assert line.startswith(f"the data do not determine {told}")


def test_a_record_far_shorter_than_the_memory_is_named():
    fields = small(4, initial="stationary", times=1e-6 * TIMES)
    with pytest.warns(IdentifiabilityWarning):
        law = sl.fit(fields, INTERVAL, 3)
    assert "eigenvalue[1]" in law.info["identifiability"]["undetermined"]


def test_a_good_fit_warns_of_nothing():
    law = sl.fit(small(60, noise=0.05, seed=5), INTERVAL, 3)
    assert not any(law.info["identifiability"].values())
    assert law.info["warnings"] == []


def test_errors_of_decay_rates_are_those_along_the_roots_of_the_covariance():
    rng = np.random.default_rng(0)
    drift = np.diag([0.2, 0.5, 0.9]) + 0.2 * rng.standard_normal((3, 3))
    law = sl.SpectralSPDE(INTERVAL, 3, drift, noise=np.eye(3))
    data = sl.simulate(law, 5, np.arange(80.0), INTERVAL.grid(20), seed=0)
    s = collect([data.values], data.time.values, *_both_ways(20, 3), pairs=True)
    model = sl.Model(drift="dense", noise="dense", mean="zero")
    found = build_statistics_objective(s, INTERVAL, model).run()
    rates, errors = _rates_with_errors(found, found.state_space.linear.drift)
    right = np.linalg.eig(found.state_space.linear.drift)[1]
    along = np.einsum("ki,ijr,jk->kr", np.linalg.inv(right), found.roots("drift"), right).real
    np.testing.assert_allclose(errors, np.linalg.norm(along, axis=1), rtol=1e-10)
    assert (np.diff(np.sort(rates.real)) > 0).all()


def test_every_pair_that_cannot_be_separated_is_named_once():
    columns = 0.1 * np.random.default_rng(0).standard_normal((6, 6))
    columns[4], columns[5] = -2.0 * columns[1], columns[0]
    names = tuple(f"eigenvalue[{n}]" for n in range(1, 7))
    found = SimpleNamespace(
        columns=columns,
        parametrisation=SimpleNamespace(names=names, is_log=np.ones(6, bool)),
        state_space=SimpleNamespace(linear=SimpleNamespace(drift=np.ones(6), noise=np.ones(6))),
    )
    pairs = identifiability(found, 6)["inseparable"]
    assert pairs == [["eigenvalue[1]", "eigenvalue[6]"], ["eigenvalue[2]", "eigenvalue[5]"]]


def _both_ways(n_points, n_modes):
    phi = INTERVAL.eigenfunctions(INTERVAL.grid(n_points), n_modes)
    return np.linalg.pinv(phi), phi


def test_modes_without_energy_are_named():
    """Ten modes of a field that has three, without noise: rounding is no law."""
    with pytest.warns(IdentifiabilityWarning, match="no energy beyond rounding in modes 4, 5"):
        law = sl.fit(small(6), INTERVAL, 10)
    assert law.info["identifiability"]["silent"] == [4, 5, 6, 7, 8, 9, 10]
