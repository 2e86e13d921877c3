"""Train the paper's model on a regime, as long as there is time, and go on later.

    python -m benchmarks.train_paper --regime b                       # preset "paper", network 0
    python -m benchmarks.train_paper --regime b --initialisation 1    # the second network
    python -m benchmarks.train_paper --regime b --preset literal      # 2000 epochs of one cosine
    python -m benchmarks.train_paper --regime b --minutes 30          # half an hour of them
    python -m benchmarks.train_paper --regime b --name kl-mean kl_scale=mean    # another reading

The same command goes on where the last one stopped (Ctrl-C, ``--minutes``, a kill), and ends in
the same bits. A run lives in ``benchmarks/runs/``: its checkpoint and a log with a line an epoch.
Its record, ``benchmarks/results/paper_<regime>_<name>_<initialisation>.json``, is written at every
stop: scores of the best checkpoint by reconstruction, with the floor of the decoder.

Data as in the paper: 1000 paths of 50 modes by the semi-implicit scheme, split 700/150/150, those
of ``--seed``; the initialisation seeds the network, the order of paths and the noise.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks._timing import RESULTS, versions

import numpy as np  # isort: skip
import torch  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.data.io.safe_files import replace_file  # isort: skip
from spdelaw.evaluation.tasks import decoder_floor  # isort: skip
from spdelaw.amortized.engine import amortized_reconstruct
from spdelaw.amortized.training import Progress, TrainingInterrupted

from spdelaw.amortized.training import read_checkpoint  # isort: skip

ERRORS = ("relative_l2", "rmse")
RUNS = Path(__file__).with_name("runs")
N_MODES, N_PATHS = 8, 1000
REGIMES = {"a": sl.catalogue.ornstein_uhlenbeck, "b": sl.catalogue.heat}
#: rel L2 and RMSE of the paper's Tables 1 and 2.
PAPER = {"a": (0.0779, 0.2615), "b": (0.1114, 0.0679)}


def main(arguments: list[str] | None = None) -> int:
    """Train, log, and write the record."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    equation = REGIMES[options.regime](n_modes=options.reference_modes)
    fields = sl.simulate(equation, options.paths, seed=options.seed, scheme="semi_implicit")
    train, validation, test = sl.split(fields, seed=options.seed)
    reading = options.name or options.preset + (f"-data{options.seed}" if options.seed else "")
    name = f"paper_{options.regime}_{reading}_{options.initialisation}"
    RUNS.mkdir(exist_ok=True)
    checkpoint, finished = RUNS / name, True
    with (RUNS / f"{name}.log").open("a", encoding="utf-8") as log:
        try:
            sl.fit(
                train, equation.domain, N_MODES, engine="amortized", seed=options.seed,
                validation=validation, checkpoint=checkpoint, preset=options.preset,
                initialisation=options.initialisation, progress=_Log(log, options.minutes),
                **dict(map(_setting, options.settings)),
            )  # fmt: skip
        except TrainingInterrupted as stop:
            finished = False
            print(stop, file=sys.stderr)
    if not checkpoint.exists():
        return 1
    parts = {"test": test, "train": train[: test.sizes["path"]], "validation": validation}
    record = _record(checkpoint, equation, parts, options)
    RESULTS.mkdir(exist_ok=True)
    with replace_file(RESULTS / f"{name}.json") as new:
        new.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(record["test"] | {"epochs": record["epochs_done"]}))
    return 0 if finished else 3


class _Log:
    """A line an epoch, and an end after so many minutes."""

    def __init__(self, file: Any, minutes: float | None) -> None:
        self.file = file
        self.end = np.inf if minutes is None else time.monotonic() + 60.0 * minutes

    def __call__(self, state: Progress) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        print(now, state, file=self.file, flush=True)
        if time.monotonic() > self.end:
            raise KeyboardInterrupt


def _record(
    checkpoint: Path, equation: Any, parts: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    snapshot, identity = read_checkpoint(checkpoint)
    config, truth = identity["config"], equation.eigenvalues[:N_MODES]
    scores = {part: _errors(checkpoint, fields) for part, fields in parts.items()}
    floors = {part: _floor(equation, fields, config["n_time"]) for part, fields in parts.items()}
    best, horizon = snapshot.part("best"), identity["clock"][1]
    return {
        "command": "python -m benchmarks.train_paper " + options.line,
        "tier": "reconstruct",
        "config": config,
        "data_seed": options.seed,
        "paths": options.paths,
        "epochs_done": snapshot.epoch,
        "epochs": config["epochs"],
        "best_epoch": snapshot.best_epoch,
        **scores,
        "floor": floors["test"],
        "train_floor": floors["train"],
        "validation_floor": floors["validation"],
        "paper": dict(zip(ERRORS, PAPER[options.regime], strict=True)),
        "n_test": parts["test"].sizes["path"],
        "lambda": (np.exp(best["dynamics.log_eigenvalues"]) / horizon).tolist(),
        "lambda_truth": truth.tolist(),
        "q": (np.exp(2.0 * np.diag(best["dynamics.log_factor"])) / horizon).tolist(),
        "q_truth": equation.noise_variance[:N_MODES].tolist(),
        "validation_relative_l2_every_10": [row[2] for row in snapshot.history[9::10]],
        "loss_every_10": [row[0] for row in snapshot.history[9::10]],
        "seconds": round(snapshot.seconds, 1),
        "versions": {"spdelaw": sl.__version__, **versions("torch", "numpy")},
    }


def _errors(checkpoint: Path, fields: Any) -> dict[str, float]:
    found = amortized_reconstruct(checkpoint, fields).attrs
    return {key: float(found[key]) for key in ERRORS}


def _floor(equation: Any, fields: Any, n_time: int) -> dict[str, float]:
    truth = equation.eigenvalues[:N_MODES]
    floor = decoder_floor(fields, equation.domain, N_MODES, n_time, truth)
    return {key: float(getattr(floor, key)) for key in ERRORS}


def _setting(text: str) -> tuple[str, Any]:
    """``name=value``, the value as JSON where it is one."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--regime", choices=sorted(REGIMES), required=True)
    parser.add_argument("--initialisation", type=int, default=0, help="seed of the network")
    parser.add_argument("--preset", choices=("paper", "literal", "rescaled"), default="paper")
    parser.add_argument("--name", help="of another reading, to keep it apart from its preset")
    parser.add_argument("--seed", type=int, default=0, help="of the paths and of the split")
    parser.add_argument("--minutes", type=float, help="stop after this long, to go on later")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--paths", type=int, default=N_PATHS, help="fewer for a trial")
    parser.add_argument("--reference-modes", type=int, default=50)
    parser.add_argument("settings", nargs="*", help="single settings of the preset: name=value")
    options = parser.parse_args(arguments)
    options.line = shlex.join(sys.argv[1:] if arguments is None else arguments)
    return options


if __name__ == "__main__":
    sys.exit(main())
