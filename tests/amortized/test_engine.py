"""``sl.fit(..., engine="amortized")``: a law like any other, that says how it was learned."""

import subprocess
import sys

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.amortized.engine import amortized_posterior, amortized_reconstruct, sample_decoder
from spdelaw.chaos.propagators import CosineBasis, propagate
from spdelaw.errors import DataError, InputError, MissingExtraError
from spdelaw.law.derived import relative_l2, rmse

from .amortized_cases import DOMAIN, EQUATION, GRID, SMALL, TIMES, fields, own_times, with_gaps

LEARNS = SMALL | {
    "epochs": 60, "n_hidden": 32, "n_embedding": 16, "n_reference": 8, "encoder_rate": 1e-2,
    "variance_rate": 2e-2, "n_time": 6,
}  # fmt: skip


def fit(data, **words):
    return sl.fit(data, DOMAIN, 3, engine="amortized", **(SMALL | words))


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """200 paths, 60 epochs: a few seconds."""
    folder = tmp_path_factory.mktemp("run") / "checkpoint"
    return fit(fields(200), **LEARNS, seed=1, checkpoint=folder)


def test_the_loss_falls_and_the_bound_stays_below_the_likelihood(learned):
    curve = learned.info["training"]["curve"]
    assert curve["loss"][-1] < curve["loss"][0] - 100.0
    assert curve["validation_loss"][-1] < curve["validation_loss"][0] - 100.0
    assert learned.info["amortization_gap"] > 0
    assert learned.info["elbo"] < learned.info["log_likelihood"]


def test_reconstruction_of_new_paths_beats_the_mean_with_the_papers_scores(learned):
    new = fields(50, seed=9)
    mean = np.broadcast_to(fields(200).mean("path").values, new.shape)
    result = amortized_reconstruct(learned, new)
    assert result.attrs["relative_l2"] < 0.75 * relative_l2(mean[:, 1:], new.values[:, 1:])
    assert result.identical(amortized_reconstruct(learned.info["checkpoint"], new))
    new = with_gaps(n_paths=30)
    result, truth = amortized_reconstruct(learned, new), new.values[:, 1:]
    prediction = np.where(np.isnan(truth), np.nan, result["mean"].values[:, 1:])
    assert result.attrs["relative_l2"] == pytest.approx(relative_l2(prediction, truth), rel=1e-5)
    assert result.attrs["rmse"] == pytest.approx(rmse(prediction, truth), rel=1e-5)
    assert (result["std"].values > 0).any()
    posterior = amortized_posterior(learned, new)
    assert dict(posterior["xi_mean"].sizes) == {"path": 30, "k": 6, "noise": 3}
    assert dict(posterior["z0_mean"].sizes) == {"path": 30, "mode": 3}


def test_it_says_what_it_is(learned):
    info = learned.info
    assert (info["engine"], info["preset"], info["epochs"]) == ("amortized", "literal", 60)
    assert (info["n_paths"], info["n_validation"]) == (170, 30)
    use = info["latent_use"]
    assert [len(use[key]) for key in ("kl_initial", "kl_chaos", "active_share")] == [3, 3, 3]
    assert all(value > 0 for value in use["kl_chaos"])
    assert use["active_share"][0] > 0
    assert any("standard errors" in note for note in info["warnings"])
    assert "Wiener Chaos" in learned.citation()
    table = learned.parameters
    assert (table.eigenvalue.sel(statistic="estimate") > 0).all()
    assert np.isnan(table.eigenvalue.sel(statistic=["stderr", "lower", "upper"])).all()
    variance = table.observation_std.sel(statistic="estimate") ** 2
    np.testing.assert_allclose(variance, learned.observation_variance)


def test_it_is_a_law_like_any_other(learned, tmp_path):
    learned.save(tmp_path / "heat.law")
    again = sl.load(tmp_path / "heat.law")
    assert again.parameters.identical(learned.parameters)
    assert again.info == learned.info
    new = fields(10, seed=9)
    assert again.sample(3, seed=0).shape == (3, len(TIMES), len(GRID))
    assert np.isfinite(again.log_likelihood(new)).all()
    assert relative_l2(again.reconstruct(new)["mean"].values, new.values) < 0.3
    assert np.isfinite(again.forecast(new, [1.1, 1.2])["mean"]).all()
    assert amortized_reconstruct(again, new).identical(amortized_reconstruct(learned, new))
    assert "engine amortized" in repr(again)
    card = sl.evaluate(learned, new, truth=EQUATION)
    assert "kl" in str(card).lower()
    assert learned.info["n_law_parameters"] == 9
    assert card.distance["kl_limit"] == pytest.approx(9 / (2 * 170))


def test_samples_of_the_decoder_have_its_moments(learned):
    """Null: mean and variance of every value are the decoder's; |z| < 5.5 for all 420 of them."""
    n = 4000
    draws = sample_decoder(learned, n, seed=3).values
    lam, q = learned.linear.drift, learned.linear.noise
    curves = propagate(CosineBasis(1.0), TIMES, lam, np.sqrt(q), 6)
    phi = DOMAIN.eigenfunctions(GRID, 3)
    mean = (curves.decay * learned.initial.mean) @ phi.T
    variance = (q * (curves.response**2).sum(1)) @ (phi**2).T + learned.observation_variance
    assert (np.abs(draws.mean(0) - mean) / np.sqrt(variance / n) < 5.5).all()
    ratio = draws.var(0, ddof=1) / variance
    assert (np.abs(ratio - 1.0) / np.sqrt(2.0 / n) < 5.5).all()
    smooth = sample_decoder(learned, 2, seed=3, observation_noise=False).values
    assert np.abs(np.diff(smooth, axis=1)).max() < np.abs(np.diff(draws[:2], axis=1)).max()


# -- data and settings of every kind -------------------------------------------------------------


@pytest.mark.parametrize("data", [with_gaps(), own_times()], ids=["gaps", "own times"])
def test_gaps_and_own_times(data, tmp_path):
    law = fit(data, checkpoint=tmp_path / "run")
    assert np.isfinite(law.info["elbo"])
    assert law.info["amortization_gap"] > 0
    result = amortized_reconstruct(law, data)
    assert result["mean"].shape == data.shape
    assert np.isfinite(result["mean"]).all()


def test_the_unit_of_time_does_not_matter():
    data = fields()
    a, b = fit(data), fit(data.assign_coords(time=data["time"] * 24.0 + 5.0))
    for name in ("eigenvalue", "noise_variance"):
        one, two = (x.parameters[name].sel(statistic="estimate") for x in (a, b))
        np.testing.assert_allclose(one, 24.0 * two, rtol=1e-3)


def test_rk4_exact_expectation_and_given_validation():
    validation = {"validation": fields(20, seed=3), "epochs": 2}
    a, b = (fit(fields(), propagators=p, **validation) for p in ("rk4", "closed_form"))
    assert a.info["elbo"] == pytest.approx(b.info["elbo"], rel=1e-3)
    assert (a.info["n_paths"], a.info["n_validation"]) == (60, 20)
    c = fit(fields(), expectation="exact", select_by="loss", epochs=2)
    assert np.isfinite(c.info["elbo"])


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        (lambda law: fit(fields(), bootstrap=10), InputError, "bootstrap"),
        (lambda law: fit(fields(), drift="parametric"), InputError, "drift"),
        (lambda law: fit(fields(), observation_noise=0.1), InputError, "observation_noise"),
        (lambda law: fit(fields(), initial="stationary"), InputError, "initial"),
        (lambda law: fit(fields(), fixed={"eigenvalue": [1.0, 4.0, 9.0]}), InputError, "fixed"),
        (lambda law: fit(fields(), epoch=3), InputError, "check the spelling"),
        (lambda law: fit(fields(1)), DataError, "at least two paths"),
        (lambda law: fit(fields(), validation=fields(5)[..., :3]), DataError, "points of the data"),
        (lambda law: amortized_reconstruct(law, fields(5)[..., :3]), DataError, "trained on"),
        (lambda law: amortized_reconstruct(law, fields(5).assign_coords(time=TIMES + 0.5)),
         DataError, "as in the fit"),
        (lambda law: amortized_reconstruct(sl.fit(fields(), DOMAIN, 3), fields(5)),
         InputError, r"law\.reconstruct"),
        (lambda law: amortized_reconstruct(fit(fields(), epochs=1), fields(5)),
         InputError, "checkpoint"),
        (lambda law: sample_decoder(sl.fit(fields(), DOMAIN, 3)), InputError, r"law\.sample"),
    ],
)  # fmt: skip
def test_refusals_name_the_fix(learned, call, error, word):
    with pytest.raises(error, match=word):
        call(learned)


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
