"""``engine="amortized"``: the door, which chooses the learner by its preset."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError, InputError, MissingExtraError
from spdelaw.infer._observed import Observed, observe
from spdelaw.infer._settings import Settings
from spdelaw.infer.amortized._config import AmortizedConfig, StructuredConfig, make_config
from spdelaw.infer.amortized._job import Job
from spdelaw.infer.amortized._structured import fit_structured
from spdelaw.law import Law
from spdelaw.train import HOLD_OUT, reporter, stream, with_tensorboard

Array = np.ndarray

#: Settings of the exact engine that a preset takes over.
OWN_SETTINGS = {
    "paper": ("level", "seed"),
    "literal": ("level", "seed"),
    "structured": (
        "level", "seed", "threads", "observation_noise", "initial", "drift", "noise", "nuisance",
        "fixed", "priors",
    ),
}  # fmt: skip


def fit_amortized(
    observed: Observed, domain: AbstractDomain, n_modes: int, settings: Settings, *,
    config: Any = None, validation: Any = None, progress: Any = None, checkpoint: Any = None,
    tensorboard: Any = None, **values: Any,
) -> Law:  # fmt: skip
    """Law of the observed fields by training on batches of paths.

    Args:
        observed: training paths.
        domain: where they live.
        n_modes: N.
        settings: of every engine; the seed is that of weights, order, noise and held-out paths,
            and repeats a run on one machine.
        config: a config, a mapping or a YAML file; its ``preset`` is "paper", the paper's encoder
            (needs the extra ``neural``), or "structured", whose encoder is the exact posterior.
        validation: fields that score the epochs; for "paper", by default a share of the paths.
        progress: True, or a function of `Progress`.
        checkpoint: folder to save the run in, and to go on from where it holds one.
        tensorboard: folder for a log of every epoch that TensorBoard shows.
        values: single values of the config.
    """
    chosen = make_config(config, **values)
    check_settings(settings, chosen.preset)
    learn = fit_structured if isinstance(chosen, StructuredConfig) else _neural()
    folder = None if checkpoint is None else Path(checkpoint)
    observed, held_out = _hold_out(observed, domain, validation, chosen, settings.seed)
    report = with_tensorboard(reporter(progress), tensorboard)
    return learn(Job(observed, held_out, domain, n_modes, settings, chosen, folder, report))


def _neural() -> Any:
    try:
        from spdelaw.infer.amortized._neural_engine import fit_neural
    except ImportError as error:
        raise MissingExtraError("preset='paper'", "neural") from error
    return fit_neural


def _hold_out(
    observed: Observed, domain: AbstractDomain, validation: Any, config: Any, seed: int
) -> tuple[Observed, Observed]:
    """Training paths, and those that score the epochs."""
    if validation is not None:
        given = observe(validation, domain)
        if not np.array_equal(given.points, observed.points):
            raise DataError(
                "validation", expected="the points of the data", got=f"{len(given.points)} others",
                fix="split one set of fields: train, validation, test = sl.split(fields)",
            )  # fmt: skip
        return observed, given
    if not isinstance(config, AmortizedConfig):  # nothing to choose by validation
        return observed, observed
    n = observed.n_paths
    if n < 2:
        raise DataError(
            "data", expected="at least two paths, one to validate with", got=str(n),
            fix="simulate or observe more paths, or use preset='structured' or engine='exact'",
        )  # fmt: skip
    order = np.random.default_rng(stream(seed, HOLD_OUT)).permutation(n)
    last = n - min(max(1, round(config.validation_fraction * n)), n - 1)
    return _some(observed, np.sort(order[:last])), _some(observed, np.sort(order[last:]))


def _some(observed: Observed, which: Array) -> Observed:
    times = observed.times if observed.times.ndim == 1 else observed.times[which]
    return Observed(
        observed.load()[which], times, observed.points, observed.fields.isel(path=which)
    )


def check_settings(settings: Settings, preset: str) -> None:
    """Raise `InputError` for a setting of the other engines that a preset cannot honour."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        same = value is field.default or (isinstance(value, (str, int)) and value == field.default)
        if field.name not in OWN_SETTINGS[preset] and not same:
            raise InputError(
                field.name, expected=f"its default: preset={preset!r} does not use it",
                got=repr(value), fix=f"leave {field.name} out, or use engine='exact'",
            )  # fmt: skip
    for name in ("drift", "noise"):
        if getattr(settings, name) not in ("diagonal", "parametric"):
            raise InputError(
                name, expected="'diagonal' or 'parametric': chaos coordinates are of single modes",
                got=repr(getattr(settings, name)), fix="use engine='exact'",
            )  # fmt: skip
    if settings.noise_word == "per_point":
        raise InputError(
            "observation_noise", expected="one variance for all points, or known ones",
            got="'per_point'", fix="use engine='exact', which learns one a point",
        )  # fmt: skip
