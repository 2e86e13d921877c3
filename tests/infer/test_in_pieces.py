"""Lazy data: the same law whatever the chunks, and nothing whole in memory."""

import collections

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.infer.recovery import same_law

import spdelaw as sl
from spdelaw.data import executors as data_pieces
from spdelaw.data import observed as observed_module
from spdelaw.data.observed import observe
from spdelaw.infer import starts as starts_module

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
INTERVAL = sl.Interval(0, np.pi)
#: Few examples, none made smaller: each is a fit.
FEW = settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
COMPLETE = sl.simulate(sl.catalogue.heat(n_modes=3), 24, seed=0).isel(time=slice(9))
GAPPY = COMPLETE + 0.05 * np.random.default_rng(1).standard_normal(COMPLETE.shape)
GAPPY = sl.mask(GAPPY, "random", 0.3, seed=2)
LAND = np.r_[10:20]


@pytest.fixture(autouse=True)
def _every_chunk_a_block(monkeypatch):
    monkeypatch.setattr(data_pieces, "MIN_BLOCK_BYTES", 1.0)


def fit(data, n_modes, **words):
    """Without the question of a mean, which takes most of the time of a fit."""
    return sl.fit(data, INTERVAL, n_modes, mean="zero", **words)


def same_numbers(one, two, tolerance=1e-9):
    same_law(one, two, tolerance)
    a, b = one.info["log_likelihood"], two.info["log_likelihood"]
    assert a == pytest.approx(b, rel=1e-12, abs=max(1e-8, 10 * tolerance))


@pytest.fixture(scope="module")
def laws():
    return fit(COMPLETE, 3), fit(GAPPY, 3)


@FEW
@given(st.integers(6, 24), st.integers(3, 9), st.integers(20, 64))
def test_data_have_the_same_law_whatever_the_chunks(laws, path, time, x):
    same_numbers(laws[0], fit(COMPLETE.chunk(path=path // 3, time=time // 2, x=x), 3))
    same_numbers(laws[1], fit(GAPPY.chunk(path=path, time=time), 3))


@pytest.mark.parametrize("data", [GAPPY, pytest.param(COMPLETE, marks=pytest.mark.slow)])
def test_coupled_modes_in_pieces(data, monkeypatch):
    """Drawn states too: those of a block were once drawn from one generator."""
    log_likelihoods, draw = [], starts_module._drawn_state_posteriors

    def listen(problem, start):
        log_likelihoods.append([one.start_value() for one in draw(problem, start)])
        return draw(problem, start)

    monkeypatch.setattr(starts_module, "_drawn_state_posteriors", listen)
    words = {"drift": "dense", "nuisance": 0}
    same_numbers(fit(data, 2, **words), fit(data.chunk(path=10, time=4), 2, **words), 1e-7)
    half = len(log_likelihoods) // 2
    assert half > 0
    np.testing.assert_allclose(log_likelihoods[half:], log_likelihoods[:half], rtol=1e-8)


def test_fields_are_never_whole_in_memory(monkeypatch):
    """No task sees more than one chunk of the fields; long records are looked at by their head."""
    largest = []

    def spy(block):
        largest.append(block.size)
        return block

    for data in (COMPLETE, GAPPY):
        lazy = data.copy(data=da.from_array(data.values, chunks=(6, 3, -1)).map_blocks(spy))
        fit(lazy, 3)
        assert max(largest) <= 6 * 3 * data.sizes["x"]
    observed, n = observe(GAPPY.isel(path=[0]).chunk(time=2), INTERVAL), GAPPY.sizes["x"]
    monkeypatch.setattr(observed_module, "FIRST_BYTES", 4.0 * 8 * n)
    assert observed.first(24).shape == (1, 4, n)
    assert observed.at_times(slice(3)).values.shape == (1, 3, n)


@pytest.mark.parametrize("data", [COMPLETE, GAPPY], ids=["whole", "gaps"])
def test_land_in_lazy_fields_is_no_part_of_them(data):
    land = data.where(~np.isin(np.arange(data.sizes["x"]), LAND))
    one = fit(data.drop_isel(x=LAND), 3)
    same_numbers(one, fit(land, 3))
    same_numbers(one, fit(land.chunk(path=7, time=4), 3))


@pytest.mark.slow
def test_other_engines_and_replicates_of_lazy_data():
    for words in ({"engine": "chaos"}, {"bootstrap": 2, "mean": "zero"}):
        one, two = (sl.fit(x, INTERVAL, 2, **words) for x in (COMPLETE, COMPLETE.chunk(path=7)))
        same_numbers(one, two)
        np.testing.assert_allclose(one.parameters.eigenvalue, two.parameters.eigenvalue, rtol=1e-6)


def test_a_record_in_chunks_of_times_has_the_law_and_likelihood_of_the_whole():
    """Rows are condensed chunk by chunk; the chain over all times is solved here."""
    times = np.linspace(0.0, 12.0, 61)
    fields = sl.simulate(
        sl.catalogue.heat(n_modes=2), 1, times, INTERVAL.grid(12), seed=0, observation_std=0.05
    )
    record = sl.mask(fields, "random", 0.2, seed=1)
    lazy = record.chunk(time=7)
    whole, law = (fit(data, 2, nuisance=0) for data in (record, lazy))
    same_numbers(whole, law)
    np.testing.assert_allclose(whole.log_likelihood(lazy), whole.log_likelihood(record), rtol=1e-9)


MORE = sl.simulate(sl.catalogue.heat(n_modes=12), 24, COMPLETE.time.values, COMPLETE.x.values)
NOISE = 0.05 * np.random.default_rng(1).standard_normal(COMPLETE.shape)
#: Data with the number of passes over them.
KINDS = {
    "complete": (COMPLETE, 1),
    "noisy": (COMPLETE + NOISE, 1),
    "noisy, modes beyond": (MORE + NOISE, 1),
    "gappy": (GAPPY, 2),
    "gappy, modes beyond": ((MORE + NOISE).where(GAPPY.notnull()), 2),
    "land": ((MORE + NOISE).where(COMPLETE.x != COMPLETE.x[6])[..., ::3], 2),
}


@pytest.mark.parametrize("words", [{"mean": "zero", "nuisance": 0}, {}], ids=["stated", "default"])
@pytest.mark.parametrize("kind", KINDS)
def test_passes_over_lazy_data(kind, words, monkeypatch):
    """Every block but those of the first paths is computed as often as there are passes."""
    data, n_passes = KINDS[kind]
    monkeypatch.setattr(observed_module, "FIRST_BYTES", data.nbytes / 6)
    n_computed = collections.Counter()

    def counted(block, block_info=None):
        n_computed[block_info[0]["chunk-location"][0]] += 1
        return block

    blocks = da.from_array(data.values, chunks=(4, -1, -1))
    lazy = blocks.map_blocks(counted, dtype=float, meta=np.zeros((0, 0, 0)))
    with dask.config.set(scheduler="synchronous"):
        sl.fit(data.copy(data=lazy), INTERVAL, 3, **words)
    assert [n_computed[i] for i in range(1, 6)] == [n_passes] * 5


def test_small_lazy_data_are_read_at_once(monkeypatch):
    monkeypatch.setattr(observed_module, "SMALL_BYTES", 1e6)
    n_computed = collections.Counter()

    def counted(block, block_info=None):
        n_computed[block_info[0]["chunk-location"]] += 1
        return block

    lazy = da.from_array(GAPPY.values, chunks=(6, 3, -1))
    lazy = lazy.map_blocks(counted, dtype=float, meta=np.zeros((0, 0, 0)))
    with dask.config.set(scheduler="synchronous"):
        law = fit(GAPPY.copy(data=lazy), 3)
    assert set(n_computed.values()) == {1}
    same_numbers(law, fit(GAPPY, 3), 1e-12)


@pytest.mark.parametrize("n_paths", [1, 60])
def test_bad_sensors_of_lazy_data_are_named(n_paths):
    """They are judged by the first paths."""
    times = np.linspace(0.0, 30.0 if n_paths == 1 else 2.0, 200 if n_paths == 1 else 21)
    heat = sl.catalogue.heat(n_modes=2)
    data = sl.simulate(heat, n_paths, times, INTERVAL.grid(12), seed=0, observation_std=0.05)
    data[..., 3] = 0.7
    one, two = (fit(x, 2) for x in (data, data.chunk(path=10, time=50)))
    same_numbers(one, two)
    assert one.info["warnings"][0] == two.info["warnings"][0]
    assert "always reads 0.7" in two.info["warnings"][0]
