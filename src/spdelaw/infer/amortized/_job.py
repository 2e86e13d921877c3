"""What one training is asked to do, whatever preset does it, and the time it runs in."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spdelaw.data import Observed, fingerprint, observe
from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError
from spdelaw.infer._model import Model
from spdelaw.infer.amortized._config import AmortizedConfig
from spdelaw.train import HOLD_OUT, Report, Snapshot, reporter, stream, with_tensorboard

if TYPE_CHECKING:
    from spdelaw.infer._amortized_engine import Amortized

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Clock:
    """Where the model's time starts and how long it runs: ``s = (t - start) / horizon``.

    The model lives on [0, 1]; rates and noise variances per unit of ``s`` are ``horizon`` times
    those per unit of the data's time, so that lambda = q = 1 is a neutral start in every unit.
    """

    start: float
    horizon: float

    @classmethod
    def of(cls, times: Array) -> Clock:
        """Clock of observation times (T,) or (P, T)."""
        return cls(float(times.min()), float(times.max() - times.min()))

    def ages(self, times: Array) -> Array:
        """Times as shares of the horizon."""
        return (np.asarray(times, float) - self.start) / self.horizon


@dataclasses.dataclass(frozen=True)
class Job:
    """Data, settings and where the run is kept.

    Attributes:
        observed: training paths.
        held_out: paths that score the epochs.
        n_modes: N.
        model: what is assumed.
        config: of the preset.
        folder: of the checkpoint, or None.
        report: called after every epoch.
        level: of the intervals.
        seed: of the run.
        threads: of the likelihood.
    """

    observed: Observed
    held_out: Observed
    n_modes: int
    model: Model
    config: Any
    folder: Path | None
    report: Report
    level: float
    seed: int
    threads: int

    @classmethod
    def of(
        cls, engine: Amortized, observed: Observed, n_modes: int, model: Model, run: dict[str, Any]
    ) -> Job:
        """What an engine with its options is asked to do.

        ``run`` holds the arguments of `spdelaw.infer.Engine.learn` by name. The seed is that of
        weights, order, noise and held-out paths; it repeats a run on one machine.
        """
        config, seed = engine.config, run["seed"]
        folder = None if engine.checkpoint is None else Path(engine.checkpoint)
        observed, held_out = _hold_out(observed, engine.validation, config, seed)
        report = with_tensorboard(reporter(run["progress"]), engine.tensorboard)
        what = (observed, held_out, n_modes, model, config, folder, report)
        return cls(*what, run["level"], seed, engine.threads)

    @property
    def domain(self) -> AbstractDomain:
        """Where the paths live."""
        return self.observed.domain

    @property
    def clock(self) -> Clock:
        """Start and horizon of the training paths."""
        return Clock.of(self.observed.times)

    def identity(self) -> dict[str, Any]:
        """What a checkpoint has to agree on before it is gone on with."""
        clock = self.clock
        return {
            "config": self.config.model_dump(mode="json"), "seed": self.seed,
            "domain": self.domain.to_dict(), "n_modes": self.n_modes,
            "points": self.observed.points.tolist(), "clock": [clock.start, clock.horizon],
            "data": fingerprint(self.observed.fields),
            "validation": fingerprint(self.held_out.fields),
        }  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """What a law's ``info`` says of any training."""
        return {
            "engine": "amortized",
            "route": self.config.preset,
            "preset": self.config.preset,
            "config": self.config.model_dump(mode="json"),
            "seed": self.seed,
            **self.observed.sizes,
            "n_validation": self.held_out.n_paths,
            "checkpoint": None if self.folder is None else str(self.folder.absolute()),
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
    order = np.random.default_rng(stream(seed, HOLD_OUT)).permutation(n)
    last = n - min(max(1, round(config.validation_fraction * n)), n - 1)
    return observed.paths(np.sort(order[:last])), observed.paths(np.sort(order[last:]))


def training_curve(snapshot: Snapshot, n_points: int = 20) -> dict[str, Any]:
    """The training at a few epochs, and the best one."""
    at = np.unique(np.linspace(1, snapshot.epoch, n_points).round().astype(int))
    rows = [snapshot.history[i - 1] for i in at]
    return {
        "best_epoch": snapshot.best_epoch,
        "best_score": snapshot.best_score,
        "curve": {
            "epoch": at.tolist(),
            "loss": [row[0] for row in rows],
            "validation_loss": [row[1] for row in rows],
            "validation_relative_l2": [row[2] for row in rows],
        },
    }
