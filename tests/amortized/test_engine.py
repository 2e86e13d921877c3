"""``sl.fit(..., engine="amortized")``: a law like any other, that says how it was learned."""

import subprocess
import sys

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.amortized.engine import amortized_reconstruct
from spdelaw.errors import DataError, InputError, MissingExtraError
from spdelaw.law.derived import relative_l2, rmse

from .amortized_cases import DOMAIN, EQUATION, GRID, SMALL, TIMES, fields, own_times, with_gaps

LEARNS = SMALL | {
    "epochs": 60, "n_hidden": 32, "n_embedding": 16, "n_reference": 8, "encoder_rate": 1e-2,
    "variance_rate": 2e-2, "n_time": 6,
}  # fmt: skip


def fit(data, **settings):
    return sl.fit(data, DOMAIN, 3, engine="amortized", **(SMALL | settings))


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """200 paths, 60 epochs: a few seconds."""
    folder = tmp_path_factory.mktemp("run") / "checkpoint"
    return fit(fields(200), **LEARNS, seed=1, checkpoint=folder)


# ------------------------------------------------------------------ learning


def test_the_loss_falls_and_the_bound_stays_below_the_likelihood(learned):
    curve = learned.info["training"]["curve"]
    assert curve["loss"][-1] < curve["loss"][0] - 100.0
    assert curve["validation_loss"][-1] < curve["validation_loss"][0] - 100.0
    assert learned.info["amortization_gap"] > 0
    assert learned.info["elbo"] < learned.info["log_likelihood"]


def test_reconstruction_of_new_paths_beats_the_mean(learned):
    new = fields(50, seed=9)
    found = amortized_reconstruct(learned, new)
    mean = np.broadcast_to(fields(200).mean("path").values, new.shape)
    assert found.attrs["relative_l2"] < 0.75 * relative_l2(mean[:, 1:], new.values[:, 1:])


def test_scores_are_the_papers(learned):
    new = with_gaps(n_paths=30)
    found = amortized_reconstruct(learned, new)
    prediction, truth = found["mean"].values[:, 1:], new.values[:, 1:]
    prediction = np.where(np.isnan(truth), np.nan, prediction)
    assert found.attrs["relative_l2"] == pytest.approx(relative_l2(prediction, truth), rel=1e-5)
    assert found.attrs["rmse"] == pytest.approx(rmse(prediction, truth), rel=1e-5)
    assert (found["std"].values > 0).any()


def test_the_folder_serves_as_well_as_the_law(learned):
    new = fields(5, seed=9)
    a = amortized_reconstruct(learned, new)
    assert a.identical(amortized_reconstruct(learned.info["checkpoint"], new))


def test_it_says_what_it_is(learned):
    info = learned.info
    assert (info["engine"], info["preset"], info["epochs"]) == ("amortized", "literal", 60)
    assert info["n_paths"] == 170
    assert info["n_validation"] == 30
    use = info["latent_use"]
    assert [len(use[key]) for key in ("kl_initial", "kl_chaos", "active_share")] == [3, 3, 3]
    assert all(value > 0 for value in use["kl_chaos"])
    assert use["active_share"][0] > 0
    assert any("standard errors" in note for note in info["warnings"])
    assert "Wiener Chaos" in learned.citation()


def test_parameters_have_estimates_and_no_intervals(learned):
    table = learned.parameters
    assert (table.eigenvalue.sel(statistic="estimate") > 0).all()
    assert np.isnan(table.eigenvalue.sel(statistic=["stderr", "lower", "upper"])).all()
    np.testing.assert_allclose(
        table.observation_std.sel(statistic="estimate") ** 2, learned.observation_variance
    )


def test_it_is_a_law_like_any_other(learned, tmp_path):
    learned.save(tmp_path / "heat.law")
    again = sl.load(tmp_path / "heat.law")
    assert again.parameters.identical(learned.parameters)
    assert again.info == learned.info
    new = fields(4, seed=9)
    assert again.sample(3, seed=0).shape == (3, len(TIMES), len(GRID))
    assert np.isfinite(again.log_likelihood(new)).all()
    smoothed = again.reconstruct(new)
    assert relative_l2(smoothed["mean"].values, new.values) < 0.3
    assert np.isfinite(again.forecast(new, [1.1, 1.2])["mean"]).all()
    assert amortized_reconstruct(again, new).identical(amortized_reconstruct(learned, new))
    assert "engine amortized" in repr(again)


def test_it_can_be_judged(learned):
    card = sl.evaluate(learned, fields(10, seed=9), truth=EQUATION)
    assert "kl" in str(card).lower()
    assert learned.info["n_law_parameters"] == 9
    assert card.distance["kl_limit"] == pytest.approx(9 / (2 * 170))


# ------------------------------------------------------------------ data of every kind


@pytest.mark.parametrize("data", [with_gaps(), own_times()], ids=["gaps", "own times"])
def test_gaps_and_own_times(data, tmp_path):
    law = fit(data, checkpoint=tmp_path / "run")
    assert np.isfinite(law.info["elbo"])
    assert law.info["amortization_gap"] > 0
    found = amortized_reconstruct(law, data)
    assert found["mean"].shape == data.shape
    assert np.isfinite(found["mean"]).all()


def test_the_unit_of_time_does_not_matter(tmp_path):
    data = fields()
    hours = data.assign_coords(time=data["time"] * 24.0 + 5.0)
    a, b = fit(data), fit(hours)
    for name in ("eigenvalue", "noise_variance"):
        np.testing.assert_allclose(
            a.parameters[name].sel(statistic="estimate"),
            24.0 * b.parameters[name].sel(statistic="estimate"), rtol=1e-3,
        )  # fmt: skip


def test_given_validation_paths_are_used():
    law = fit(fields(), validation=fields(20, seed=3))
    assert (law.info["n_paths"], law.info["n_validation"]) == (60, 20)


def test_rk4_and_exact_expectation_run():
    a = fit(fields(), propagators="rk4", epochs=2)
    b = fit(fields(), epochs=2)
    assert a.info["elbo"] == pytest.approx(b.info["elbo"], rel=1e-3)
    c = fit(fields(), expectation="exact", select_by="loss", epochs=2)
    assert np.isfinite(c.info["elbo"])


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    "settings",
    [{"bootstrap": 10}, {"drift": "parametric"}, {"observation_noise": 0.1},
     {"initial": "stationary"}, {"fixed": {"eigenvalue": [1.0, 4.0, 9.0]}}],
    ids=lambda s: next(iter(s)),
)  # fmt: skip
def test_settings_of_other_engines_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        fit(fields(), **settings)


def test_refusals_name_the_fix(learned):
    with pytest.raises(InputError, match="check the spelling"):
        fit(fields(), epoch=3)
    with pytest.raises(DataError, match="at least two paths"):
        fit(fields(1))
    with pytest.raises(DataError, match="points of the data"):
        fit(fields(), validation=fields(5).isel(x=slice(3)))
    with pytest.raises(DataError, match="points the encoder was trained on"):
        amortized_reconstruct(learned, fields(5).isel(x=slice(3)))
    late = fields(5).assign_coords(time=TIMES + 0.5)
    with pytest.raises(DataError, match="those of the fit"):
        amortized_reconstruct(learned, late)
    exact = sl.fit(fields(), DOMAIN, 3)
    with pytest.raises(InputError, match=r"law\.reconstruct"):
        amortized_reconstruct(exact, fields(5))
    with pytest.raises(InputError, match="checkpoint"):
        amortized_reconstruct(fit(fields(), epochs=1), fields(5))


def test_torch_is_imported_only_when_needed():
    code = """
import sys, numpy as np, spdelaw as sl, spdelaw.statespace, spdelaw.infer
assert "torch" not in sys.modules
sys.modules["torch"] = None  # as where it is not installed
data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=20, seed=0)
law = sl.fit(data, sl.Interval(0, np.pi), 2, engine="amortized", preset="structured", epochs=3)
assert sl.amortized.amortized_reconstruct(law, data).sizes["path"] == 20
try:
    sl.fit(data, sl.Interval(0, np.pi), 2, engine="amortized")
except ImportError as error:
    print(type(error).__name__, error)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout.startswith(MissingExtraError.__name__)
    assert "pip install 'spdelaw[neural]'" in run.stdout
