"""Laws recovered from simulated fields: within 4 standard errors, and none of them idle."""

import dataclasses
from functools import cache

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.infer.discovery import check_library, select
from spdelaw.infer.semilinear.fits import fit_complete, fit_filtered
from spdelaw.infer.semilinear.layout import layout
from spdelaw.infer.semilinear.starts import invert_information
from spdelaw.statespace.collapse import collapse

#: A true null fails once in 16,000 numbers.
WITHIN = 4.0


def start(n):
    return sl.Gaussian(0.0, 1.0 / np.arange(1.0, n + 1.0) ** 2)


@cache
def allen_cahn(dt=0.1, n=7, n_paths=10, n_times=61, seed=0):
    e = sl.catalogue.allen_cahn(n, times=dt * np.arange(n_times), initial=start(n))
    return e, e.domain.analyse(sl.simulate(e, n_paths, seed=seed), n, method="dense").values


def z_scores(fit, **truth):
    return {k: (fit.values[k] - v) / fit.standard_errors[k] for k, v in truth.items()}


def assert_recovers(fit, **truth):
    z = np.array(list(z_scores(fit, **truth).values()))
    assert np.abs(z).max() < WITHIN, z_scores(fit, **truth)
    assert np.sqrt((z**2).mean()) > 0.1


TRUTH = {"nu": 0.05, "u": 1.0, "u^3": -1.0, "scale": 0.1, "exponent": 1.5}


@pytest.mark.parametrize("dt", [0.1, 0.3])
def test_allen_cahn(dt):
    e, c = allen_cahn(dt)
    fit = fit_complete(c, e.times, e.domain, ("u", "u^3"))
    assert_recovers(fit, **TRUTH)
    assert fit.diagnostics["converged"]
    assert fit.diagnostics["step_shift"] < 0.3
    robust = np.array(list(fit.robust_errors.values())) / list(fit.standard_errors.values())
    assert (robust > 0.6).all()
    assert (robust < 1.6).all()


def test_one_noise_per_mode_and_a_held_parameter():
    e, c = allen_cahn()
    fit = fit_complete(c, e.times, e.domain, ("u", "u^3"), noise="diagonal", fixed={"nu": 0.05})
    q = {f"q_{k}": v for k, v in enumerate(e.linear.noise_variance, 1)}
    assert_recovers(fit, **{"u": 1.0, "u^3": -1.0}, **q)
    assert "nu" not in fit.standard_errors
    assert fit.values["nu"] == 0.05


@pytest.mark.parametrize("name", ["burgers", "kpz", "fisher_kpp", "nagumo"])
def test_other_equations(name):
    words = {} if name in ("fisher_kpp", "nagumo") else {"initial": start(7)}
    e = getattr(sl.catalogue, name)(7, times=0.1 * np.arange(61), **words)
    c = e.domain.analyse(sl.simulate(e, 10, seed=1), 7, method="dense").values
    free = {"kappa": None} if name in ("burgers", "kpz") else None
    fit = fit_complete(c, e.times, e.domain, tuple(e.terms), fixed=free)
    drift, noise = e.linear.drift, e.linear.noise
    kappa = {"kappa": drift.kappa} if free else {}
    assert_recovers(
        fit, nu=drift.nu, scale=noise.scale, exponent=noise.exponent, **kappa, **e.terms
    )


def test_own_times_and_a_broken_path():
    e, c = allen_cahn()
    c = c.copy()
    c[0, 5] = np.nan
    times = np.tile(e.times, (len(c), 1))
    fit = fit_complete(c, times, e.domain, ("u", "u^3"))
    assert fit.n_values == c.size - c[:, :1].size - 2 * c.shape[2]
    assert_recovers(fit, **TRUTH)


@pytest.mark.parametrize("unit", [1e6, 1e-9])
def test_units_do_not_matter(unit):
    """A field in other units has the same law in these units."""
    e, c = allen_cahn(n=5, n_paths=6, n_times=31)
    plain, other = (fit_complete(k * c, e.times, e.domain, ("u", "u^3")) for k in (1.0, unit))
    power = {"u^3": 2, "scale": -2}
    for name, value in plain.values.items():
        factor = unit ** power.get(name, 0)
        assert other.values[name] * factor == pytest.approx(value, rel=1e-8)


def test_fields_of_the_scheme():
    e = sl.catalogue.allen_cahn(7, times=0.1 * np.arange(61), initial=start(7))
    c = sl.simulate(e, 10, seed=2, scheme="semi_implicit")
    c = e.domain.analyse(c, 7, method="dense").values
    fit = fit_complete(c, e.times, e.domain, ("u", "u^3"), scheme="semi_implicit")
    assert_recovers(fit, **TRUTH)
    wrong = fit_complete(c, e.times, e.domain, ("u", "u^3"))
    assert fit.log_likelihood > wrong.log_likelihood


def test_gaps_and_noise():
    e = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(41), initial=start(5))
    fields = sl.simulate(e, 12, seed=3, observation_std=0.1, grid=e.domain.grid(8))
    values = sl.mask(fields, fraction=0.3, seed=0).values
    data = collapse(values, np.asarray(e.times), e.domain.eigenfunctions(e.domain.grid(8), 5))
    fit = fit_filtered(data, e.domain, ("u", "u^3"))
    assert_recovers(fit, observation_variance=0.01, **TRUTH)
    assert fit.diagnostics["converged"]
    assert fit.diagnostics["burn"] > 0.2


def chosen(c, e, library):
    def fit(terms):
        return fit_complete(c, e.times, e.domain, terms, fixed={"kappa": 0.0})

    return select(fit(library), fit, bootstrap=40)


def test_discovery():
    e, c = allen_cahn()
    found, table, inclusion = chosen(c, e, ("1", "u", "u^2", "u^3", "u u_x"))
    assert set(found.layout.reaction.names) == {"u", "u^3"}
    assert table["terms"].values[0] == "u, u^3"
    assert table["linear"].values.any()
    assert (table["bic"].values >= 0).all()
    assert inclusion.sel(term="u^3") == 1.0
    best = table.isel(candidate=0)
    assert float(best["log_likelihood"]) == found.log_likelihood
    assert float(best["coefficient"].sel(term="u^3")) == found.values["u^3"]
    fitted = np.isfinite(table["log_likelihood"].values)
    linear = table.isel(candidate=int(np.argmax(table["linear"].values & fitted)))
    gap = 2.0 * (best["log_likelihood"] - linear["log_likelihood"])
    n_terms = len(str(linear["terms"].values).split(", "))
    expected = gap + (n_terms - 2) * np.log(len(found.scores))
    assert float(linear["bic"]) == pytest.approx(float(expected))


def test_a_linear_field_needs_no_term():
    heat = sl.catalogue.periodic_heat(5, kappa=0.0, nu=0.2, initial=start(5))
    heat = dataclasses.replace(heat, times=0.1 * np.arange(41))
    c = heat.domain.analyse(sl.simulate(heat, 10, seed=1), 5, method="dense").values
    assert chosen(c, heat, ("u", "u^2", "u^3"))[0].layout.reaction.names == ()


def test_wrong_use():
    e, c = allen_cahn()
    with pytest.raises(InputError, match="noise"):
        fit_complete(c, e.times, e.domain, ("u",), noise="dense")
    with pytest.raises(InputError, match="names among"):
        fit_complete(c, e.times, e.domain, ("u",), fixed={"speed": 1.0})
    with pytest.raises(InputError, match="minus kappa"):
        layout(e.domain, 5, ("u",), fixed={"kappa": None})
    with pytest.raises(InputError, match="bring more"):
        fit_complete(c[:1, :2], e.times[:2], e.domain, ("u", "u^3"))
    with pytest.raises(InputError, match="scheme"):
        fit_complete(c, e.times, e.domain, ("u",), scheme="euler")
    with pytest.raises(InputError, match="a number for 'nu'"):
        fit_complete(c, e.times, e.domain, ("u",), fixed={"nu": "small"})
    with pytest.raises(InputError, match="library"):
        check_library((), e.domain)
    with pytest.raises(ConvergenceError, match="tell apart"):
        invert_information(np.ones((2, 2)))
