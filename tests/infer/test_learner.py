"""A fit as an object: scikit-learn's conventions, with and without scikit-learn."""

import inspect

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.errors import DomainError, InputError
from spdelaw.infer.model import WORDS

EQUATION = sl.catalogue.heat(n_modes=3)
FIELDS = sl.simulate(EQUATION, 30, np.linspace(0, 1, 16), EQUATION.domain.grid(12), seed=0,
                     observation_std=0.1)  # fmt: skip


def learner(**settings):
    return sl.Learner(EQUATION.domain, **{"n_modes": 2, **settings})


def test_parameters_are_those_of_fit_with_its_defaults():
    names = inspect.signature(sl.fit).parameters
    expected = {k: p.default for k, p in names.items() if p.default is not inspect.Parameter.empty}
    found = sl.Learner(EQUATION.domain).get_params()
    assert found == expected | WORDS | {"domain": EQUATION.domain}
    assert learner(initial="gaussian").get_params()["initial"] == "gaussian"


def test_fit_and_score_are_those_of_the_library():
    one = learner().set_params(n_modes=3, initial="deterministic")
    assert one.fit(FIELDS[:20]) is one
    law = sl.fit(FIELDS[:20], EQUATION.domain, 3, initial="deterministic")
    xr.testing.assert_identical(one.law_.parameters, law.parameters)
    assert one.score(FIELDS[20:]) == float(law.log_likelihood(FIELDS[20:]).mean())


def test_parameters_handed_over_are_a_copy():
    one = learner()
    one.get_params()["n_modes"] = 7
    assert one.get_params()["n_modes"] == 2


def test_text_shows_what_was_chosen():
    assert repr(learner(engine="chaos")) == (
        f"Learner(domain={EQUATION.domain!r}, n_modes=2, engine='chaos')"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_mode": 3}, "n_mode: expected one of domain, n_modes"),
        ({"epochs": 3}, "epochs: expected one of domain, n_modes"),
        ({"times": [0, 1]}, r"sl\.as_fields"),
        ({"engine": "amortized", "points": [0, 1]}, r"sl\.as_fields"),
    ],
)
def test_names_that_do_not_exist_are_refused_and_change_nothing(settings, message):
    one = learner()
    before = one.get_params()
    with pytest.raises(InputError, match=message):
        one.set_params(seed=4, **settings)
    assert one.get_params() == before
    with pytest.raises(InputError, match=message):
        learner(**settings)


def test_values_are_refused_by_the_fit():
    with pytest.raises(InputError, match="drift"):
        learner(drift="sideways").fit(FIELDS)
    with pytest.raises(DomainError, match=r"sl\.Interval"):
        sl.Learner(3.0).fit(FIELDS)
    with pytest.raises(InputError, match=r"learner\.fit\(data\) first"):
        learner().score(FIELDS)


def test_options_of_an_engine_reach_it():
    one = learner(engine="amortized", preset="structured", epochs=2)
    assert one.get_params()["epochs"] == 2
    assert one.fit(FIELDS).law_.info["engine"] == "amortized"
    with pytest.raises(InputError, match="epoch"):
        one.set_params(epoch=3).fit(FIELDS)


# ------------------------------------------------------------------ scikit-learn itself


@pytest.fixture
def sklearn():
    return pytest.importorskip("sklearn", reason="scikit-learn is not installed")


def test_clone_keeps_settings_and_forgets_the_law(sklearn):
    from sklearn.base import clone

    one = learner(priors={"eigenvalue[1]": sl.LogNormal(1.0, 0.5)}, engine="exact").fit(FIELDS)
    copy = clone(one)
    assert copy is not one
    assert not hasattr(copy, "law_")
    assert copy.get_params() == one.get_params()


def test_grid_search_scores_held_out_paths(sklearn):
    from sklearn.model_selection import GridSearchCV, KFold

    folds = KFold(3)
    search = GridSearchCV(learner(), {"n_modes": [1, 3], "engine": ["exact", "chaos"]}, cv=folds)
    search.fit(FIELDS)
    expected = [
        [_held_out(train, test, one) for train, test in folds.split(FIELDS)]
        for one in search.cv_results_["params"]
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], np.mean(expected, axis=1))
    assert search.best_params_["n_modes"] == 3
    assert search.best_estimator_.law_.n_modes == 3


def _held_out(train, test, settings):
    law = sl.fit(FIELDS[train], EQUATION.domain, **settings)
    return float(law.log_likelihood(FIELDS[test]).mean())
