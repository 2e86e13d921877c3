"""What the figures show of a trained network: its training, its initial states, its noise, draws.

``z0`` of the equation is one number for each mode, the same for all paths; the encoder gives a
normal for each path. How its means spread over paths, beside the width it claims, tells whether it
found that out. Two kinds of draws are kept: of the decoder, truncated and with observation noise,
as the paper samples its model, and of the process that the learned lambda and q describe.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spdelaw.infer.amortized import amortized_posterior, sample_decoder
from spdelaw.law import Law
from spdelaw.paper.reproduce._data import Data
from spdelaw.train import read_checkpoint

#: Epochs between two points of the training's curve.
EVERY = 5


def network_curves(law: Law, data: Data, checkpoint: Path, seed: int) -> dict[str, Any]:
    """All of it as plain lists, for a record.

    Args:
        law: of the paper's learner.
        data: of the run.
        checkpoint: its folder.
        seed: of the draws.
    """
    return {
        **_training(checkpoint),
        **_initial_states(law, data),
        "x": law.points,
        "observation_std": np.sqrt(law.observation_variance),
        **_draws(law, data, seed),
    }


def _training(checkpoint: Path) -> dict[str, Any]:
    snapshot, identity = read_checkpoint(checkpoint)
    rows = np.array(snapshot.history)
    at = np.unique(np.r_[np.arange(EVERY - 1, len(rows), EVERY), len(rows) - 1])
    return {
        "epoch": at + 1,
        "loss": rows[at, 0],
        "validation_loss": rows[at, 1],
        "validation_relative_l2": rows[at, 2],
        "schedule": identity["config"]["schedule"],
    }


def _initial_states(law: Law, data: Data) -> dict[str, Any]:
    """Of the test paths, in each mode: mean and spread of the posterior means, claimed width."""
    found = amortized_posterior(law, data.test["field"])
    return {
        "initial_mean": found["z0_mean"].mean("path").values,
        "initial_spread": found["z0_mean"].std("path", ddof=1).values,
        "initial_claimed": found["z0_std"].mean("path").values,
        "initial_truth": data.equation.initial_mean[: law.n_modes],
    }


def _draws(law: Law, data: Data, seed: int) -> dict[str, Any]:
    """One path at the middle point: of the data, of the decoder, and without truncation."""
    middle = len(law.points) // 2
    fields = {
        "of_data": data.test["field"],
        "of_decoder": sample_decoder(law, 1, seed=seed),
        "of_process": law.sample(1, seed=seed),
    }
    return {"time": law.times} | {name: f.values[0, :, middle] for name, f in fields.items()}
