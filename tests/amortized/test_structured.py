"""``preset="structured"``: the maximum of the likelihood, reached on batches, without a network."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.amortized.engine import amortized_reconstruct
from spdelaw.amortized.training import TrainingInterrupted, read_checkpoint
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.evaluation.tasks import decoder_floor
from spdelaw.infer.objective import estimate

from .amortized_cases import DOMAIN, EQUATION, GRID, TIMES, fields, own_times, with_gaps


def learn(data, n_modes=3, domain=DOMAIN, **settings):
    return sl.fit(data, domain, n_modes, engine="amortized", preset="structured", **settings)


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
    [noisy(fields(200)), noisy(with_gaps(0.3, 100)), noisy(own_times(40))],
    ids=["noise", "noise and gaps", "own times"],
)
def test_it_ends_at_the_maximum_of_the_exact_engine(data):
    law, exact = learn(data), sl.fit(data, DOMAIN, 3)
    assert distance_in_standard_errors(law, exact) < 0.02
    gap = exact.info["log_likelihood"] - law.info["log_likelihood"]
    assert abs(gap) < 1e-3
    for name in ("eigenvalue", "noise_variance"):
        np.testing.assert_allclose(
            law.parameters[name].sel(statistic="stderr"),
            exact.parameters[name].sel(statistic="stderr"), rtol=0.02,
        )  # fmt: skip


def test_without_noise_it_agrees_with_the_sufficient_statistics():
    assert distance_in_standard_errors(learn(fields(200)), sl.fit(fields(200), DOMAIN, 3)) < 0.02


def test_the_batches_do_the_work_not_the_last_newton_steps():
    """Far from the start, close to the maximum: the score of the end is a few standard errors."""
    data = noisy(fields(400))
    curve = learn(data).info["training"]["curve"]["loss"]
    law = learn(data)
    end = -law.info["log_likelihood"] / 400
    assert curve[0] - end > 20 * abs(curve[-1] - end)


def test_reconstruction_is_at_the_floor_of_the_decoder():
    law, new = learn(fields(200), n_time=4), fields(40, seed=9)
    found = amortized_reconstruct(law, new)
    floor = decoder_floor(new, DOMAIN, 3, 4, EQUATION.eigenvalues)
    assert found.attrs["relative_l2"] < 1.02 * floor.relative_l2
    assert found.attrs["rmse"] < 1.02 * floor.rmse
    assert (found["std"] >= 0).all()


def test_reconstruction_with_gaps_reaches_what_was_hidden():
    data = with_gaps(0.3, 100)
    law = learn(data, n_time=8)
    hidden = np.isnan(data.values)
    truth = fields(100).values[hidden]
    error = amortized_reconstruct(law, data)["mean"].values[hidden] - truth
    assert np.sqrt((error**2).mean()) < 0.3 * truth.std()


def test_it_says_what_it_is():
    info = learn(fields(60), n_time=4, epochs=20).info
    assert (info["engine"], info["preset"], info["epochs"]) == ("amortized", "structured", 20)
    assert info["elbo"] == info["log_likelihood"]
    assert (info["amortization_gap"], info["truncation_loss"]) == (0.0, 0.0)
    assert len(info["latent_use"]["kl_chaos"]) == 3
    assert all(value > 1 for value in info["latent_use"]["kl_chaos"])
    assert info["n_parameters"] < 10
    assert info["n_paths"] == 60


def test_it_is_a_law_like_any_other(tmp_path):
    law = learn(fields(60), epochs=10)
    law.save(tmp_path / "heat.law")
    again = sl.load(tmp_path / "heat.law")
    assert again.info == law.info
    assert again.sample(3, seed=0).shape == (3, len(TIMES), len(GRID))
    new = fields(4, seed=9)
    assert amortized_reconstruct(again, new).identical(amortized_reconstruct(law, new))


def test_one_path_is_enough():
    long = sl.simulate(EQUATION, 1, np.linspace(0.0, 20.0, 401), GRID, seed=0)
    law = learn(long)
    estimate = law.parameters.eigenvalue.sel(statistic="estimate")
    error = law.parameters.eigenvalue.sel(statistic="stderr")
    assert (np.abs(estimate - EQUATION.eigenvalues) < 4 * error).all()


def test_ctrl_c_saves_and_the_same_call_goes_on_bit_by_bit(tmp_path):
    def stop(state):
        if state.epoch == 7:
            raise KeyboardInterrupt

    data, settings = noisy(fields(60)), {"epochs": 15, "checkpoint_every": 4}
    whole = learn(data, checkpoint=tmp_path / "whole", **settings)
    with pytest.raises(TrainingInterrupted, match="after epoch 7 of 15; saved in"):
        learn(data, checkpoint=tmp_path / "parts", progress=stop, **settings)
    law = learn(data, checkpoint=tmp_path / "parts", **settings)
    assert law.parameters.equals(whole.parameters)
    (one, _), (other, _) = (read_checkpoint(tmp_path / name) for name in ("whole", "parts"))
    assert all(np.array_equal(v, other.arrays[k]) for k, v in one.arrays.items())
    with pytest.raises(InputError, match="another model"):
        learn(data, checkpoint=tmp_path / "parts", initial="gaussian", **settings)


def test_settings_of_the_exact_engine_are_honoured():
    law = learn(fields(60), noise="parametric", level=0.5, epochs=20)
    assert {"noise_scale", "noise_exponent"} <= set(law.parameters)
    assert law.parameters.attrs["interval_level"] == 0.5


def test_a_run_from_whose_end_newton_steps_fail_is_finished_and_says_so(monkeypatch):
    def fails_without_search(*arguments, search=True, **settings):
        found = estimate(*arguments, **settings)
        return found if search else found._replace(optimum=found.optimum._replace(decrement=1.0))

    monkeypatch.setattr("spdelaw.amortized.structured.estimate", fails_without_search)
    data = noisy(fields(60))
    law = learn(data, epochs=1)
    assert any("raise epochs" in note for note in law.info["warnings"])
    assert distance_in_standard_errors(law, sl.fit(data, DOMAIN, 3)) < 0.02


def test_what_is_fixed_stays():
    held = learn(noisy(fields(60)), fixed={"eigenvalue": [1.0, np.nan, np.nan]}, epochs=20)
    assert float(held.parameters.eigenvalue.sel(statistic="estimate", mode=1)) == 1.0


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"n_hidden": 8}, "n_hidden"),
        ({"epochs": 0}, "epochs"),
        ({"rate": -1.0}, "rate"),
        ({"bootstrap": 10}, "bootstrap"),
        ({"drift": "dense"}, "drift"),
        ({"noise": "low_rank"}, "noise"),
        ({"observation_noise": "per_point"}, "observation_noise"),
    ],
)
def test_refusals_name_the_setting(settings, word):
    with pytest.raises(InputError, match=word):
        learn(fields(20), **settings)


def test_a_rate_that_is_too_large_is_named():
    with pytest.raises(ConvergenceError):
        learn(noisy(fields(40)), rate=1e4, epochs=3, warmup_epochs=0)
