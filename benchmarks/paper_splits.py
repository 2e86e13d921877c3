"""Errors of trained networks on the test paths of several data sets.

    python -m benchmarks.paper_splits results b-amortized-paper-0-data2 b-amortized-rescaled-0

reads the checkpoints that ``python -m paper reproduce --profile full`` keeps in ``results/runs``
and writes ``results/paper_splits.json`` of the benchmarks: relative error, its standard error over
the 150 test paths, RMSE, and the limit of the decoder on the same paths. All test paths are from
the same law; nothing is trained.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks._timing import RESULTS

import spdelaw as sl  # isort: skip
from paper.reproduction.plan import N_MODES, N_PATHS, N_TIME, PROFILES, Run, plan
from paper.reproduction.run import make_data
from paper.reproduction.scores import point_scores
from spdelaw.amortized import amortized_reconstruct
from spdelaw.evaluation import decoder_floor

SEEDS = (0, 1, 2, 7)


def main(arguments: list[str]) -> int:
    """Score each network on each data set."""
    out, *names = arguments
    runs = {run.name: run for run in plan("ab", PROFILES["full"])}
    path = RESULTS / "paper_splits.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    for name in names:
        law = _trained(runs[name], Path(out))
        rows = [row for row in rows if row["network"] != name]
        rows += [_row(runs[name], law, seed) for seed in SEEDS]
        command = "python -m benchmarks.paper_splits results <names of networks>"
        path.write_text(json.dumps({"command": command, "rows": rows}, indent=1) + "\n")
    for row in rows:
        print("{network:<28} {seed}  {rmse:.4f}  {relative_l2:.4f} ± {standard_error:.4f}  "
              "limit {limit:.4f}".format(**row))  # fmt: skip
    return 0


def _trained(run: Run, out: Path) -> sl.Law:
    """The network of a finished checkpoint."""
    data = make_data(run.regime, run.profile.reference_modes[run.regime], N_PATHS, run.seed)
    return sl.fit(
        data.train["field"], data.equation.domain, N_MODES, **run.entry.settings, residual="white",
        validation=data.validation["field"], seed=run.seed, initialisation=run.initialisation,
        epochs=run.epochs, checkpoint=out / "runs" / "full" / run.name,
    )  # fmt: skip


def _row(run: Run, law: sl.Law, seed: int) -> dict[str, Any]:
    data = make_data(run.regime, run.profile.reference_modes[run.regime], N_PATHS, seed)
    test = data.test["field"]
    lam = data.truth.eigenvalues[:N_MODES]
    floor = decoder_floor(test, data.truth.domain, N_MODES, N_TIME, lam)
    scores = point_scores(amortized_reconstruct(law, test)["mean"].values, test.values)
    return {"network": run.name, "seed": seed, **scores, "limit": floor.relative_l2,
            "limit_rmse": floor.rmse}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
