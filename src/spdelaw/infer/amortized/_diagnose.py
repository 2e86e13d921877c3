"""What diverged: training stops with a sentence that names it."""

from __future__ import annotations

import torch
from torch import nn

from spdelaw.errors import ConvergenceError
from spdelaw.infer.amortized._elbo import Elbo

#: Logarithms beyond this overflow in float32.
LARGEST = 85.0
#: What people may call the parts, by the start of a parameter's name.
PARTS = {
    "encoder": "the encoder (encoder_rate)",
    "dynamics": "lambda and q (dynamics_rate)",
    "log_variance": "the observation variances (variance_rate)",
    "root_std": "the observation variances (variance_rate)",
}


def check_terms(terms: Elbo, model: nn.Module, epoch: int) -> None:
    """Raise `ConvergenceError` where a term of the bound is not finite."""
    broken = [
        name.replace("_", " ")
        for name, term in terms._asdict().items()
        if not bool(torch.isfinite(torch.as_tensor(term)).all())
    ]
    if broken:
        weights = _named([n for n, p in model.named_parameters() if not _in_range(n, p)])
        cause = f", because of {weights}" if weights else ""
        raise _diverged(f"{', '.join(broken)} that is not finite{cause}", epoch)


def check_gradients(model: nn.Module, epoch: int) -> None:
    """Raise `ConvergenceError` where a gradient is not finite, before it enters a parameter."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    if all(map(_finite, gradients)):
        return
    named = model.named_parameters()
    parts = _named([n for n, p in named if p.grad is not None and not _finite(p.grad)])
    raise _diverged(f"a gradient that is not finite in {parts}", epoch)


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
    return ConvergenceError(
        f"training, epoch {epoch + 1}", expected="a finite loss and gradients", got=got,
        fix="lower the rate of that part by 10, scale the fields to a size of about 1, "
        "or lengthen warmup_epochs; the last checkpoint is still whole",
    )  # fmt: skip
