"""``preset="structured"``: the maximum of the likelihood, reached on batches, without a network."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.amortized.engine import amortized_reconstruct
from spdelaw.amortized.training import TrainingInterrupted, read_checkpoint
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.evaluation.tasks import decoder_floor

from .amortized_cases import DOMAIN, EQUATION, GRID, TIMES, fields, own_times, with_gaps


def learn(data, **words):
    return sl.fit(data, DOMAIN, 3, engine="amortized", preset="structured", **words)


def noisy(data, std=0.05):
    return data + std * np.random.default_rng(11).standard_normal(data.shape)


def distance_in_standard_errors(law, other):
    """Largest difference of two laws' estimates in units of the other's standard errors."""
    largest = 0.0
    for name in ("eigenvalue", "noise_variance", "observation_std"):
        a, b = (x.parameters[name].sel(statistic="estimate").values for x in (law, other))
        error = other.parameters[name].sel(statistic="stderr").values
        part = np.abs(a - b) / np.where(error > 0, error, 1.0)
        largest = max(largest, float(part.max()))
    return largest


@pytest.mark.parametrize(
    "data",
    [noisy(fields(200)), noisy(with_gaps(0.3, 100)), noisy(own_times(40)), fields(200)],
    ids=["noise", "noise and gaps", "own times", "without noise"],
)
def test_it_ends_at_the_maximum_of_the_exact_engine(data):
    """By the batches, not by the last Newton steps: the last loss is near the end."""
    law, exact = learn(data), sl.fit(data, DOMAIN, 3, mean="zero")
    assert distance_in_standard_errors(law, exact) < 0.02
    if exact.info["route"] == "filter":
        assert abs(exact.info["log_likelihood"] - law.info["log_likelihood"]) < 1e-3
        for name in ("eigenvalue", "noise_variance"):
            errors = (x.parameters[name].sel(statistic="stderr") for x in (law, exact))
            np.testing.assert_allclose(*errors, rtol=0.02)
    if len(data) == 200 and exact.info["route"] == "filter":
        curve, end = law.info["training"]["curve"]["loss"], -law.info["log_likelihood"] / 200
        assert curve[0] - end > 20 * abs(curve[-1] - end)


def test_reconstruction_is_at_the_floor_of_the_decoder_and_reaches_what_was_hidden():
    law, new = learn(fields(200), n_time=4), fields(40, seed=9)
    result = amortized_reconstruct(law, new)
    floor = decoder_floor(new, DOMAIN, 3, 4, EQUATION.eigenvalues)
    assert result.attrs["relative_l2"] < 1.02 * floor.relative_l2
    assert result.attrs["rmse"] < 1.02 * floor.rmse
    assert (result["std"] >= 0).all()
    data = with_gaps(0.3, 100)
    truth = fields(100).values[np.isnan(data.values)]
    field = amortized_reconstruct(learn(data, n_time=8), data)["mean"]
    error = field.values[np.isnan(data.values)] - truth
    assert np.sqrt((error**2).mean()) < 0.3 * truth.std()


def test_it_is_a_law_like_any_other_and_says_what_it_is(tmp_path):
    law = learn(fields(60), n_time=4, epochs=20)
    info = law.info
    assert (info["engine"], info["preset"], info["epochs"]) == ("amortized", "structured", 20)
    assert info["elbo"] == info["log_likelihood"]
    assert (info["amortization_gap"], info["truncation_loss"]) == (0.0, 0.0)
    assert len(info["latent_use"]["kl_chaos"]) == 3
    assert all(value > 1 for value in info["latent_use"]["kl_chaos"])
    assert info["n_parameters"] < 10
    assert info["n_paths"] == 60
    law.save(tmp_path / "heat.law")
    again = sl.load(tmp_path / "heat.law")
    assert again.info == law.info
    assert again.sample(3, seed=0).shape == (3, len(TIMES), len(GRID))
    new = fields(4, seed=9)
    assert amortized_reconstruct(again, new).identical(amortized_reconstruct(law, new))


def test_ctrl_c_saves_and_the_same_call_goes_on_bit_by_bit(tmp_path):
    def stop(state):
        if state.epoch == 7:
            raise KeyboardInterrupt

    data, words = noisy(fields(60)), {"epochs": 15, "checkpoint_every": 4}
    whole = learn(data, checkpoint=tmp_path / "whole", **words)
    with pytest.raises(TrainingInterrupted, match="after epoch 7 of 15; saved in"):
        learn(data, checkpoint=tmp_path / "parts", progress=stop, **words)
    law = learn(data, checkpoint=tmp_path / "parts", **words)
    assert law.parameters.equals(whole.parameters)
    (one, _), (other, _) = (read_checkpoint(tmp_path / name) for name in ("whole", "parts"))
    assert all(np.array_equal(v, other.arrays[k]) for k, v in one.arrays.items())
    with pytest.raises(InputError, match="another model"):
        learn(data, checkpoint=tmp_path / "parts", initial="gaussian", **words)


def test_settings_of_the_exact_engine_are_honoured():
    fixed = {"eigenvalue": [1.0, np.nan, np.nan]}
    law = learn(noisy(fields(60)), noise="parametric", level=0.5, epochs=20, fixed=fixed)
    assert {"noise_scale", "noise_exponent"} <= set(law.parameters)
    assert law.parameters.attrs["interval_level"] == 0.5
    assert float(law.parameters.eigenvalue.sel(statistic="estimate", mode=1)) == 1.0


@pytest.mark.parametrize(
    ("words", "error", "word"),
    [
        ({"n_hidden": 8}, InputError, "n_hidden"),
        ({"epochs": 0}, InputError, "epochs"),
        ({"rate": -1.0}, InputError, "rate"),
        ({"bootstrap": 10}, InputError, "bootstrap"),
        ({"drift": "dense"}, InputError, "drift"),
        ({"noise": "low_rank"}, InputError, "noise"),
        ({"observation_noise": "per_point"}, InputError, "observation_noise"),
        ({"rate": 1e4, "epochs": 3, "warmup_epochs": 0}, ConvergenceError, None),
    ],
)
def test_refusals_name_the_setting(words, error, word):
    with pytest.raises(error, match=word):
        learn(noisy(fields(40)), **words)
