"""Every engine keeps the contract that plug-ins inherit; words mean objects, learners fits."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.errors import DomainError, InputError
from spdelaw.infer.model import WORDS
from spdelaw.testing import EngineContract

SIZES = {"n_reference": 4, "n_hidden": 6, "n_embedding": 4, "batch_size": 8}


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
        return sl.Amortized(epochs=3, n_time=4, **SIZES)


# -- words and objects -------------------------------------------------------------------------

EQUATION = sl.catalogue.heat(n_modes=3)
FIELDS = sl.simulate(EQUATION, 30, np.linspace(0, 1, 16), EQUATION.domain.grid(12), seed=0,
                     observation_std=0.1)  # fmt: skip


def fit(**words):
    return sl.fit(FIELDS[:12], EQUATION.domain, 2, **words)


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
    with pytest.raises(InputError, match="rank"):
        sl.LowRank(0)


def test_replicates_run_on_an_executor():
    here = fit(bootstrap=4, seed=1)
    with ThreadPoolExecutor(2) as executor:
        there = fit(bootstrap=4, seed=1, executor=executor)
    assert here.parameters.identical(there.parameters)


# -- a fit as an object, with and without scikit-learn -----------------------------------------


def learner(**words):
    return sl.Learner(EQUATION.domain, **{"n_modes": 2, **words})


def test_parameters_are_those_of_fit_with_its_defaults():
    names = inspect.signature(sl.fit).parameters
    expected = {k: p.default for k, p in names.items() if p.default is not inspect.Parameter.empty}
    parameters = sl.Learner(EQUATION.domain).get_params()
    assert parameters == expected | WORDS | {"domain": EQUATION.domain}
    one = learner(engine="chaos")
    one.get_params()["n_modes"] = 7  # of a copy
    assert repr(one) == f"Learner(domain={EQUATION.domain!r}, n_modes=2, engine='chaos')"


def test_fit_and_score_are_those_of_the_library():
    one = learner().set_params(n_modes=3, initial="deterministic")
    assert one.fit(FIELDS[:20]) is one
    law = sl.fit(FIELDS[:20], EQUATION.domain, 3, initial="deterministic")
    xr.testing.assert_identical(one.law_.parameters, law.parameters)
    assert one.score(FIELDS[20:]) == float(law.log_likelihood(FIELDS[20:]).mean())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"n_mode": 3}, "n_mode: expected one of domain, n_modes"),
        ({"epochs": 3}, "epochs: expected one of domain, n_modes"),
        ({"times": [0, 1]}, r"sl\.as_fields"),
        ({"engine": "amortized", "points": [0, 1]}, r"sl\.as_fields"),
    ],
)
def test_names_that_do_not_exist_are_refused_and_change_nothing(words, message):
    one = learner()
    before = one.get_params()
    with pytest.raises(InputError, match=message):
        one.set_params(seed=4, **words)
    assert one.get_params() == before
    with pytest.raises(InputError, match=message):
        learner(**words)


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        (lambda: learner(drift="sideways").fit(FIELDS), InputError, "drift"),
        (lambda: sl.Learner(3.0).fit(FIELDS), DomainError, r"sl\.Interval"),
        (lambda: learner().score(FIELDS), InputError, r"learner\.fit\(data\) first"),
        (lambda: learner(engine="amortized", epoch=3).fit(FIELDS), InputError, "epoch"),
    ],
)
def test_values_are_refused_by_the_fit(call, error, word):
    with pytest.raises(error, match=word):
        call()


@pytest.mark.slow
def test_grid_search_scores_held_out_paths():
    """Also of clones, which keep settings and forget the law."""
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, KFold

    folds = KFold(2)
    grid = [{"n_modes": [1, 3]}, {"engine": ["chaos"]}]
    search = GridSearchCV(learner(), grid, cv=folds)
    search.fit(FIELDS)
    expected = [
        np.mean([_held_out(train, test, one) for train, test in folds.split(FIELDS)])
        for one in search.cv_results_["params"]
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected)
    best = search.best_estimator_
    assert search.best_params_["n_modes"] == best.law_.n_modes == 3
    copy = clone(best)
    assert not hasattr(copy, "law_")
    assert copy.get_params() == best.get_params()


def _held_out(train, test, words):
    law = learner(**words).fit(FIELDS[train]).law_
    return float(law.log_likelihood(FIELDS[test]).mean())
