"""``engine="amortized"``: the door, which chooses the learner by its preset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spdelaw.checks import optional
from spdelaw.data import Observed, observe
from spdelaw.errors import DataError
from spdelaw.infer._model import Model
from spdelaw.infer.amortized._config import AmortizedConfig, StructuredConfig
from spdelaw.infer.amortized._job import Job
from spdelaw.infer.amortized._structured import fit_structured
from spdelaw.law import Law
from spdelaw.train import HOLD_OUT, reporter, stream, with_tensorboard

if TYPE_CHECKING:
    from spdelaw.infer._amortized_engine import Amortized

Array = np.ndarray


def fit_amortized(
    engine: Amortized, observed: Observed, n_modes: int, model: Model, run: dict[str, Any]
) -> Law:
    """Law of the observed fields by training on batches of paths.

    Args:
        engine: its options.
        observed: training paths.
        n_modes: N.
        model: what is assumed.
        run: arguments of `spdelaw.infer.Engine.learn` by name. The seed is that of weights, order,
            noise and held-out paths; it repeats a run on one machine.
    """
    config, seed = engine.config, run["seed"]
    learn = fit_structured
    if not isinstance(config, StructuredConfig):
        neural = "spdelaw.infer.amortized._neural_engine"
        learn = optional(neural, "preset='paper'", "neural").fit_neural
    folder = None if engine.checkpoint is None else Path(engine.checkpoint)
    observed, held_out = _hold_out(observed, engine.validation, config, seed)
    report = with_tensorboard(reporter(run["progress"]), engine.tensorboard)
    what = (observed, held_out, n_modes, model, config, folder, report)
    return learn(Job(*what, run["level"], seed, engine.threads))


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
