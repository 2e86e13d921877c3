"""Every engine keeps the contract that plug-ins inherit."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.errors import InputError
from spdelaw.testing import EngineContract


class TestExact(EngineContract):
    def make_engine(self):
        return sl.Exact()


class TestExactWithoutNoise(EngineContract):
    observation_std = 0.0

    def make_engine(self):
        return sl.Exact(threads=2)


class TestChaos(EngineContract):
    def make_engine(self):
        return sl.Chaos(n_time=8)


class TestChaosDropped(EngineContract):
    def make_engine(self):
        return sl.Chaos(n_time=8, tail="dropped")


class TestStructured(EngineContract):
    def make_engine(self):
        return sl.Amortized(preset="structured", epochs=4, n_time=4)


class TestPaper(EngineContract):
    within = None  # three epochs learn nothing

    def make_engine(self):
        pytest.importorskip("torch")
        sizes = {"n_reference": 4, "n_hidden": 6, "n_embedding": 4, "batch_size": 8}
        return sl.Amortized(epochs=3, n_time=4, **sizes)


# ------------------------------------------------------------------ words and objects

EQUATION = sl.catalogue.heat(n_modes=2)
FIELDS = sl.simulate(EQUATION, 12, np.linspace(0, 1, 21), EQUATION.domain.grid(9), seed=0,
                     observation_std=0.05)  # fmt: skip


def fit(*arguments, **words):
    return sl.fit(FIELDS, EQUATION.domain, 2, *arguments, **words)


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
@pytest.mark.parametrize(
    ("words", "objects"),
    [
        ({"drift": "parametric"}, {"model": sl.Model(drift="parametric")}),
        ({"threads": 2}, {"engine": sl.Exact(threads=2)}),
        (
            {"engine": "chaos", "n_time": 4, "initial": "gaussian"},
            {"model": sl.Model(initial="gaussian"), "engine": sl.Chaos(n_time=4)},
        ),
        (
            {"engine": "amortized", "preset": "structured", "epochs": 3},
            {"engine": sl.Amortized(preset="structured", epochs=3)},
        ),
    ],
)
def test_words_mean_the_objects(words, objects):
    one, other = fit(**words), fit(**objects)
    assert one.parameters.identical(other.parameters)
    assert one.info["engine"] == other.info["engine"]


def test_a_rank_is_part_of_its_noise():
    model = sl.Model(noise=sl.LowRank(3))
    assert (model.noise, model.noise_rank) == ("low_rank", 3)
    assert repr(model) == "Model(noise='low_rank', noise_rank=3)"
    with pytest.raises(InputError, match="noise_rank"):
        sl.LowRank(0)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ({"model": sl.Model(), "drift": "dense"}, "drift"),
        ({"model": "dense"}, "model"),
        ({"engine": sl.Exact(), "threads": 2}, "keyword"),
        ({"engine": sl.Exact}, "engine"),
        ({"engine": "chaos", "preset": "paper"}, "keyword"),
        ({"tail": "dropped"}, "tail"),
        ({"epochs": 3}, "keyword"),
    ],
)
def test_what_cannot_be_meant_is_refused(words, what):
    with pytest.raises(InputError) as found:
        fit(**words)
    assert found.value.what == what


def test_replicates_run_on_an_executor():
    from concurrent.futures import ThreadPoolExecutor

    here = fit(bootstrap=4, seed=1)
    with ThreadPoolExecutor(2) as executor:
        there = fit(bootstrap=4, seed=1, executor=executor)
    assert here.parameters.identical(there.parameters)


def test_decisions_say_what_was_compared():
    found = fit().info["decisions"]
    assert found["initial_state"]["answer"] == "deterministic"
    noise = found["observation_noise"]
    assert noise["answer"] == "all that the modes leave over"
    assert noise["residual_correlation"] < 0.1


@pytest.mark.parametrize(("word", "meant"), [("drfit", "drift"), ("time_units", "time_unit")])
def test_a_misspelled_word_is_answered_with_the_one_that_was_meant(word, meant):
    with pytest.raises(InputError, match=f"did you mean {meant}\\?"):
        sl.fit(np.ones((2, 3, 4)), sl.Interval(0, 1), 2, **{word: "dense"})
