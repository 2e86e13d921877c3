"""Networks and their optimiser as plain arrays, for checkpoints, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

Array = np.ndarray


def weights_of(network: nn.Module) -> dict[str, Array]:
    """Weights by name; copies."""
    return {k: v.detach().numpy().copy() for k, v in network.state_dict().items()}


def load_weights(network: nn.Module, weights: dict[str, Array]) -> None:
    """Put back what `weights_of` took."""
    network.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in weights.items()})


def moments_of(optimiser: torch.optim.Optimizer, names: Sequence[str]) -> dict[str, Array]:
    """Adam's step and moments by parameter name; copies."""
    return {
        f"{name}.{key}": value.detach().numpy().copy()
        for name, p in zip(names, _flat(optimiser), strict=True)
        for key, value in optimiser.state[p].items()
    }


def load_moments(
    optimiser: torch.optim.Optimizer, names: Sequence[str], moments: dict[str, Array]
) -> None:
    """Put back what `moments_of` took."""
    for name, p in zip(names, _flat(optimiser), strict=True):
        own = {k.rpartition(".")[2]: v for k, v in moments.items() if k.rpartition(".")[0] == name}
        if own:
            optimiser.state[p] = {k: torch.from_numpy(v.copy()) for k, v in own.items()}


def _flat(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimiser.param_groups for p in group["params"]]
