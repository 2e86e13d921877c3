"""The amortized engine: training on batches of paths, with a network or the exact posterior."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spdelaw.checks import optional, whole
from spdelaw.data import Observed
from spdelaw.domain import AbstractDomain
from spdelaw.errors import InputError
from spdelaw.infer._engine import Engine
from spdelaw.infer._model import WORDS, Model
from spdelaw.law import Law

#: Words of the model that ``preset="structured"`` acts on; the others act on none.
HONOURED = frozenset(WORDS) - {"forcing", "season"}


class Amortized(Engine):
    """Training on batches of paths.

    ``preset="paper"`` is the paper's encoder and needs the extra ``neural``; the encoder of
    ``preset="structured"`` is the exact posterior.

    Args:
        config: a config, a mapping or a YAML file of settings of
            `spdelaw.infer.amortized.AmortizedConfig` or `spdelaw.infer.amortized.StructuredConfig`.
        validation: fields that score the epochs; for "paper", by default a share of the paths.
        checkpoint: folder to save the run in, and to go on from where it holds one.
        tensorboard: folder for a log of every epoch that TensorBoard shows.
        threads: for data with gaps, of "structured".
        settings: single settings such as ``preset``, ``epochs``, ``n_time``, on top of ``config``.

    Example:
        >>> Amortized(preset="structured", epochs=4)
        Amortized(preset='structured', epochs=4)
    """

    name = "amortized"

    def __init__(
        self,
        config: Any = None,
        *,
        validation: Any = None,
        checkpoint: Any = None,
        tensorboard: Any = None,
        threads: int = 1,
        **settings: Any,
    ) -> None:
        """Check every setting."""
        from spdelaw.infer.amortized import make_config

        self.config: Any = make_config(config, **settings)
        self.settings, self.validation, self.tensorboard = settings, validation, tensorboard
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.threads, preset = whole("threads", threads, 1), self.config.preset
        self.honours = HONOURED if preset == "structured" else frozenset()
        if preset != "structured" and threads != 1:
            expected = f"1: preset={preset!r} does not use it"
            fix = "leave threads out"
            raise InputError("threads", expected=expected, got=repr(threads), fix=fix)

    def check(self, model: Model, bootstrap: int) -> None:
        """Refuse what a preset cannot honour."""
        super().check(model, bootstrap)
        for what, value in (("drift", model.drift), ("noise", model.noise)):
            if value not in ("diagonal", "parametric"):
                expected = "'diagonal' or 'parametric': chaos coordinates are of single modes"
                raise InputError(what, expected=expected, got=repr(value), fix="use engine='exact'")
        if model.noise_word == "per_point":
            expected = "one variance for all points, or known ones"
            fix = "use engine='exact', which learns one per point"
            raise InputError("observation_noise", expected=expected, got="'per_point'", fix=fix)
        if bootstrap:
            expected, fix = "0: each replicate would be a training", "use engine='exact'"
            raise InputError("bootstrap", expected=expected, got=repr(bootstrap), fix=fix)

    def learn(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model, **run: Any
    ) -> Law:
        """Law of the observed fields by training on batches of paths."""
        from spdelaw.infer.amortized import Job, StructuredConfig, fit_structured

        job = Job.of(self, observed, n_modes, model, run)
        if isinstance(self.config, StructuredConfig):
            return fit_structured(job)
        neural = "spdelaw.infer.amortized._neural_engine"
        found: Law = optional(neural, "preset='paper'", "neural").fit_neural(job)
        return found

    def __repr__(self) -> str:
        """What was said."""
        return f"Amortized({', '.join(f'{k}={v!r}' for k, v in self.settings.items())})"
