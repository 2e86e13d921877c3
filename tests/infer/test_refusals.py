"""Input that cannot be used is refused at the door, in words that help."""

import inspect

import numpy as np
import pytest
import xarray as xr
from tests.fitted import INTERVAL, POINTS, TIMES, case, refit, small

import spdelaw as sl
from spdelaw.errors import DataError, DomainError, EquationError, InputError

FIELDS = small(6)
VALUES = FIELDS.values


def bare(values, **words):
    return sl.fit(values, INTERVAL, 3, times=TIMES, points=POINTS, **words)


def with_value(value):
    return np.where(np.arange(VALUES.size).reshape(VALUES.shape) == 99, value, VALUES)


def gappy(values):
    return np.where(np.random.default_rng(0).random(values.shape) < 0.3, np.nan, values)


DATA = {
    "NaN everywhere": (lambda: bare(np.full_like(VALUES, np.nan)), "at least one known value"),
    "infinite": (lambda: bare(with_value(-np.inf)), "finite"),
    "lazy infinite": (
        lambda: sl.fit(FIELDS.copy(data=with_value(np.inf)).chunk(path=2), INTERVAL, 3),
        "infinite, the first at"),
    "lazy NaN": (
        lambda: sl.fit((np.nan * FIELDS).chunk(path=2), INTERVAL, 3), "at least one known value"),
    "lazy constant": (
        lambda: sl.fit(xr.ones_like(FIELDS).where(FIELDS.x > 0.5).chunk(time=9), INTERVAL, 1),
        "change over time"),
    "one time": (lambda: sl.fit(FIELDS.isel(time=[0]), INTERVAL, 3), "at least two times"),
    "one transition": (
        lambda: sl.fit(FIELDS.isel(path=[0], time=[0, 1]), INTERVAL, 3), "three transitions"),
    "constant": (lambda: bare(np.full_like(VALUES, 3.7)), "constant fields"),
    "a constant a path": (
        lambda: bare(np.broadcast_to(VALUES[:, :1], VALUES.shape).copy()), "constant fields"),
    "constant with gaps": (lambda: bare(gappy(np.full_like(VALUES, 3.7))), "constant fields"),
    "complex": (lambda: bare(VALUES + 1j), "real numbers"),
    "strings": (lambda: bare(np.full(VALUES.shape, "a")), "real numbers"),
    "no paths": (lambda: bare(VALUES[:0]), "at least one entry"),
    "nothing": (lambda: sl.fit(None, INTERVAL, 3), "array of numbers"),
    "repeated times": (
        lambda: sl.fit(FIELDS.assign_coords(time=np.zeros(len(TIMES))), INTERVAL, 3), "distinct"),
    "no coordinates": (lambda: sl.fit(VALUES, INTERVAL, 3), "times"),
    "more modes than points": (lambda: sl.fit(FIELDS, INTERVAL, 17), "at most 14 modes"),
    "modes that vanish on the grid": (lambda: sl.fit(FIELDS, INTERVAL, 15), "at most 14 modes"),
    "one noise too few": (
        lambda: bare(VALUES, observation_noise=np.ones(5)), "one standard deviation per point"),
}  # fmt: skip


@pytest.mark.parametrize("name", DATA)
def test_data(name):
    call, words = DATA[name]
    with pytest.raises(DataError, match=words) as caught:
        call()
    assert "Fix:" in str(caught.value)


#: Found without a look at the data, and named first where these would be refused too.
SETTINGS = {
    "engine": {"engine": "magic"},
    "observation_noise": {"observation_noise": "lots"},
    "initial": {"initial": "random"},
    "drift": {"drift": "full"},
    "noise_rank": {"noise": "low_rank", "noise_rank": 0},
    "noise": {"noise": ["parametric"]},
    "nuisance": {"nuisance": -1},
    "bootstrap": {"bootstrap": 2.5},
    "threads": {"threads": 0},
    "seed": {"seed": -1},
    "level": {"level": 95},
    "keyword": {"n_mode": 3},
    "fixed": {"fixed": [1.0, 2.0]},
    "priors": {"priors": sl.Normal(0, 1)},
    "residual": {"residual": "pink"},
}
MORE_SETTINGS = [
    ("observation_noise", {"observation_noise": np.nan}),
    ("observation_noise", {"observation_noise": np.zeros(16)}),
    ("observation_noise", {"observation_noise": ["a", "b"]}),
    ("observation_noise", {"observation_noise": True}),
    ("level", {"level": "high"}),
    ("bootstrap", {"bootstrap": True}),
    ("fixed", {"fixed": {"eigenvalue": [1.0, 2.0]}}),
    ("fixed", {"fixed": {"eigenvaleu": 1.0}}),
    ("fixed", {"fixed": {"eigenvalue[1]": "one"}}),
    ("fixed", {"fixed": {"eigenvalue": "one"}}),
    ("fixed", {"fixed": {"eigenvalue[1]": -1.0}}),
    ("fixed", {"fixed": {"eigenvalue[1]": np.inf}}),
    ("fixed", {"fixed": {"noise_variance": [-1.0, np.nan, np.nan]}}),
    ("fixed", {"fixed": {"noise_variance[1]": 0.0}}),
    ("fixed", {"fixed": {"eigenvalue[9]": 1.0}}),
    ("priors", {"priors": {"eigenvalue": (1.0, 2.0)}}),
    ("priors", {"priors": {"nothing": sl.Normal(0.0, 1.0)}}),
    ("priors", {"initial": "gaussian", "priors": {"initial_mean": sl.LogNormal(1.0, 1.0)}}),
]


@pytest.mark.parametrize(("what", "words"), [*SETTINGS.items(), *MORE_SETTINGS])
def test_settings(what, words):
    data = None if words is SETTINGS.get(what) else FIELDS
    with pytest.raises(InputError, match=what) as caught:
        sl.fit(data, INTERVAL, 3, **words)
    assert caught.value.what.startswith(what)
    assert "Fix:" in str(caught.value)


SEASON = sl.Season(1.0, 4)
#: Data of `tests.fitted`, words of a fit of them (of the data where they are functions), the error
#: and a word of its fix.
COMBINATIONS = [
    ("complete", {"drift": "normal"}, InputError, "periodic"),
    ("complete", {"noise": "low_rank", "noise_rank": 3}, InputError, "noise_rank"),
    ("complete", {"drift": "dense", "engine": "chaos", "tail": "dropped"}, InputError, "modelled"),
    ("dense", {"drift": "normal", "engine": "amortized"}, InputError, "engine='exact'"),
    ("complete", {"drift": "dense", "fixed": {"eigenvalue": 1.0}}, InputError, "fixed"),
    ("complete", {"n_time": 8}, InputError, "n_time: expected engine='chaos'"),
    ("complete", {"tail": "dropped"}, InputError, "tail: expected engine='chaos'"),
    ("chaos", {"n_time": 0}, InputError, "n_time: expected a positive integer"),
    ("chaos", {"tail": "cut"}, InputError, "tail: expected one of"),
    ("chaos", {"preset": "paper"}, InputError, "keyword"),
    ("chaos_dropped", {"noise": "dense"}, InputError, "noise"),
    ("chaos_dropped", {"observation_noise": "none"}, InputError, "observation_noise"),
    ("chaos_dropped", {"nuisance": 3}, InputError, "nuisance"),
    ("chaos_dropped", {"bootstrap": 5}, InputError, "bootstrap"),
    ("complete", {"model": sl.Model(), "drift": "dense"}, InputError, "drift"),
    ("complete", {"model": "dense"}, InputError, "model"),
    ("complete", {"engine": sl.Exact(), "threads": 2}, InputError, "keyword"),
    ("complete", {"engine": sl.Exact}, InputError, "engine"),
    ("complete", {"epochs": 3}, InputError, "keyword"),
    ("complete", {"drfit": "dense"}, InputError, r"did you mean drift\?"),
    ("complete", {"time_units": "days"}, InputError, r"did you mean time_unit\?"),
    # Means.
    ("mean", {"mean": "steady"}, InputError, "mean"),
    ("mean", {"mean": np.zeros(5)}, DataError, "mean"),
    ("mean", {"mean": np.zeros((17, 2))}, DataError, "mean"),
    ("mean", {"mean": object()}, DataError, "mean"),
    ("mean", {"mean": np.full(17, np.inf)}, DataError, "mean"),
    ("mean", {"mean": lambda x: x[0, :2]}, DataError, "mean"),
    ("mean", {"mean": lambda x: x[0, 0].assign_coords(x=0.1 * x.x)}, DataError, "mean"),
    # Noise of values.
    ("complete", {"observation_noise": lambda x: 1 + x[:, :5] ** 2}, DataError, "_noise"),
    ("complete", {"observation_noise": lambda x: (1 + x**2).assign_coords(x=0.1 * x.x)},
     DataError, "observation_noise"),
    ("complete", {"observation_noise": lambda x: -1 - x**2}, InputError, "observation_noise"),
    ("complete", {"observation_noise": lambda x: x.values[0] ** 2}, InputError, "_noise"),
    ("complete", {"observation_noise": lambda x: 1 + x**2, "engine": "chaos"},
     InputError, "engine='exact'"),
    ("complete", {"observation_noise": lambda x: 1 + x**2, "bootstrap": 3},
     InputError, "bootstrap"),
    ("complete", {"observation_noise": True}, InputError, "pass observation_noise='estimate'"),
    ("complete", {"observation_noise": False}, InputError, "pass observation_noise='none'"),
    ("complete", {"observation_noise": [True, True]}, InputError, "observation_noise"),
    # Forcing and seasons.
    ("forced", {"engine": "chaos"}, InputError, "exact"),
    ("forced", {"prepare": sl.Preparation(detrend=True)}, InputError, "prepare"),
    ("forced", {"forcing": sl.Forcing([0.0, 0.5], np.zeros((2, 1)))}, EquationError, "known from"),
    ("forced", {"forcing": lambda x: x[:2]}, DataError, "one field"),
    ("forced", {"forcing": lambda x: x[0].where(x[0] != x[0, 3, 4])}, DataError, "without gaps"),
    ("complete", {"season": 4}, InputError, "a Season"),
    ("complete", {"season": SEASON, "engine": "chaos"}, InputError, "exact"),
    ("complete", {"season": SEASON, "initial": "stationary"}, InputError, "seasonal noise"),
    # Terms.
    ("reaction", {"terms": "u^3"}, InputError, "names in a tuple"),
    ("reaction", {"terms": ("u",), "season": SEASON}, InputError, "season"),
    ("reaction", {"bootstrap": 3}, InputError, "bootstrap"),
    ("reaction", {"noise": "dense"}, InputError, "parametric"),
    ("reaction", {"drift": "diagonal"}, InputError, "the term 'u' is already a part"),
    ("reaction", {"drift": "dense"}, InputError, "the term 'u' is already a part"),
    ("reaction", {"fixed": {"kappa": None}}, InputError, "minus kappa"),
    ("reaction", {"fixed": {"speed": 1.0}}, InputError, "names among"),
    ("reaction", {"fixed": {"nu": "small"}}, InputError, "a number for 'nu'"),
    ("reaction", {"observation_noise": "per_point"}, InputError, "per_point"),
    ("reaction", {"terms": ("u u_y",)}, EquationError, "u_y"),
    ("reaction", {"scheme": "euler"}, InputError, "scheme"),
    ("two_fields", {"terms": {"u": ("u",)}}, InputError, "two fields or more"),
    ("two_fields", {"terms": {"u": ("u",), "v": ("u u_x",)}}, EquationError, "polynomial"),
    ("two_fields", {"terms": {"u": ("u",), "v": "u"}}, EquationError, "names in a tuple"),
    ("two_fields", {"n_modes": "auto"}, InputError, "a number together with terms by field"),
    ("two_fields", {"fixed": {"kappa": 1.0}}, InputError, "names among"),
    ("two_fields", {"terms": {"u": ("u",), "v": ("v",)}, "fixed": {"scale v": 0.0}},
     InputError, "a term of"),
    ("two_fields", {"method": "best"}, InputError, "method"),
    ("two_fields", {"terms": ("u",), "fixed": None}, DataError, "terms by field"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "words", "error", "word"), COMBINATIONS)
def test_combinations(name, words, error, word):
    data = case(name).data
    with pytest.raises(error, match=word):
        refit(name, **{k: x(data) if inspect.isfunction(x) else x for k, x in words.items()})


@pytest.mark.parametrize("n_modes", [0, 2.5, "many", True, None])
def test_number_of_modes(n_modes):
    with pytest.raises(DomainError, match="n_modes"):
        sl.fit(FIELDS, INTERVAL, n_modes)


@pytest.mark.parametrize(
    ("domain", "word"),
    [("interval", "domain"), (sl.Interval, "domain"), (sl.Interval(0, 1), r"within \[0, 1\]")],
)
def test_domain(domain, word):
    with pytest.raises(DomainError, match=word):
        sl.fit(FIELDS, domain, 3)


def test_refused_input_is_left_as_it_was():
    before = FIELDS.copy(deep=True)
    with pytest.raises(InputError):
        sl.fit(FIELDS, INTERVAL, 3, fixed={"noise_variance[1]": -1.0})
    assert FIELDS.identical(before)
    assert sl.fit(FIELDS, INTERVAL, 3, mean="zero").info["n_paths"] == 6
    assert FIELDS.identical(before)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
def test_a_basis_that_cannot_fit_does_not_go_unnoticed():
    """Sines seen in cosines: whatever the fit makes of it, the innovations reject the model."""
    fields = small(12)
    law = sl.fit(fields, sl.Interval(0, np.pi, "neumann"), 2)
    assert not sl.evaluate(law, fields, tiers=()).check.fits
