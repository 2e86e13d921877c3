"""engine="chaos" for laws with terms and noise that depends on the state: any order."""

import numpy as np
import pytest
import xarray as xr
from tests.fitted import fitted

import spdelaw as sl
from spdelaw.errors import InputError, SpdeLawWarning
from spdelaw.law import chaos_posterior, sample_chaos
from spdelaw.law.law import Law
from spdelaw.processes import Reacting
from spdelaw.processes.specification import InitialState

LINE = sl.Interval(0, np.pi)
POINTS, TIMES = np.linspace(0.1, 3.0, 12), np.linspace(2.0, 3.0, 11)
NO_TABLE = xr.Dataset(coords={"mode": [1, 2], "statistic": ["estimate"]})


def law_of(state_noise="proportional", variance=0.0, terms=(), coefficients=()):
    """A law of two modes whose noise depends on the state."""
    kind = "gaussian" if variance else "deterministic"
    dynamics = Reacting(
        LINE,
        terms,
        np.array(coefficients, float),
        np.array([1.0, 4.0]),
        np.array([0.8, 0.2]),
        state_noise=state_noise,
    )
    initial = InitialState(kind, np.array([1.0, 0.3]), np.full(2, variance))
    return Law(LINE, 2, NO_TABLE, dynamics, initial, np.array(1e-4), TIMES, POINTS)


# ------------------------------------------------------------------ linear laws


def test_an_order_has_no_effect_on_a_linear_law_and_the_law_says_so():
    data, equation, _ = fitted("chaos")[:3]
    law = sl.fit(data, equation.domain, 8, engine=sl.Chaos(order=3))
    first = fitted("chaos").law
    np.testing.assert_array_equal(law.parameters.eigenvalue, first.parameters.eigenvalue)
    assert any("order=3 has no effect" in note for note in law.info["warnings"])
    assert not any("order" in note for note in first.info.get("warnings", []))
    some = data.isel(path=[0, 1])
    both = [chaos_posterior(one, some) for one in (law, first)]
    xr.testing.assert_identical(*both)


# ------------------------------------------------------------------ noise that depends on the state


@pytest.mark.parametrize("variance", [0.0, 0.1])
def test_the_posterior_of_draws_of_the_expansion(variance):
    law = law_of(variance=variance)
    data = law.sample(12, seed=0, observation_noise=True)
    data[3, 4:8] = np.nan
    data[5] = data[5].where(data["x"] < 1.5)
    posterior = chaos_posterior(law, data, n_time=6, order=2)
    assert dict(posterior.sizes) == {"path": 12, "k": 6, "mode": 2, "time": 11, "x": 12}
    assert posterior.converged.all()
    assert (posterior.xi_std > 0).all()
    assert (posterior.xi_std <= 1 + 1e-9).all()
    assert (posterior.z0_std > 0).all() == (variance > 0)
    left = (posterior.reconstruct_truncated - data).isel(path=[0, 1, 2])
    assert float(np.sqrt((left**2).mean())) < 0.15 * float(data.std())  # the tail
    # Paths do not depend on each other.
    alone = chaos_posterior(law, data.isel(path=[3]), n_time=6, order=2)
    np.testing.assert_allclose(alone.xi_mean[0], posterior.xi_mean[3], atol=1e-6)


def test_samples_have_the_moments_of_the_equation():
    """4,000 draws against 4,000 of `Law.sample`; both have errors of 3 % of a variance at most.

    A 5-sigma band for the ratio of two such variances is 20 %.
    """
    law = law_of()
    chaos = sample_chaos(law, 4000, n_time=4, order=2, seed=1)
    exact = law.sample(4000, seed=2)
    assert chaos.dims == exact.dims
    np.testing.assert_array_equal(chaos["time"], exact["time"])
    ratio = (chaos.var("path").sum("x") / exact.var("path").sum("x"))[1:]
    assert (np.abs(ratio - 1.0) < 0.2).all()
    dropped = sample_chaos(law, 4000, n_time=1, order=1, tail="dropped", seed=1)
    assert float(dropped.var("path").sum()) < 0.9 * float(exact.var("path").sum())


def test_what_has_no_expansion_is_refused():
    law, data = law_of("square_root"), np.ones((2, 11, 12))
    labelled = xr.DataArray(data, dims=("path", "time", "x"), coords={"time": TIMES, "x": POINTS})
    with pytest.raises(sl.errors.EquationError, match="square_root"):
        chaos_posterior(law, labelled)
    with pytest.raises(InputError, match="linear law"):
        sample_chaos(fitted("chaos").law, 3)
    with pytest.raises(InputError, match="order"):
        chaos_posterior(law_of(), labelled, order=0)
    with pytest.raises(InputError, match="tail"):
        sample_chaos(law_of(), 3, tail="none")
    with pytest.raises(InputError, match="order"):
        sl.Chaos(order=0)


# ------------------------------------------------------------------ terms


def one_well(n_paths=30):
    """``dX = (0.05 X'' - X - X^3) dt + dW`` on a ring."""
    equation = sl.catalogue.allen_cahn(3, a=-1.0, times=np.linspace(0.0, 1.0, 11))
    return sl.simulate(equation, n_paths, seed=0), equation.domain


def test_terms_are_learned_as_by_the_semilinear_engine():
    data, domain = one_well()
    words = {"terms": ("u", "u^3")}
    law = sl.fit(data, domain, 3, engine="chaos", order=2, n_time=3, **words)
    reference = sl.fit(data, domain, 3, **words)
    xr.testing.assert_identical(law.parameters, reference.parameters)
    assert law.info["engine"] == "chaos"
    assert law.info["order"] == 2
    assert law.info["latent_dimension"] == 3 * 55  # C(9 + 2, 2) coefficients of three modes
    assert law.info["chaos_floor"] is None
    assert 0.0 < law.info["chaos_missing"] < 0.2
    assert not any("wells" in note for note in law.info["warnings"])
    posterior = chaos_posterior(law, data.isel(path=[0, 1]))
    assert posterior.attrs["order"] == 2
    assert posterior.converged.all()
    left = posterior.reconstruct_truncated - data.isel(path=[0, 1])
    assert float((left**2).mean()) < 0.2 * float((data.isel(path=[0, 1]) ** 2).mean())


def test_two_wells_warn():
    equation = sl.catalogue.allen_cahn(3, times=0.4 * np.arange(16.0))
    data = sl.simulate(equation, 20, seed=0)
    with pytest.warns(SpdeLawWarning, match="two wells"):
        law = sl.fit(data, equation.domain, 3, engine=sl.Chaos(terms=("u", "u^3"), n_time=2))
    assert any("two wells" in note for note in law.info["warnings"])


def test_a_dropped_tail_is_refused_beside_terms():
    data, domain = one_well(3)
    with pytest.raises(InputError, match="leave tail out"):
        sl.fit(data, domain, 3, engine="chaos", tail="dropped", terms=("u^3",))
    with pytest.raises(InputError, match="terms"):
        sl.Chaos(terms="u^3")


# ------------------------------------------------------------------ a whole fit


def test_a_fit_of_proportional_noise_and_its_coordinates(tmp_path):
    equation = sl.catalogue.geometric_heat(3, times=np.linspace(0.0, 1.0, 11))
    data = sl.simulate(equation, 20, seed=0)
    words = {"state_noise": "proportional"}
    law = sl.fit(data, equation.domain, 3, engine=sl.Chaos(order=2, n_time=4), **words)
    reference = sl.fit(data, equation.domain, 3, **words)
    xr.testing.assert_identical(law.parameters, reference.parameters)
    assert 0.0 < law.info["chaos_floor"] < 0.02
    assert law.info["chaos_floor"] < law.info["chaos_missing"] < 0.2
    law.save(tmp_path / "chaos.law")
    some = data.isel(path=[0, 1])
    posterior = chaos_posterior(sl.load(tmp_path / "chaos.law"), some)
    assert (posterior.attrs["order"], posterior.attrs["n_time"]) == (2, 4)
    xr.testing.assert_allclose(posterior, chaos_posterior(law, some))
    # A higher order leaves less of these paths to the tail.
    first = chaos_posterior(law, data, order=1).reconstruct_truncated
    second = chaos_posterior(law, data, order=2).reconstruct_truncated
    assert float(((second - data) ** 2).mean()) < float(((first - data) ** 2).mean())
