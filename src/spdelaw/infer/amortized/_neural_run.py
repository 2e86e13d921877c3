"""A run of the neural learner: model, optimiser and the state after the last whole epoch."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from spdelaw.infer.amortized._assess import assess
from spdelaw.infer.amortized._chaos_vae import ChaosVAE
from spdelaw.infer.amortized._checkpoint import Snapshot
from spdelaw.infer.amortized._config import AmortizedConfig
from spdelaw.infer.amortized._diagnose import check_gradients, check_terms
from spdelaw.infer.amortized._elbo import elbo
from spdelaw.infer.amortized._paths import Paths
from spdelaw.infer.amortized._torch_state import (
    load_moments,
    load_weights,
    moments_of,
    weights_of,
)
from spdelaw.infer.amortized._train import NOISE, ORDER, WEIGHTS, rate_factor, stream


def new_model(basis: np.ndarray, config: AmortizedConfig, seed: int) -> ChaosVAE:
    """Model with weights drawn from the seed; torch's own generator stays where it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, WEIGHTS))
        return ChaosVAE(basis, config)


class NeuralRun:
    """Adam on the evidence lower bound; the epoch with the best validation score is kept.

    Args:
        model: from `new_model`; its parameters are changed.
        paths: what to learn from.
        validation: what chooses the best epoch.
        config: how.
        seed: of order and noise.
    """

    def __init__(
        self, model: ChaosVAE, paths: Paths, validation: Paths, config: AmortizedConfig, seed: int
    ) -> None:
        self.model, self.config, self.seed = model, config, seed
        self.paths, self.validation = paths, validation
        groups = model.groups(config)
        self.optimiser = torch.optim.Adam(groups, weight_decay=config.weight_decay, fused=True)
        self.rates = [group["lr"] for group in groups]
        by_identity = {id(p): name for name, p in model.named_parameters()}
        self.names = [by_identity[id(p)] for group in groups for p in group["params"]]
        self.snapshot = Snapshot(0, {}, 0, math.inf, (), 0.0)

    def epoch(self, epoch: int) -> float:
        """One pass over the paths; mean loss."""
        paths = self.paths
        factor = rate_factor(epoch, self.config)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        order = np.random.default_rng(stream(self.seed, ORDER, epoch)).permutation(len(paths))
        generator = torch.Generator().manual_seed(stream(self.seed, NOISE, epoch))
        total = 0.0
        for batch in paths.batches(self.config.batch_size, order):
            total += self.step(batch, generator, epoch) * len(batch)
        return total / len(paths)

    def step(self, batch: Paths, generator: torch.Generator, epoch: int) -> float:
        """One step of Adam; loss before it."""
        self.optimiser.zero_grad(set_to_none=True)
        terms = elbo(self.model, batch, self._noise(len(batch), generator))
        loss = terms.loss(self.config)
        if not math.isfinite(value := loss.item()):
            check_terms(terms, self.model, epoch)
        loss.backward()
        check_gradients(self.model, epoch)
        self.optimiser.step()
        return value

    def finish(self, epoch: int, loss: float, seconds: float) -> None:
        """Score the epoch and replace the snapshot in one assignment, which Ctrl-C cannot split."""
        found, old = assess(self.model, self.validation, self.config), self.snapshot
        score = found.relative_l2 if self.config.select_by == "relative_l2" else found.loss
        weights, moments = weights_of(self.model), moments_of(self.optimiser, self.names)
        better = score < old.best_score or not old.arrays
        best = weights if better else old.part("best")
        arrays = {f"model.{k}": v for k, v in weights.items()}
        arrays |= {f"best.{k}": v for k, v in best.items()}
        arrays |= {f"optimiser.{k}": v for k, v in moments.items()}
        self.snapshot = Snapshot(
            epoch + 1, arrays, epoch + 1 if better else old.best_epoch,
            score if better else old.best_score,
            (*old.history, (loss, found.loss, found.relative_l2)), seconds,
        )  # fmt: skip

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""
        load_weights(self.model, snapshot.part("model"))
        load_moments(self.optimiser, self.names, snapshot.part("optimiser"))
        self.snapshot = snapshot

    def best(self) -> ChaosVAE:
        """The model with its best parameters."""
        load_weights(self.model, self.snapshot.part("best"))
        return self.model

    def _noise(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor] | None:
        if self.config.expectation == "exact":
            return None
        encoder = self.model.encoder
        initial = torch.randn(n, encoder.n_modes, generator=generator)
        return initial, torch.randn(n, encoder.n_time, encoder.n_modes, generator=generator)
