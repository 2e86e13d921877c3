"""Which terms a field obeys, through the public door."""

import dataclasses
import json
from functools import cache

import numpy as np
import pytest
from tests.fitted import case

import spdelaw as sl
from spdelaw.errors import DataError, EquationError, InputError

LIBRARY = ("u", "u^2", "u^3")


def discover(data, library=LIBRARY, domain=None, n_modes=5, **words):
    domain = domain or case("reaction").equation.domain
    return sl.discover(data, domain, n_modes, library, **words)


@cache
def discovery():
    return discover(case("reaction").data, bootstrap=50)


def test_terms_that_act_are_found():
    """Terms that act are never missed here; BIC adds an idle one in 1.6 % of 320 transitions.

    ``P(z^2 > log 320)`` is too often to assert that none was added.
    """
    d = discovery()
    assert {"u", "u^3"} <= set(d.terms) <= set(LIBRARY)
    assert list(d.law.parameters.term.values) == list(d.terms)
    assert d.law.dynamics.terms == d.terms
    assert d.inclusion.sel(term="u^3") > 0.9
    assert d.inclusion.sel(term="u^2") < d.inclusion.sel(term="u^3")
    table = d.table
    assert table["bic"].values[0] == 0.0
    assert (np.diff(table["bic"].values[:-1]) >= 0).all()
    is_fitted = np.isfinite(table["log_likelihood"].values)
    assert table["bic"].values[table["linear"].values & is_fitted].min() > 20.0
    assert table["coefficient"].dims == ("candidate", "term")
    assert table["frequency"].values.sum() <= 1.0 + 1e-12


def test_it_can_be_read():
    d = discovery()
    assert "units of BIC behind" in d.sentence
    assert d.sentence in repr(d)
    three = dataclasses.replace(d, terms=LIBRARY)
    assert three.sentence.startswith("The data select u, u^2 and u^3")
    assert "select no term" in dataclasses.replace(d, terms=()).sentence
    assert "log-likelihood" in repr(d)
    assert "<table>" in d._repr_html_()
    document = json.loads(json.dumps(d.to_dict()))
    assert document["terms"] == list(d.terms)
    assert document == d.law.info["discovery"]
    assert set(document["candidates"][0]["coefficients"]) == set(d.terms)


def test_records_too_few_to_resample_say_nothing_of_it():
    d = discover(case("reaction").data[:1], ("u", "u^3"), bootstrap=20)
    assert d.inclusion.isnull().all()
    assert "resampled" not in d.sentence
    assert json.loads(json.dumps(d.to_dict()))["inclusion"] == {"u": None, "u^3": None}


@pytest.mark.slow
def test_an_idle_term_is_left_out():
    """Null: u^2 does not act. BIC keeps it in ``P(z^2 > log 320)`` = 1.6 % of data sets.

    More than 4 of 10 would have a chance of 3e-7.
    """
    every = sl.simulate(case("reaction").equation, 80, seed=5)
    kept = ["u^2" in discover(every[8 * k : 8 * k + 8], bootstrap=0).terms for k in range(10)]
    assert sum(kept) <= 4


@pytest.mark.slow
def test_gaps_and_noise():
    """The same through the filter; every candidate is judged by the same numbers."""
    d = discover(case("reaction_gaps").data[:8], bootstrap=20)
    assert {"u", "u^3"} <= set(d.terms)
    assert d.law.info.route == "closure filter"
    log_likelihoods, linear = d.table["log_likelihood"].values, d.table["linear"].values
    is_fitted = np.isfinite(log_likelihoods)
    assert is_fitted.sum() >= 2
    assert (
        log_likelihoods[is_fitted & ~linear].max()
        > log_likelihoods[is_fitted & linear].max() + 10.0
    )


@pytest.mark.parametrize(
    ("words", "error", "word"),
    [
        ({"library": "u^3"}, InputError, "names in a tuple"),
        ({"librari": LIBRARY}, InputError, "keyword"),
        ({"library": ()}, InputError, "1 to 12 terms"),
        ({"data": slice(1)}, DataError, "at least 30 transitions to choose from 3 terms"),
        ({"library": ("u", "u u_y")}, EquationError, "u_y"),
        ({"library": ("u", "u u_x"), "domain": sl.Sphere(), "n_modes": 4}, InputError, None),
    ],
)
def test_refusals(words, error, word):
    data = case("reaction").data
    words = {"data": data, **words}
    if isinstance(words["data"], slice):
        words["data"] = data[:2, :12]
    with pytest.raises(error, match=word):
        discover(**words)
