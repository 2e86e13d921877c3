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
from spdelaw.infer.amortized._elbo import elbo, values_of
from spdelaw.infer.amortized._paths import Paths
from spdelaw.train import ALONE, NOISE, ORDER, WEIGHTS, Processes, stream
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
        processes: that share every batch.
    """

    model: ChaosVAE

    def __init__(
        self,
        model: ChaosVAE,
        paths: Paths,
        validation: Paths,
        config: AmortizedConfig,
        seed: int,
        processes: Processes = ALONE,
    ) -> None:
        super().__init__(model, model.groups(config), config.weight_decay, processes)
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
        share, noise = self.processes.share(len(batch)), self._noise(len(batch), generator)
        own = batch if self.processes.size == 1 else batch.take(share)
        value = 0.0
        if len(own):
            noise = None if noise is None else (noise[0][share], noise[1][share])
            terms = elbo(self.model, own, noise)
            gain = terms.objective(self.config, values_of(batch))
            loss = -gain.mean() * (len(own) / len(batch))
            if not math.isfinite(value := loss.item()):
                check_terms(terms, self.model, epoch)
            loss.backward()
        value = self.add_gradients(value)
        check_gradients(self.model, epoch)
        self.optimiser.step()
        return value

    def finish(self, epoch: int, loss: float, seconds: float) -> None:
        """Score the epoch and replace the snapshot."""
        numbers = torch.zeros(2, dtype=torch.float64)
        if self.processes.rank == 0:
            found = assess(self.model, self.validation, self.config)
            numbers = torch.tensor([found.loss, found.relative_l2], dtype=torch.float64)
        worth, relative_l2 = self.processes.first(numbers).tolist()
        score = relative_l2 if self.config.select_by == "relative_l2" else worth
        self.keep(epoch, (loss, worth, relative_l2), score, seconds)

    def _noise(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor] | None:
        if self.config.expectation == "exact":
            return None
        encoder = self.model.encoder
        initial = torch.randn(n, encoder.n_modes, generator=generator)
        return initial, torch.randn(n, encoder.n_time, encoder.n_noise, generator=generator)
