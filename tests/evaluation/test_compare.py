"""Laws compared: refusals, tests by hand, scores by hand, and the same answer when swapped."""

import json

import numpy as np
import pytest
import scipy
import xarray as xr

import spdelaw as sl
from spdelaw.errors import DataError, InputError
from spdelaw.evaluation.comparison import sentence_of

HEAT = sl.catalogue.heat(n_modes=4, initial="stationary")
HALF = sl.Preparation(coarsen={"x": 2})
TIMES, GRID = np.linspace(0, 1, 11), np.linspace(0, np.pi, 17)


@pytest.fixture(scope="module")
def fields():
    return sl.simulate(HEAT, 60, TIMES, GRID, seed=0, observation_std=0.1)


def fitted(data, n=4, **words):
    return sl.fit(data, HEAT.domain, n, nuisance=0, initial="stationary", **words)


@pytest.fixture(scope="module")
def laws(fields):
    train = fields[:30]
    tied = fitted(train, drift="parametric", noise="parametric", fixed={"s": 1.0})
    return tied, fitted(train), fitted(train, 1)


def test_criteria_and_nested_test_by_hand(laws):
    few, free, _ = laws
    result = sl.compare(few, free)
    for law, row in zip((few, free), range(2), strict=True):
        value, count = law.info.log_likelihood, law.info["n_parameters"]
        at = result.likelihood.isel(law=row)
        assert float(at.aic) == pytest.approx(2 * count - 2 * value)
        assert float(at.bic) == pytest.approx(count * np.log(30 * 11) - 2 * value)
    (test,) = result.tests
    assert (test.smaller, test.larger) == (0, 1)
    gain = 2 * (free.info.log_likelihood - few.info.log_likelihood)
    degrees = free.info["n_parameters"] - few.info["n_parameters"]
    assert test.statistic == pytest.approx(gain)
    assert test.degrees == degrees > 0
    assert test.p_value == pytest.approx(scipy.stats.chi2.sf(gain, degrees))
    assert test.statistic > -1e-3  # a special case is never likelier
    assert sl.compare(*laws[1:]).tests == ()  # neither is a special case of the other


def test_scores_by_hand(laws, fields):
    new = fields[30:]
    few, _, one = laws
    result = sl.compare(few, one, data=new, tiers=("forecast",))
    values = result.scores["value"]
    for number, law in enumerate((few, one)):
        expected = float(law.log_likelihood(new).sum()) / new.size
        assert float(values.sel(score="log score")[number]) == pytest.approx(expected)
        tier = sl.evaluate(law, new, tiers=("forecast",)).tiers["forecast"]
        assert float(values.sel(score="RMSE forecast")[number]) == pytest.approx(tier.rmse)
        assert float(values.sel(score="CRPS forecast")[number]) == pytest.approx(tier.crps)
    gap = result.scores["difference"].sel(score="log score", law="b")
    assert float(gap.sel(statistic="lower")) < float(gap[0]) < float(gap.sel(statistic="upper"))
    assert result.sentence.startswith("Use a: its log score")
    assert result.best == 0


def test_swapped_laws_give_the_same_answer(laws, fields):
    names = ("first", "second")
    there = sl.compare(laws[0], laws[2], data=fields[30:], names=names)
    back = sl.compare(laws[2], laws[0], data=fields[30:], names=names[::-1])
    assert there.sentence == back.sentence
    assert there.names[there.best] == back.names[back.best]
    xr.testing.assert_allclose(there.scores, back.scores.sel(law=list(names)))
    plain, swapped = sl.compare(laws[0], laws[1]), sl.compare(laws[1], laws[0])
    assert plain.tests[0].statistic == swapped.tests[0].statistic
    assert (swapped.tests[0].smaller, swapped.tests[0].larger) == (1, 0)


def test_scores_that_say_otherwise_are_named(laws):
    """Once 'Use b' without a word about forecasts that are clearly worse."""
    away = [[-0.02, -0.03, -0.01], [0.0, 0.0, 0.0]]
    differences = [away, [[0.0, 0.0, 0.0], [0.1, 0.05, 0.15]], [[0.0, 0.0, 0.0], [0.1, -0.1, 0.3]]]
    scores = xr.Dataset(
        {"difference": (("score", "law", "statistic"), differences),
         "value": (("score", "law"), [[0.98, 1.0], [1.0, 1.1], [1.0, 1.1]])},
        {"score": ["log score", "RMSE forecast", "CRPS forecast"]},
    )  # fmt: skip
    best, sentence = sentence_of(("a", "b"), None, [], scores, list(laws[:2]), 0.95)
    assert best == 1
    assert sentence.endswith(". RMSE forecast says otherwise: choose by the purpose of the law.")


def test_a_single_path_is_cut_into_stretches(laws):
    one = sl.simulate(HEAT, 1, 0.1 * np.arange(100), GRID, seed=5, observation_std=0.1)
    result = sl.compare(laws[1], laws[2], data=one)
    total = [float(law.log_likelihood(one).sum()) / one.size for law in (laws[1], laws[2])]
    np.testing.assert_allclose(result.scores["value"].sel(score="log score"), total)
    assert result.best == 0


def test_scales_of_the_preparation_do_not_matter(fields):
    """Standardised by one number: the same law in other units, so the same log score."""
    train, new = fields[:30], fields[30:]
    laws = [
        fitted(train, 3, prepare=sl.Preparation(anomalies="mean", standardise=how))
        for how in (None, "whole")
    ]
    with pytest.raises(InputError, match="same values"):
        sl.compare(*laws)
    result = sl.compare(*laws, data=new)
    a, b = result.scores["value"].sel(score="log score").values
    assert a == pytest.approx(b, rel=1e-5)
    assert result.likelihood is None
    assert "not compared" in result.notes[0]
    np.testing.assert_allclose(*result.scores["value"].sel(score="RMSE gaps").values, rtol=1e-5)


def test_laws_with_and_without_a_mean_are_compared(fields):
    """They see the same values; a shift that a law has learned does not move its scores."""
    bump = np.sin(fields["x"])
    one, far = fields + 2.0 * bump, fields + 5.0 * bump
    around, zero = (fitted(one[:30], mean=mean) for mean in ("constant", "zero"))
    result = sl.compare(around, zero, data=one[30:])
    assert result.best == 0
    moved = fitted(far[:30], mean="constant")
    again = sl.compare(moved, fitted(far[:30], mean="zero"), data=far[30:])
    first, second = (c.scores["value"].isel(law=0) for c in (result, again))
    np.testing.assert_allclose(first, second, rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        (lambda a, b, new: sl.compare(b, fitted(new)), InputError, "same values"),
        (lambda a, b, new: sl.compare(a), InputError, "at least two"),
        (lambda a, b, new: sl.compare(a, "b.law"), InputError, "Law"),
        (lambda a, b, new: sl.compare(a, b, names=("a", "a")), InputError, "different names"),
        (lambda a, b, new: sl.compare(a, b, tiers=("leaps",)), InputError, "tiers"),
        (lambda a, b, new: sl.compare(a, b, level=2), InputError, "level"),
        (
            lambda a, b, new: sl.compare(a, fitted(new, 2, prepare=HALF), data=new),
            DataError,
            "in the same way",
        ),
    ],
)
def test_refusals(call, error, word, laws, fields):
    with pytest.raises(error, match=word):
        call(*laws[:2], fields[30:])


def test_it_is_shown_and_stored(laws, fields):
    result = sl.compare(*laws, data=fields[30:])
    text, page = repr(result), result._repr_html_()
    for word in ("log-likelihood", "BIC", "ratio test in b", "CRPS gaps", "eigenvalue 1", "kappa"):
        assert word in text
        assert word in page
    assert text.endswith(result.sentence)
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert document["use"] == result.names[result.best]
    assert document["tests"][0]["smaller"] == "a"
    assert len(document["scores"]["value"]) == 7
