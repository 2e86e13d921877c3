"""A run of the neural learner: model, optimiser and the state after the last whole epoch.

A training that diverges stops with a sentence that names the part.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from spdelaw.errors import ConvergenceError
from spdelaw.infer.amortized._chaos_vae import ChaosVAE
from spdelaw.infer.amortized._config import AmortizedConfig
from spdelaw.infer.amortized._elbo import Elbo, assess, elbo
from spdelaw.infer.amortized._paths import Paths
from spdelaw.train import ALONE, Processes, stream
from spdelaw.train.torch_run import TorchRun

#: Logarithms beyond this overflow in float32.
LARGEST = 85.0
#: What people may call the parts, by the start of a parameter's name.
PARTS = {
    "encoder": "the encoder (encoder_rate)",
    "dynamics": "lambda and q (dynamics_rate)",
    "log_variance": "the observation variances (variance_rate)",
    "root_std": "the observation variances (variance_rate)",
}


def new_model(basis: np.ndarray, config: AmortizedConfig, seed: int) -> ChaosVAE:
    """Model with weights drawn from the seed; torch's own generator stays where it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "weights"))
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
        order = np.random.default_rng(stream(self.seed, "order", epoch)).permutation(len(paths))
        generator = torch.Generator().manual_seed(stream(self.seed, "noise", epoch))
        total = 0.0
        for batch in paths.batches(self.config.batch_size, order):
            total += self.step(batch, generator, epoch) * len(batch)
        return total / len(paths)

    def step(self, batch: Paths, generator: torch.Generator, epoch: int) -> float:
        """One step of Adam; loss before it."""
        self.optimiser.zero_grad(set_to_none=True)
        share, noise = self.processes.share(len(batch)), self._noise(len(batch), generator)
        own = batch.take(share)
        value = 0.0
        if len(own):
            noise = None if noise is None else (noise[0][share], noise[1][share])
            terms = elbo(self.model, own, noise)
            loss = -terms.objective(self.config, batch).mean() * (len(own) / len(batch))
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
            numbers = torch.tensor([found["loss"], found["relative_l2"]], dtype=torch.float64)
        worth, relative_l2 = self.processes.first(numbers).tolist()
        score = relative_l2 if self.config.select_by == "relative_l2" else worth
        self.keep(epoch, (loss, worth, relative_l2), score, seconds)

    def _noise(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor] | None:
        if self.config.expectation == "exact":
            return None
        encoder = self.model.encoder
        initial = torch.randn(n, encoder.n_modes, generator=generator)
        return initial, torch.randn(n, encoder.n_time, encoder.n_noise, generator=generator)


def check_terms(terms: Elbo, model: nn.Module, epoch: int) -> None:
    """Raise `ConvergenceError` where a term of the bound is not finite."""
    names = ("log_likelihood", "kl_initial", "kl_chaos", "at_zeros")
    broken = [n.replace("_", " ") for n in names if not getattr(terms, n).isfinite().all()]
    if broken:
        weights = _named([n for n, p in model.named_parameters() if not _in_range(n, p)])
        cause = f", because of {weights}" if weights else ""
        raise _diverged(f"{', '.join(broken)} that is not finite{cause}", epoch)


def check_gradients(model: nn.Module, epoch: int) -> None:
    """Raise `ConvergenceError` where a gradient is not finite, before it enters a parameter."""
    named = model.named_parameters()
    broken = [n for n, p in named if p.grad is not None and not _finite(p.grad)]
    if broken:
        raise _diverged(f"a gradient that is not finite in {_named(broken)}", epoch)


def _finite(tensor: torch.Tensor) -> bool:
    # A sum is not finite when an entry is not, and costs one pass without a mask in memory.
    total = tensor.detach().sum()
    return bool(torch.isfinite(total)) or bool(torch.isfinite(tensor).all())


def _in_range(name: str, parameter: torch.Tensor) -> bool:
    """Finite, and within float32 after the exponential where it is a logarithm."""
    is_log = name.rpartition(".")[2].startswith("log_")
    return _finite(parameter) and not (is_log and bool(parameter.detach().abs().max() > LARGEST))


def _named(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(PARTS.get(n.split(".")[0], n) for n in names))


def _diverged(got: str, epoch: int) -> ConvergenceError:
    what, expected = f"training, epoch {epoch + 1}", "a finite loss and gradients"
    fix = (
        "lower the rate of that part by 10, scale the fields to a size of about 1, or lengthen "
        "warmup_epochs; the last checkpoint is still whole"
    )
    return ConvergenceError(what, expected=expected, got=got, fix=fix)
