"""Training: the schedule, what is repeatable, what an interruption leaves, what a NaN says."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import spdelaw as sl
from spdelaw.amortized.structured import AmortizedConfig, make_config
from spdelaw.amortized.training import TrainingInterrupted, rate_factor, read_checkpoint
from spdelaw.errors import ConvergenceError, FileError, InputError

from .amortized_cases import DOMAIN, SMALL, fields, with_gaps


def run(folder, data=None, **words):
    data = fields() if data is None else data
    chosen = SMALL | {"checkpoint_every": 2, "seed": 5} | words
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


# -- settings ------------------------------------------------------------------------------------


def test_the_papers_values_and_its_literal_reading():
    for preset in ("paper", "literal"):
        paper = AmortizedConfig(preset=preset)
        assert (paper.batch_size, paper.weight_decay, paper.warmup_epochs) == (40, 1e-4, 10)
        rates = (paper.encoder_rate, paper.dynamics_rate, paper.variance_rate)
        assert rates == (1e-3, 2e-2, 1e-3)
        assert (paper.kl_initial, paper.kl_chaos) == (0.07, 1.3)
        assert (paper.n_time, paper.n_reference, paper.n_hidden) == (16, 32, 256)
    literal = make_config(preset="literal")
    assert (literal.epochs, literal.schedule, literal.loss_scale) == (2000, (), "sum")
    assert (literal.variance, literal.variance_start, literal.kl_scale) == ("log", 1.0, "sum")
    assert make_config(preset="literal", loss_scale="per_value").loss_scale == "per_value"
    assert make_config(literal, epochs=9).schedule == ()
    rescaled, paper = make_config(preset="rescaled").model_dump(), make_config().model_dump()
    assert {k for k in paper if paper[k] != rescaled[k]} == {"preset", "rescale"}


def test_config_from_a_file(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("epochs: 300\nkl_chaos: 1.0\n")
    config = make_config(file, epochs=200)
    assert (config.epochs, config.kl_chaos, config.batch_size) == (200, 1.0, 40)
    for text in ("- 1\n", "a: [", "just words"):
        file.write_text(text)
        with pytest.raises(FileError):
            make_config(file)


@pytest.mark.parametrize(
    ("words", "word"),
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
        ({"variance_start": 0.0}, "variance_start"),
        ({"initialisation": -1}, "initialisation"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(words, word):
    with pytest.raises(InputError, match=word):
        make_config(**words)


@pytest.mark.parametrize(
    ("words", "cycles"),
    [
        ({"preset": "literal", "epochs": 2000}, [(0, 2000)]),
        ({"epochs": 200, "schedule": (80, 50, 40)}, [(0, 80), (80, 130), (130, 170), (170, 200)]),
        ({"epochs": 30, "schedule": ()}, [(0, 30)]),
    ],
)
def test_every_cycle_warms_up_and_cools_down(words, cycles):
    config = AmortizedConfig(warmup_epochs=4, **words)
    factors = np.array([rate_factor(e, config) for e in range(config.epochs)])
    for start, end in cycles:
        np.testing.assert_allclose(factors[start : start + 4], [0.25, 0.5, 0.75, 1.0])
        steps = np.arange(end - start - 4) / (end - start - 4)
        np.testing.assert_allclose(factors[start + 4 : end], 0.5 * (1 + np.cos(np.pi * steps)))


def test_short_runs_and_cut_cycles_have_room_for_a_cosine():
    cut = AmortizedConfig(epochs=86, warmup_epochs=10, schedule=(80,))
    factors = [rate_factor(e, cut) for e in range(80, 86)]
    np.testing.assert_allclose(factors[:3], [0.5, 1.0, 1.0])
    assert np.isfinite(factors).all()
    short, one = AmortizedConfig(epochs=30), AmortizedConfig(epochs=30, schedule=())
    assert [rate_factor(e, short) for e in range(30)] == [rate_factor(e, one) for e in range(30)]


# -- repeating and resuming ----------------------------------------------------------------------


def test_a_seed_repeats_a_run_and_leaves_torch_alone(tmp_path):
    before = torch.get_rng_state()
    run(tmp_path / "a")
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    run(tmp_path / "b", initialisation=5)
    (one, first), (same, _) = (read_checkpoint(tmp_path / n) for n in "ab")
    assert one.history == same.history
    assert all(np.array_equal(v, same.arrays[k]) for k, v in one.arrays.items())
    # The network's seed leaves the held-out paths alone.
    run(tmp_path / "c", initialisation=2)
    other, third = read_checkpoint(tmp_path / "c")
    assert (first["validation"], first["seed"]) == (third["validation"], third["seed"])
    bias = "model.encoder.head.bias"
    assert not np.array_equal(one.arrays[bias], other.arrays[bias])


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
    again = run(tmp_path / "parts", with_gaps(), progress=stop_after(1))  # not trained again
    assert again.parameters.equals(whole.parameters)


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


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["literal", "structured"])
def test_sigkills_at_random_moments_leave_the_bits_of_an_undisturbed_run(
    tmp_path, checkout, preset
):
    """A checkpoint after every epoch, so that many kills fall into the writing of one."""
    settings = {"preset": preset, "epochs": 60, "checkpoint_every": 1, "seed": 5}
    settings = settings if preset == "structured" else SMALL | settings
    waits = np.random.default_rng().uniform(0.0, 0.4, 12)
    for wait in waits:
        killed_once(tmp_path / "killed", checkout, settings, wait)
        assert read_checkpoint(tmp_path / "killed")[0].epoch > 0, waits
    for name in ("killed", "whole"):
        sl.fit(fields(), DOMAIN, 3, engine="amortized", checkpoint=tmp_path / name, **settings)
    assert same_bits(tmp_path / "whole", tmp_path / "killed"), waits


def test_checkpoints_hold_no_code_and_other_or_damaged_ones_are_refused(tmp_path):
    folder, thesis = tmp_path / "a", tmp_path / "b" / "thesis.txt"
    run(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["run.json", "state.safetensors"]
    assert json.loads((folder / "run.json").read_text())["epoch"] == 6
    for words in ({"epochs": 7}, {"seed": 4}, {"n_time": 5}):
        with pytest.raises(InputError, match=f"another.*{next(iter(words))}"):
            run(folder, **words)
    with pytest.raises(InputError, match="another data"):
        run(folder, fields(60, seed=1))
    (folder / "state.safetensors").write_bytes(b"\x00" * 40)
    with pytest.raises(FileError, match="checkpoint"):
        run(folder)
    thesis.parent.mkdir()
    thesis.write_text("mine")
    with pytest.raises(FileError):
        run(thesis.parent)
    assert thesis.read_text() == "mine"


# -- what goes wrong, and progress ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "error", "word"),
    [
        ({"dynamics_rate": 1e6, "warmup_epochs": 0}, ConvergenceError,
         r"training, epoch \d+.*not finite(.|\n)*lambda and q"),
        ({"data": fields() * 1e30}, ConvergenceError, "log likelihood"),
        ({"progress": stop_after(1)}, TrainingInterrupted, "pass checkpoint="),
        ({"progress": "loud"}, InputError, "progress"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_named(words, error, word):
    with pytest.raises(error, match=word):
        run(None, **words)


def test_progress_tells_where_it_is(capfd):
    states = []
    run(None, progress=states.append)
    assert [state.epoch for state in states] == [1, 2, 3, 4, 5, 6]
    assert states[-1].eta == 0.0
    assert states[1].rate == pytest.approx(1.0)
    assert "rel L2" in str(states[0])
    assert all(0 < state.relative_l2 < 3 for state in states)
    run(None, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "epoch 6/6" in err
