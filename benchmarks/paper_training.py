"""The table of all readings of the paper's training, from their records.

    python -m benchmarks.paper_training

reads ``results/paper_<regime>_<reading>_<initialisation>.json``, which `benchmarks.train_paper`
writes at every stop.
"""

from __future__ import annotations

import json
import sys

from benchmarks._timing import RESULTS, table

import numpy as np  # isort: skip

from spdelaw.data.io.safe_files import replace_file  # isort: skip


def main() -> int:
    """Write ``results/paper_training.md``."""
    files = sorted(RESULTS.glob("paper_[ab]_*.json"))
    records = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    text = _markdown(records)
    with replace_file(RESULTS / "paper_training.md") as new:
        new.write_text(text, encoding="utf-8")
    print(text)
    return 0


def _markdown(records: dict[str, dict]) -> str:
    rows = [_row(*name.split("_")[1:], record) for name, record in records.items()]
    head = [
        "regime", "reading", "network", "data", "paths", "epochs", "best", "validation",
        "rel L2 / RMSE", "floor", "paper", "times floor", "on training paths",
        "learned / true lambda", "learned / true q",
    ]  # fmt: skip
    return "\n".join(
        [
            "# Readings of the paper's training",
            "",
            "Paths of 50 modes by the paper's semi-implicit scheme, split 70/15/15, data and split "
            "of the seed in column *data*; tier reconstruct on the test paths, with the parameters "
            "of the epoch that is best on the validation paths. A reading is chosen by the column "
            "*validation*, the least relative error there. The floor is the least error of any "
            "estimator with 8 modes and 16 functions of time; *times floor* is RMSE over floor, on "
            "test paths and on as many of the training paths. The last columns are the range over "
            "the 8 modes against the equation; the data's own law has lambda up to 13 % and q up "
            "to 25 % smaller.",
            "",
            table(head, rows),
            "",
            *(f"- {name.split('_')[2]}, {name.split('_')[1].upper()}: `{record['command']}`"
              for name, record in records.items()),
            "",
            "The commands go on where they stopped; then `python -m benchmarks.paper_training`.",
            "",
        ]
    )  # fmt: skip


def _row(regime: str, reading: str, network: str, r: dict) -> list[str]:
    def pair(scores: dict) -> str:
        return f"{scores['relative_l2']:.4f} / {scores['rmse']:.4f}"

    def reach(name: str) -> str:
        ratio = np.array(r[name]) / np.array(r[f"{name}_truth"])
        return f"{ratio.min():.2g} to {ratio.max():.2g}"

    whole = r["epochs_done"] == r["epochs"]
    done = str(r["epochs_done"]) if whole else f"{r['epochs_done']} of {r['epochs']}"
    size = [str(r.get("data_seed", 0)), str(r.get("paths", 1000)), done, str(r["best_epoch"])]
    errors = [pair(r[name]) for name in ("test", "floor", "paper")]
    parts = (("test", "floor"), ("train", "train_floor"))
    times = [f"{r[of]['rmse'] / r[limit]['rmse']:.2f}" for of, limit in parts]
    laws = [reach("lambda"), reach("q")]
    return [regime.upper(), reading, network, *size, _validation(r), *errors, *times, *laws]


def _validation(r: dict) -> str:
    """Least relative error; earlier records have one value for every 50 epochs."""
    if "validation" in r:
        return f"{r['validation']['relative_l2']:.4f}"
    return f"{min(r['validation_relative_l2_every_50']):.4f}"


if __name__ == "__main__":
    sys.exit(main())
