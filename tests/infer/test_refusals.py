"""Input that cannot be used is refused at the door, in words that help."""

import numpy as np
import pytest
from tests.infer.objectives import as_posterior
from tests.infer.recovery import INTERVAL, POINTS, TIMES, heat, small

import spdelaw as sl
from spdelaw.errors import ConvergenceError, DataError, DomainError, InputError
from spdelaw.infer import optimise as optimise_module
from spdelaw.infer.optimise import maximise

FIELDS = small(6)
VALUES = FIELDS.values


def with_value(value):
    out = VALUES.copy()
    out[1, 2, 3] = value
    return out


def bare(values, **settings):
    return sl.fit(values, INTERVAL, 3, times=TIMES, points=POINTS, **settings)


def gappy(values):
    return np.where(np.random.default_rng(0).random(values.shape) < 0.3, np.nan, values)


DATA = {
    "NaN everywhere": (lambda: bare(np.full_like(VALUES, np.nan)), "at least one known value"),
    "infinite": (lambda: bare(with_value(np.inf)), "finite"),
    "minus infinite": (lambda: bare(with_value(-np.inf)), "finite"),
    "one time": (lambda: sl.fit(FIELDS.isel(time=[0]), INTERVAL, 3), "at least two times"),
    "one transition": (
        lambda: sl.fit(FIELDS.isel(path=[0], time=[0, 1]), INTERVAL, 3), "three transitions"),
    "zero": (lambda: bare(np.zeros_like(VALUES)), "constant fields"),
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
    with pytest.raises(DataError, match=words) as found:
        call()
    assert "Fix:" in str(found.value)


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
}
MORE_SETTINGS = [
    ("observation_noise", {"observation_noise": -0.1}),
    ("observation_noise", {"observation_noise": np.nan}),
    ("observation_noise", {"observation_noise": np.zeros(16)}),
    ("observation_noise", {"observation_noise": ["a", "b"]}),
    ("level", {"level": 1.0}),
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
    ("priors", {"priors": {"eigenvalue": "wide"}}),
    ("priors", {"priors": {"eigenvalue": (1.0, 2.0)}}),
    ("priors", {"priors": {"nothing": sl.Normal(0.0, 1.0)}}),
    ("priors", {"initial": "gaussian", "priors": {"initial_mean": sl.LogNormal(1.0, 1.0)}}),
]


@pytest.mark.parametrize(("what", "settings"), [*SETTINGS.items(), *MORE_SETTINGS])
def test_settings(what, settings):
    with pytest.raises(InputError, match=what) as found:
        sl.fit(FIELDS, INTERVAL, 3, **settings)
    assert found.value.what.startswith(what)
    assert "Fix:" in str(found.value)


@pytest.mark.parametrize(("what", "settings"), SETTINGS.items(), ids=SETTINGS)
def test_settings_are_checked_before_the_data_are_read(what, settings):
    """Data that would be refused too: the setting is named first."""
    with pytest.raises(InputError) as found:
        sl.fit(None, INTERVAL, 3, **settings)
    assert found.value.what == what


@pytest.mark.parametrize("n_modes", [0, -1, 2.5, "many", True, None])
def test_number_of_modes(n_modes):
    with pytest.raises(DomainError, match="n_modes"):
        sl.fit(FIELDS, INTERVAL, n_modes)


@pytest.mark.parametrize("domain", ["interval", None, 3.14, sl.Interval])
def test_domain(domain):
    with pytest.raises(DomainError, match="domain"):
        sl.fit(FIELDS, domain, 3)


def test_points_outside_the_domain():
    with pytest.raises(DomainError, match=r"within \[0, 1\]"):
        sl.fit(FIELDS, sl.Interval(0.0, 1.0), 3)


def test_no_likelihood_is_an_error_with_advice():
    """A likelihood that is nowhere finite leaves no law."""

    def objective(x):
        return np.nan, np.full_like(x, np.nan)

    with pytest.raises(ConvergenceError) as found:
        maximise(as_posterior(objective, np.ones(2)))
    for word in ("fewer modes", "fix or tie", "prior", "unit of time"):
        assert word in found.value.fix


def test_a_likelihood_without_end_is_marked(monkeypatch):
    """Where the search stops there is a law, and what is wrong with it is said."""

    def objective(x):
        return np.logaddexp(0.0, x).sum(), 1.0 / (1.0 + np.exp(-x))

    monkeypatch.setattr(optimise_module, "MOST_ITERATIONS", 3)
    found = maximise(as_posterior(objective, np.ones(2)))
    assert not found.converged
    assert found.note


@pytest.mark.parametrize("short", [0.01, 0.07, 0.2])
def test_a_search_that_ends_short_says_by_how_much(monkeypatch, short):
    """No law is lost; a tenth of a standard error counts as converged, more does not."""
    fields = FIELDS + 0.1 * np.random.default_rng(0).standard_normal(FIELDS.shape)
    polish = optimise_module._polish

    def moved(objective, x, *how):
        x, start, _, information, _, bend = polish(objective, x, *how)
        x = x + short * np.eye(len(x))[0] / np.sqrt(information[0, 0])
        value, gradient = objective(x)
        return x, start, gradient, information, value, bend

    monkeypatch.setattr(optimise_module, "_polish", moved)
    law = sl.fit(fields, INTERVAL, 2, mean="zero")
    said = [note for note in law.info["warnings"] if "standard errors short" in note]
    assert len(said) == (short > 0.05)
    gain = law.info["convergence"]["remaining_gain"]
    np.testing.assert_allclose(np.sqrt(2.0 * gain), short, rtol=0.15)
    assert law.info["converged"] == (short < 0.1)


def test_refused_input_is_left_as_it_was():
    before = FIELDS.copy(deep=True)
    with pytest.raises(InputError):
        sl.fit(FIELDS, INTERVAL, 3, fixed={"noise_variance[1]": -1.0})
    assert FIELDS.identical(before)
    assert sl.fit(FIELDS, INTERVAL, 3).info["n_paths"] == 6
    assert FIELDS.identical(before)
    assert heat().n_modes == 3


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
def test_a_basis_that_cannot_fit_does_not_go_unnoticed():
    """Sines seen in cosines: whatever the fit makes of it, the innovations reject the model."""
    fields = sl.simulate(
        sl.catalogue.heat(n_modes=3), 12, np.linspace(0, 1, 21), np.linspace(0, np.pi, 17), seed=0
    )
    law = sl.fit(fields, sl.Interval(0, np.pi, "neumann"), 2)
    assert not sl.evaluate(law, fields, tiers=()).check.fits
