"""Train ``preset="paper"`` on a regime of the paper, as long as there is time, and go on later.

    python -m benchmarks.train_paper --regime b --seed 0                 # all 2000 epochs
    python -m benchmarks.train_paper --regime b --seed 0 --minutes 30    # half an hour of them

The same command goes on where the last one stopped (Ctrl-C, ``--minutes``, a kill), and ends in
the same bits. A run lives in ``benchmarks/runs/``: its checkpoint and a log with a line an epoch.
Its record, ``benchmarks/results/paper_<regime>_<seed>.json``, is written at every stop: scores
of the best checkpoint on the test paths by reconstruction, with the floor of the decoder beside.

Data as in the paper: 1000 paths of 50 modes by the semi-implicit scheme, split 700/150/150; the
seed is that of the paths, the split and the network.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks._timing import RESULTS, versions

import numpy as np  # isort: skip
import torch  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.data.atomic import replace_file  # isort: skip
from spdelaw.evaluation import decoder_floor  # isort: skip
from spdelaw.infer.amortized import (  # isort: skip
    Progress,
    TrainingInterrupted,
    amortized_reconstruct,
)
from spdelaw.train import read_checkpoint  # isort: skip

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
    name = f"paper_{options.regime}_{options.seed}{options.suffix}"
    RUNS.mkdir(exist_ok=True)
    checkpoint, finished = RUNS / name, True
    with (RUNS / f"{name}.log").open("a", encoding="utf-8") as log:
        try:
            sl.fit(
                train, equation.domain, N_MODES, engine="amortized", seed=options.seed,
                validation=validation, epochs=options.epochs, checkpoint=checkpoint,
                progress=_Log(log, options.minutes),
            )  # fmt: skip
        except TrainingInterrupted as stop:
            finished = False
            print(stop, file=sys.stderr)
    if not checkpoint.exists():
        return 1
    known = train[: test.sizes["path"]]
    record = _record(checkpoint, equation, known, test, options)
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


def _record(checkpoint: Path, equation: Any, known: Any, test: Any, options: Any) -> dict[str, Any]:
    snapshot, identity = read_checkpoint(checkpoint)
    truth, n_time = equation.eigenvalues[:N_MODES], identity["config"]["n_time"]

    def errors(fields: Any) -> tuple[dict[str, float], dict[str, float]]:
        """Of the best checkpoint, and the floor."""
        found = amortized_reconstruct(checkpoint, fields).attrs
        floor = decoder_floor(fields, equation.domain, N_MODES, n_time, truth)
        return {key: float(found[key]) for key in ERRORS}, {
            key: float(getattr(floor, key)) for key in ERRORS
        }

    (scores, floor), (on_known, known_floor) = errors(test), errors(known)
    best, horizon = snapshot.part("best"), identity["clock"][1]
    lam = np.exp(best["dynamics.log_eigenvalues"]) / horizon
    q = np.exp(2.0 * np.diag(best["dynamics.log_factor"])) / horizon
    paper = dict(zip(ERRORS, PAPER[options.regime], strict=True))
    return {
        "command": f"python -m benchmarks.train_paper --regime {options.regime} "
        f"--seed {options.seed} --epochs {options.epochs}"
        + (f" --paths {options.paths} --suffix {options.suffix}" if options.suffix else ""),
        "tier": "reconstruct",
        "paths": options.paths,
        "epochs_done": snapshot.epoch,
        "epochs": identity["config"]["epochs"],
        "best_epoch": snapshot.best_epoch,
        "test": scores,
        "floor": floor,
        "train": on_known,
        "train_floor": known_floor,
        "paper": paper,
        "n_test": test.sizes["path"],
        "lambda": lam.tolist(),
        "lambda_truth": truth.tolist(),
        "q": q.tolist(),
        "q_truth": equation.noise_variance[:N_MODES].tolist(),
        "validation_relative_l2_every_50": [row[2] for row in snapshot.history[49::50]],
        "seconds": round(snapshot.seconds, 1),
        "versions": {"spdelaw": sl.__version__, **versions("torch", "numpy")},
    }


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--regime", choices=sorted(REGIMES), required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--minutes", type=float, help="stop after this long, to go on later")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--paths", type=int, default=N_PATHS, help="fewer for a trial")
    parser.add_argument("--reference-modes", type=int, default=50)
    parser.add_argument("--suffix", default="", help="of the names, to keep trials apart")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
