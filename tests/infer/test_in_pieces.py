"""Lazy data: the same law whatever the chunks, and nothing whole in memory."""

from concurrent.futures import ThreadPoolExecutor

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import spdelaw as sl
from spdelaw.data import executors as pieces_module
from spdelaw.data.observed import observe
from spdelaw.errors import DataError
from spdelaw.infer import starts as starts_module
from spdelaw.infer.objective import centred_fields

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
INTERVAL = sl.Interval(0, np.pi)
#: Of the estimates, relative to their size or standard error.
SAME = 1e-9
#: Few examples, none made smaller: each is a fit.
FEW = settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True)
def _every_chunk_a_block(monkeypatch):
    monkeypatch.setattr(pieces_module, "ENOUGH", 1.0)


def fit(data, n_modes, **words):
    """Without the question of a mean, which takes most of the time of a fit."""
    return sl.fit(data, INTERVAL, n_modes, mean="zero", **words)


def complete(n_paths=24, n_times=9, seed=0):
    fields = sl.simulate(sl.catalogue.heat(n_modes=3), n_paths, seed=seed)
    return fields.isel(time=slice(n_times))


def gappy(fraction=0.3, **size):
    fields = complete(**size)
    noise = 0.05 * np.random.default_rng(1).standard_normal(fields.shape)
    return sl.mask(fields + noise, "random", fraction, seed=2)


def same_law(one, two, tolerance=SAME):
    assert one.info["route"] == two.info["route"]
    assert set(one.parameters) == set(two.parameters)
    for name in one.parameters:
        a, b = (law.parameters[name] for law in (one, two))
        size = np.abs(a.sel(statistic="estimate")).max() + a.sel(statistic="stderr")
        assert (np.abs(a - b).sel(statistic="estimate") <= tolerance * size).all(), name
    a, b = one.info["log_likelihood"], two.info["log_likelihood"]
    assert a == pytest.approx(b, rel=1e-12, abs=1e-8)


COMPLETE, GAPPY = complete(), gappy()
LAWS = {name: fit(data, 3) for name, data in (("whole", COMPLETE), ("gaps", GAPPY))}


@FEW
@given(st.integers(1, 24), st.integers(1, 9), st.integers(20, 64))
def test_complete_data_have_the_same_law_whatever_the_chunks(path, time, x):
    two = fit(COMPLETE.chunk(path=path, time=time, x=x), 3)
    same_law(LAWS["whole"], two)


@FEW
@given(st.integers(6, 24), st.integers(3, 9))
def test_gaps_have_the_same_law_whatever_the_chunks(path, time):
    same_law(LAWS["gaps"], fit(GAPPY.chunk(path=path, time=time), 3))


@pytest.mark.parametrize("data", [COMPLETE, GAPPY], ids=["whole", "gaps"])
def test_coupled_modes_in_pieces(data):
    words = {"drift": "dense", "nuisance": 0}
    one = fit(data, 2, **words)
    two = fit(data.chunk(path=10, time=4), 2, **words)
    same_law(one, two, 1e-7)
    assert one.info["log_likelihood"] == pytest.approx(two.info["log_likelihood"], abs=1e-6)


def test_drawn_states_are_the_same_in_whatever_pieces(monkeypatch):
    """Those of a block were once drawn from one generator, so that pieces had other starts."""
    log_likelihoods = []

    def listen(problem, start, drawn=starts_module._drawn):
        log_likelihoods.append([one.start_value() for one in drawn(problem, start)])
        return drawn(problem, start)

    monkeypatch.setattr(starts_module, "_drawn", listen)
    for data in (GAPPY, GAPPY.chunk(path=10, time=4)):
        fit(data, 2, drift="dense", nuisance=0, observation_noise="estimate")
    half = len(log_likelihoods) // 2
    assert half > 0
    np.testing.assert_allclose(log_likelihoods[half:], log_likelihoods[:half], rtol=1e-8)


def test_the_rough_mean_of_pieces_is_that_of_the_whole():
    data = GAPPY + 2.0 * np.sin(GAPPY.x)
    one, two = (observe(d, INTERVAL) for d in (data, data.chunk(path=5, time=4)))
    (here, centre), (there, same) = (centred_fields(o, 2) for o in (one, two.surveyed()))
    np.testing.assert_allclose(same, centre, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(there.values), here.values, rtol=1e-9, atol=1e-12)


def test_one_record_in_pieces_of_time():
    times = np.linspace(0.0, 20.0, 101)
    whole = sl.simulate(sl.catalogue.heat(n_modes=2), 1, times=times, seed=0, observation_std=0.05)
    data = sl.mask(whole, "random", 0.2, seed=1)
    same_law(fit(data, 2), fit(data.chunk(time=7), 2))


@pytest.mark.parametrize("words", [{}, {"initial": "stationary"}], ids=str)
def test_one_record_in_parts_of_time_has_the_law_of_the_whole(monkeypatch, words):
    """Parts are condensed to their ends in threads; three of them, one after the other."""
    from spdelaw.statespace import condense as condense_module
    from spdelaw.statespace import likelihood as likelihood_module

    monkeypatch.setattr(condense_module, "LONG", 50)
    times, called = np.linspace(0.0, 20.0, 101), []
    whole = sl.simulate(sl.catalogue.heat(n_modes=2), 1, times=times, seed=0, observation_std=0.05)
    data, heard = sl.mask(whole, "random", 0.2, seed=1), likelihood_module.heard

    def counted(collapsed, *rest):
        called.append(len(collapsed.parts))
        return heard(collapsed, *rest)

    monkeypatch.setattr(likelihood_module, "heard", counted)
    with ThreadPoolExecutor(4) as pool:
        two = fit(data.chunk(time=17), 2, executor=pool, nuisance=0, **words)
    assert set(called) == {3}
    same_law(fit(data, 2, nuisance=0, **words), two)


def test_a_long_lazy_record_is_looked_at_by_its_head(monkeypatch):
    from spdelaw.data import observed as observed_module

    observed = observe(GAPPY.isel(path=[0]).chunk(time=2), INTERVAL)
    monkeypatch.setattr(observed_module, "FIRST_BYTES", 4.0 * 8 * GAPPY.sizes["x"])
    assert observed.first(24).shape == (1, 4, GAPPY.sizes["x"])
    assert observed.at_times(slice(3)).values.shape == (1, 3, GAPPY.sizes["x"])


def test_fields_are_never_whole_in_memory():
    """No task sees more than one chunk of the fields; the pass for gaps takes each a few times."""
    largest, count = [], []

    def spy(block):
        largest.append(block.size)
        count.append(1)
        return block

    for data in (COMPLETE, GAPPY):
        lazy = data.copy(data=da.from_array(data.values, chunks=(6, 3, -1)).map_blocks(spy))
        largest.clear(), count.clear()
        fit(lazy, 3)
        assert max(largest) <= 6 * 3 * data.sizes["x"]


def test_land_in_lazy_fields_is_no_part_of_them():
    land = GAPPY.copy(deep=True)
    land[..., 10:20] = np.nan
    sea = land.isel(x=np.r_[0:10, 20 : land.sizes["x"]])
    one = fit(sea, 3)
    same_law(one, fit(land, 3))
    same_law(one, fit(land.chunk(path=7), 3))


def test_land_in_lazy_fields_without_other_gaps_takes_one_pass_for_statistics():
    land = COMPLETE.copy(deep=True)
    land[..., 10:20] = np.nan
    lazy = fit(land.chunk(path=5, time=4), 3)
    assert lazy.info["route"] == fit(land, 3).info["route"]
    same_law(fit(land, 3), lazy)


@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_lazy_values_that_are_no_data_are_refused(wrong):
    values = COMPLETE.values.copy()
    values[(3, 4, 5) if np.isinf(wrong) else ...] = wrong
    lazy = COMPLETE.copy(data=values).chunk(path=5)
    with pytest.raises(DataError, match=r"infinite, the first at|at least one known value"):
        fit(lazy, 3)


def test_lazy_constant_fields_are_refused():
    still = xr.ones_like(COMPLETE).where(COMPLETE.x > 0.5).chunk(path=6, time=2)
    with pytest.raises(DataError, match="change over time"):
        fit(still, 1)


def test_other_engines_get_lazy_data_in_memory():
    both = (COMPLETE, COMPLETE.chunk(path=7))
    one, two = (sl.fit(data, INTERVAL, 2, engine="chaos") for data in both)
    same_law(one, two)


def test_bootstrap_of_lazy_data():
    one = fit(COMPLETE, 2, bootstrap=4)
    two = fit(COMPLETE.chunk(path=9), 2, bootstrap=4)
    np.testing.assert_allclose(one.parameters.eigenvalue, two.parameters.eigenvalue, rtol=1e-6)
