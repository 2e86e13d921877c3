"""What one training is asked to do, whatever preset does it, and the time it runs in."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from spdelaw.data import Observed, fingerprint, observe
from spdelaw.errors import DataError
from spdelaw.infer._model import Model
from spdelaw.infer.amortized._config import AmortizedConfig
from spdelaw.train import Report, Run, Snapshot, reporter, stream, train, with_tensorboard

if TYPE_CHECKING:
    from spdelaw.infer._amortized_engine import Amortized


@dataclasses.dataclass(frozen=True)
class Job:
    """Data, settings and where the run is kept.

    Attributes:
        engine: config, folder of the checkpoint and threads.
        observed: training paths.
        held_out: paths that score the epochs.
        n_modes: N.
        model: what is assumed.
        report: called after every epoch.
        level: of the intervals.
        seed: of weights, order, noise and held-out paths; it repeats a run on one machine.
    """

    engine: Amortized
    observed: Observed
    held_out: Observed
    n_modes: int
    model: Model
    report: Report
    level: float
    seed: int

    @classmethod
    def of(
        cls, engine: Amortized, observed: Observed, n_modes: int, model: Model, run: dict[str, Any]
    ) -> Job:
        """What an engine is asked; ``run``: arguments of `spdelaw.infer.Engine.learn` by name."""
        data = _hold_out(observed, engine.validation, engine.config, run["seed"])
        report = with_tensorboard(reporter(run["progress"]), engine.tensorboard)
        return cls(engine, *data, n_modes, model, report, run["level"], run["seed"])

    @property
    def clock(self) -> tuple[float, float]:
        """Start and horizon of the training paths: the model lives on ``(t - start) / horizon``.

        Rates and noise variances per unit of that are ``horizon`` times those per unit of the
        data's time, so that lambda = q = 1 is a neutral start in every unit.
        """
        times = self.observed.times
        return float(times.min()), float(times.max() - times.min())

    def train(self, run: Run, **more: Any) -> Snapshot:
        """Take a run to its end, or go on with one that agrees on all this and on ``more``."""
        identity = {
            "config": self.engine.config.model_dump(mode="json"), "seed": self.seed,
            "domain": self.observed.domain.to_dict(), "n_modes": self.n_modes,
            "points": self.observed.points.tolist(), "clock": list(self.clock),
            "data": fingerprint(self.observed.fields),
            "validation": fingerprint(self.held_out.fields), **more,
        }  # fmt: skip
        return train(run, identity=identity, checkpoint=self.engine.checkpoint, report=self.report)

    def facts(self) -> dict[str, Any]:
        """What a law's ``info`` says of any training."""
        config, folder = self.engine.config, self.engine.checkpoint
        return {
            "engine": "amortized",
            "route": config.preset,
            "preset": config.preset,
            "config": config.model_dump(mode="json"),
            "seed": self.seed,
            **self.observed.sizes,
            "n_validation": self.held_out.n_paths,
            "checkpoint": None if folder is None else str(folder.absolute()),
        }


def _hold_out(
    observed: Observed, validation: Any, config: Any, seed: int
) -> tuple[Observed, Observed]:
    """Training paths, and those that score the epochs."""
    if validation is not None:
        given = observe(validation, observed.domain).in_memory().where_seen()
        if not np.array_equal(given.points, observed.points):
            got = f"{len(given.points)} others"
            fix = "split one set of fields: train, validation, test = sl.split(fields)"
            raise DataError("validation", expected="the points of the data", got=got, fix=fix)
        return observed, given
    if not isinstance(config, AmortizedConfig):  # nothing to choose by validation
        return observed, observed
    n = observed.n_paths
    if n < 2:
        expected = "at least two paths, one to validate with"
        fix = "simulate or observe more paths, or use preset='structured' or engine='exact'"
        raise DataError("data", expected=expected, got=str(n), fix=fix)
    order = np.random.default_rng(stream(seed, "hold out")).permutation(n)
    last = n - min(max(1, round(config.validation_fraction * n)), n - 1)
    return observed.paths(np.sort(order[:last])), observed.paths(np.sort(order[last:]))


def training_curve(snapshot: Snapshot, n_points: int = 20) -> dict[str, Any]:
    """The training at a few epochs, and the best one."""
    at = np.unique(np.linspace(1, snapshot.epoch, n_points).round().astype(int))
    columns = map(list, zip(*(snapshot.history[i - 1] for i in at), strict=True))
    names = ("loss", "validation_loss", "validation_relative_l2")
    return {
        "best_epoch": snapshot.best_epoch,
        "best_score": snapshot.best_score,
        "curve": {"epoch": at.tolist(), **dict(zip(names, columns, strict=True))},
    }
