"""A run of the neural learner: model, optimiser and the state after the last whole epoch."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from spdelaw.infer.amortized._assess import assess
from spdelaw.infer.amortized._chaos_vae import ChaosVAE
from spdelaw.infer.amortized._config import AmortizedConfig
from spdelaw.infer.amortized._diagnose import check_gradients, check_terms
from spdelaw.infer.amortized._elbo import elbo
from spdelaw.infer.amortized._paths import Paths
from spdelaw.train import NOISE, ORDER, WEIGHTS, stream
from spdelaw.train.torch_run import TorchRun


def new_model(basis: np.ndarray, config: AmortizedConfig, seed: int) -> ChaosVAE:
    """Model with weights drawn from the seed; torch's own generator stays where it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, WEIGHTS))
        return ChaosVAE(basis, config)


class NeuralRun(TorchRun):
    """Adam on the evidence lower bound; the epoch with the best validation score is kept.

    Args:
        model: from `new_model`; its parameters are changed.
        paths: what to learn from.
        validation: what chooses the best epoch.
        config: how.
        seed: of order and noise.
    """

    model: ChaosVAE

    def __init__(
        self, model: ChaosVAE, paths: Paths, validation: Paths, config: AmortizedConfig, seed: int
    ) -> None:
        super().__init__(model, model.groups(config), config.weight_decay)
        self.config, self.seed = config, seed
        self.paths, self.validation = paths, validation

    def epoch(self, epoch: int) -> float:
        """One pass over the paths; mean loss."""
        paths = self.paths
        self.set_rates(self.rate(epoch))
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
        """Score the epoch and replace the snapshot."""
        found = assess(self.model, self.validation, self.config)
        score = found.relative_l2 if self.config.select_by == "relative_l2" else found.loss
        self.keep(epoch, (loss, found.loss, found.relative_l2), score, seconds)

    def _noise(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor] | None:
        if self.config.expectation == "exact":
            return None
        encoder = self.model.encoder
        initial = torch.randn(n, encoder.n_modes, generator=generator)
        return initial, torch.randn(n, encoder.n_time, encoder.n_noise, generator=generator)
