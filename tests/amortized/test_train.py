"""Training: the schedule, what is repeatable, what an interruption leaves, what a NaN says."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import spdelaw as sl
from spdelaw.amortized.structured import AmortizedConfig, make_config
from spdelaw.amortized.training import TrainingInterrupted, rate_factor, read_checkpoint
from spdelaw.errors import ConvergenceError, FileError, InputError

from .amortized_cases import DOMAIN, SMALL, fields, with_gaps


def run(folder, data=None, **settings):
    data = fields() if data is None else data
    chosen = SMALL | {"checkpoint_every": 2, "seed": 5} | settings
    return sl.fit(data, DOMAIN, 3, engine="amortized", checkpoint=folder, **chosen)


def same_bits(a, b):
    """Two folders hold the same run, bit by bit; the time it took may differ."""
    (one, first), (other, second) = read_checkpoint(a), read_checkpoint(b)
    assert first == second
    assert one.arrays.keys() == other.arrays.keys()
    for key, value in one.arrays.items():
        assert np.array_equal(value, other.arrays[key]), key
    assert (one.epoch, one.best_epoch, one.best_score, one.history) == (
        other.epoch, other.best_epoch, other.best_score, other.history,
    )  # fmt: skip
    return True


def stop_after(epoch):
    def progress(state):
        if state.epoch == epoch:
            raise KeyboardInterrupt

    return progress


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize("preset", ["paper", "literal"])
def test_the_papers_values(preset):
    paper = AmortizedConfig(preset=preset)
    assert (paper.batch_size, paper.weight_decay, paper.warmup_epochs) == (40, 1e-4, 10)
    rates = (paper.encoder_rate, paper.dynamics_rate, paper.variance_rate)
    assert rates == (1e-3, 2e-2, 1e-3)
    assert (paper.kl_initial, paper.kl_chaos) == (0.07, 1.3)
    assert (paper.n_time, paper.n_reference, paper.n_hidden) == (16, 32, 256)


def test_the_literal_reading_is_one_cosine_on_a_summed_loss():
    literal = make_config(preset="literal")
    assert (literal.epochs, literal.schedule, literal.loss_scale) == (2000, (), "sum")
    assert (literal.variance, literal.variance_start, literal.kl_scale) == ("log", 1.0, "sum")
    assert make_config(preset="literal", loss_scale="per_value").loss_scale == "per_value"
    assert make_config(make_config(preset="literal"), epochs=9).schedule == ()


def test_config_from_a_file(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("epochs: 300\nkl_chaos: 1.0\n")
    config = make_config(file, epochs=200)
    assert (config.epochs, config.kl_chaos, config.batch_size) == (200, 1.0, 40)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"epochs": 0}, "epochs"),
        ({"batch_size": "many"}, "batch_size"),
        ({"encoder_rate": -1.0}, "encoder_rate"),
        ({"kl_chaos": float("nan")}, "kl_chaos"),
        ({"preset": "mine"}, "preset"),
        ({"epoch": 3}, "check the spelling"),
        ({"propagators": "euler"}, "closed_form"),
        ({"schedule": (30, 0)}, "schedule"),
        ({"loss_scale": "mean"}, "per_value"),
        ({"kl_scale": "none"}, "kl_scale"),
        ({"variance": "std"}, "squared"),
        ({"variance_start": 0.0}, "variance_start"),
        ({"initialisation": -1}, "initialisation"),
        ({"n_noise": 0}, "n_noise"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(settings, word):
    with pytest.raises(InputError, match=word):
        make_config(**settings)


@pytest.mark.parametrize("text", ["- 1\n", "a: [", "just words"])
def test_a_file_without_settings_is_refused(tmp_path, text):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(FileError):
        make_config(file)


def test_rates_warm_up_and_cool_down():
    config = AmortizedConfig(preset="literal")
    factors = np.array([rate_factor(e, config) for e in range(2000)])
    np.testing.assert_allclose(factors[:10], np.arange(1, 11) / 10)
    assert (np.diff(factors[10:]) < 0).all()
    assert factors[1005] == pytest.approx(0.5)
    assert factors[-1] < 1e-5


def test_every_cycle_warms_up_and_cools_down():
    config = AmortizedConfig(epochs=200, warmup_epochs=4, schedule=(80, 50, 40))
    factors = np.array([rate_factor(e, config) for e in range(200)])
    for start, end in ((0, 80), (80, 130), (130, 170), (170, 200)):
        np.testing.assert_allclose(factors[start : start + 4], [0.25, 0.5, 0.75, 1.0])
        steps = np.arange(end - start - 4) / (end - start - 4)
        np.testing.assert_allclose(factors[start + 4 : end], 0.5 * (1 + np.cos(np.pi * steps)))


def test_a_cut_cycle_has_room_for_its_cosine():
    config = AmortizedConfig(epochs=86, warmup_epochs=10, schedule=(80,))
    factors = [rate_factor(e, config) for e in range(80, 86)]
    np.testing.assert_allclose(factors[:3], [0.5, 1.0, 1.0])
    assert np.isfinite(factors).all()


def test_a_short_run_is_one_cycle():
    short = AmortizedConfig(epochs=30)
    one = AmortizedConfig(epochs=30, schedule=())
    assert short.warmup_epochs == 10
    assert [rate_factor(e, short) for e in range(30)] == [rate_factor(e, one) for e in range(30)]


def test_the_networks_seed_leaves_the_held_out_paths_alone(tmp_path):
    run(tmp_path / "a", initialisation=1)
    run(tmp_path / "b", initialisation=2)
    (one, first), (other, second) = (read_checkpoint(tmp_path / n) for n in "ab")
    assert first["validation"] == second["validation"]
    assert first["seed"] == second["seed"] == 5
    assert not np.array_equal(one.arrays["model.encoder.head.bias"],
                              other.arrays["model.encoder.head.bias"])  # fmt: skip
    run(tmp_path / "c", initialisation=5)
    run(tmp_path / "d")
    assert read_checkpoint(tmp_path / "c")[0].history == read_checkpoint(tmp_path / "d")[0].history


# ------------------------------------------------------------------ repeating and resuming


def test_a_seed_repeats_a_run_and_leaves_torch_alone(tmp_path):
    before = torch.get_rng_state()
    run(tmp_path / "a")
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    run(tmp_path / "b")
    assert same_bits(tmp_path / "a", tmp_path / "b")
    run(tmp_path / "c", seed=6)
    with pytest.raises(AssertionError):
        same_bits(tmp_path / "a", tmp_path / "c")


@pytest.mark.parametrize("stops", [(3,), (1, 4)])
def test_ctrl_c_saves_and_the_same_call_goes_on_bit_by_bit(tmp_path, stops):
    whole = run(tmp_path / "whole", with_gaps())
    for stop in stops:
        with pytest.raises(TrainingInterrupted, match=f"after epoch {stop} of 6; saved in"):
            run(tmp_path / "parts", with_gaps(), progress=stop_after(stop))
        assert read_checkpoint(tmp_path / "parts")[0].epoch == stop
    law = run(tmp_path / "parts", with_gaps())
    assert same_bits(tmp_path / "whole", tmp_path / "parts")
    assert law.parameters.equals(whole.parameters)


def test_ctrl_c_within_an_epoch_keeps_the_last_whole_one(tmp_path, monkeypatch):
    from spdelaw.amortized.neural import NeuralRun

    run(tmp_path / "whole")
    calls, step = [], NeuralRun.step

    def interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == 8:  # three steps an epoch: the second one of the third
            raise KeyboardInterrupt
        return step(self, *arguments)

    monkeypatch.setattr(NeuralRun, "step", interrupted)
    with pytest.raises(TrainingInterrupted, match="after epoch 2"):
        run(tmp_path / "parts")
    monkeypatch.setattr(NeuralRun, "step", step)
    run(tmp_path / "parts")
    assert same_bits(tmp_path / "whole", tmp_path / "parts")


def test_ctrl_c_without_a_folder_says_what_to_do():
    with pytest.raises(TrainingInterrupted, match="pass checkpoint="):
        run(None, progress=stop_after(1))


SCRIPT = """
import sys, time, numpy as np, torch, spdelaw as sl
torch.set_num_threads(1)
sys.path.insert(0, {root!r})
from tests.amortized.amortized_cases import DOMAIN, fields
def slowly(state):
    print(state.epoch, flush=True)
    time.sleep(0.02)
settings = dict({settings!r}, progress=slowly)
sl.fit(fields(), DOMAIN, 3, engine="amortized", checkpoint={folder!r}, **settings)
"""
#: A checkpoint after every epoch, so that many kills fall into the writing of one.
LONG = SMALL | {"checkpoint_every": 1, "seed": 5, "epochs": 60}


def killed_once(folder, checkout, settings, wait):
    """Run in a process of its own, killed so many seconds after its first epoch."""
    code = SCRIPT.format(root=str(checkout), folder=str(folder), settings=settings)
    environment = os.environ | {"PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    with process:
        process.stdout.readline()
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
    assert process.returncode in (0, -signal.SIGKILL)


@pytest.mark.parametrize(
    ("preset", "n_kills"),
    [
        ("structured", 2),
        pytest.param("paper", 12, marks=pytest.mark.slow),
        pytest.param("structured", 12, marks=pytest.mark.slow),
    ],
)
def test_sigkills_at_random_moments_leave_the_bits_of_an_undisturbed_run(
    tmp_path, checkout, preset, n_kills
):
    settings = LONG
    if preset == "structured":
        settings = {"preset": preset, "epochs": 60, "checkpoint_every": 1, "seed": 5}
    waits = np.random.default_rng().uniform(0.0, 0.4, n_kills)
    for wait in waits:
        killed_once(tmp_path / "killed", checkout, settings, wait)
        assert read_checkpoint(tmp_path / "killed")[0].epoch > 0, waits
    for name in ("killed", "whole"):
        sl.fit(fields(), DOMAIN, 3, engine="amortized", checkpoint=tmp_path / name, **settings)
    assert same_bits(tmp_path / "whole", tmp_path / "killed"), waits


def test_a_finished_run_is_not_trained_again(tmp_path):
    first = run(tmp_path / "a")
    again = run(tmp_path / "a", progress=stop_after(1))
    assert again.parameters.equals(first.parameters)


@pytest.mark.parametrize(
    ("settings", "word"),
    [({"epochs": 7}, "epochs"), ({"seed": 4}, "seed"), ({"n_time": 5}, "n_time")],
)
def test_a_folder_of_another_run_is_refused(tmp_path, settings, word):
    run(tmp_path / "a")
    with pytest.raises(InputError, match=f"another.*{word}"):
        run(tmp_path / "a", **settings)


def test_a_folder_of_other_data_is_refused(tmp_path):
    run(tmp_path / "a")
    with pytest.raises(InputError, match="another data"):
        run(tmp_path / "a", fields(60, seed=1))


def test_a_damaged_checkpoint_is_refused(tmp_path):
    run(tmp_path / "a")
    (tmp_path / "a" / "state.safetensors").write_bytes(b"\x00" * 40)
    with pytest.raises(FileError, match="checkpoint"):
        run(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.txt").write_text("mine")
    with pytest.raises(FileError):
        run(tmp_path / "b")
    assert (tmp_path / "b" / "thesis.txt").read_text() == "mine"


def test_checkpoints_hold_no_code(tmp_path):
    run(tmp_path / "a")
    names = sorted(path.name for path in Path(tmp_path / "a").iterdir())
    assert names == ["run.json", "state.safetensors"]
    assert json.loads((tmp_path / "a" / "run.json").read_text())["epoch"] == 6


# ------------------------------------------------------------------ what goes wrong


def test_a_rate_that_is_too_large_is_named():
    with pytest.raises(ConvergenceError, match=r"training, epoch \d+.*not finite") as caught:
        run(None, dynamics_rate=1e6, warmup_epochs=0)
    assert "lambda and q" in str(caught.value)


def test_fields_too_large_for_the_network_are_named():
    data = fields() * 1e30
    with pytest.raises(ConvergenceError, match="log likelihood"):
        run(None, data)


def test_progress_tells_where_it_is():
    seen = []
    run(None, progress=seen.append)
    assert [state.epoch for state in seen] == [1, 2, 3, 4, 5, 6]
    assert seen[-1].eta == 0.0
    assert seen[1].rate == pytest.approx(1.0)
    assert "rel L2" in str(seen[0])
    assert all(0 < state.relative_l2 < 3 for state in seen)


def test_progress_lines_go_to_standard_error(capfd):
    run(None, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "epoch 6/6" in err
    with pytest.raises(InputError, match="progress"):
        run(None, progress="loud")
