"""Which terms a field obeys, through the public door."""

import dataclasses
import json
from functools import cache

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.errors import DataError, EquationError, InputError

LIBRARY = ("u", "u^2", "u^3")


@cache
def fields():
    start = sl.Gaussian(0.0, 1.0 / np.arange(1.0, 6.0) ** 2)
    e = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(41), initial=start)
    return e, sl.simulate(e, 8, grid=e.domain.grid(16), seed=0)


@cache
def found():
    e, data = fields()
    return sl.discover(data, e.domain, 5, library=LIBRARY, bootstrap=50)


def test_terms_that_act_are_found():
    """Terms that act are never missed here; BIC adds an idle one in 1.6 % of 320 transitions.

    ``P(z^2 > log 320)`` is too often to assert that none was added.
    """
    d = found()
    assert {"u", "u^3"} <= set(d.terms) <= set(LIBRARY)
    assert list(d.law.parameters.term.values) == list(d.terms)
    assert d.law.dynamics.terms == d.terms
    assert d.inclusion.sel(term="u^3") > 0.9
    assert d.inclusion.sel(term="u^2") < d.inclusion.sel(term="u^3")


def test_table_has_the_linear_law_and_real_likelihoods():
    table = found().table
    assert table["bic"].values[0] == 0.0
    assert (np.diff(table["bic"].values[:-1]) >= 0).all()
    fitted = np.isfinite(table["log_likelihood"].values)
    linear = table["bic"].values[table["linear"].values & fitted]
    assert linear.min() > 20.0
    assert table["coefficient"].dims == ("candidate", "term")
    assert table["frequency"].values.sum() <= 1.0 + 1e-12


def test_it_can_be_read():
    d = found()
    assert "units of BIC behind" in d.sentence
    assert d.sentence in repr(d)
    three = dataclasses.replace(d, terms=("u", "u^2", "u^3"))
    assert three.sentence.startswith("The data choose u, u^2 and u^3")
    assert "choose no term" in dataclasses.replace(d, terms=()).sentence
    assert "log-likelihood" in repr(d)
    assert "<table>" in d._repr_html_()
    told = json.loads(json.dumps(d.to_dict()))
    assert told["terms"] == list(d.terms)
    assert told == d.law.info["discovery"]
    assert set(told["candidates"][0]["coefficients"]) == set(d.terms)


def test_records_too_few_to_resample_say_nothing_of_it():
    e, data = fields()
    d = sl.discover(data[:1], e.domain, 5, library=("u", "u^3"), bootstrap=20)
    assert d.inclusion.isnull().all()
    assert "resampled" not in d.sentence
    assert json.loads(json.dumps(d.to_dict()))["inclusion"] == {"u": None, "u^3": None}


def test_an_idle_term_is_left_out():
    """Null: u^2 does not act. BIC keeps it in ``P(z^2 > log 320)`` = 1.6 % of data sets.

    More than 4 of 10 would have a chance of 3e-7.
    """
    e, _ = fields()
    every = sl.simulate(e, 80, seed=5)
    kept = 0
    for k in range(10):
        d = sl.discover(every[8 * k : 8 * k + 8], e.domain, 5, library=LIBRARY, bootstrap=0)
        kept += "u^2" in d.terms
    assert kept <= 4


def test_gaps_and_noise():
    """The same through the filter; every candidate is judged by the same numbers."""
    e, _ = fields()
    noisy = sl.simulate(e, 8, grid=e.domain.grid(16), seed=0, observation_std=0.1)
    gaps = sl.mask(noisy, "random", 0.2, seed=0)
    d = sl.discover(gaps, e.domain, 5, library=LIBRARY, bootstrap=20)
    assert {"u", "u^3"} <= set(d.terms)
    assert d.law.info.route == "closure filter"
    log_likelihoods = d.table["log_likelihood"].values
    fitted = np.isfinite(log_likelihoods)
    assert fitted.sum() >= 2
    linear = d.table["linear"].values
    assert log_likelihoods[fitted & ~linear].max() > log_likelihoods[fitted & linear].max() + 10.0


def test_refusals():
    e, data = fields()
    with pytest.raises(InputError, match="names in a tuple"):
        sl.discover(data, e.domain, 5, library="u^3")
    with pytest.raises(InputError, match="keyword"):
        sl.discover(data, e.domain, 5, librari=LIBRARY)
    with pytest.raises(InputError, match="1 to 12 terms"):
        sl.discover(data, e.domain, 5, library=())
    with pytest.raises(DataError, match="at least 30 transitions to choose from 3 terms"):
        sl.discover(data[:2, :12], e.domain, 5, library=LIBRARY)
    with pytest.raises(EquationError, match="u_y"):
        sl.discover(data, e.domain, 5, library=("u", "u u_y"))
    sphere = sl.Sphere()
    with pytest.raises(InputError):
        sl.discover(data, sphere, 4, library=("u", "u u_x"))
