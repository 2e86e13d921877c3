"""Base class of trainings in torch: Adam, the best weights, and snapshots to resume from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spdelaw.amortized.training import ALONE, Processes, Run, Snapshot

Array = np.ndarray


class TorchRun(Run):
    """A model, its optimiser and the state after the last whole epoch.

    Args:
        model: its parameters are changed.
        groups: parameters by learning rate, for Adam.
        weight_decay: of all groups that have none of their own.
        processes: that share every batch; this one alone by default.
    """

    def __init__(
        self,
        model: nn.Module,
        groups: list[dict[str, Any]],
        weight_decay: float,
        processes: Processes = ALONE,
    ) -> None:
        self.model, self.processes = model, processes
        self.optimiser = torch.optim.Adam(groups, weight_decay=weight_decay, fused=True)
        self.rates = [group["lr"] for group in groups]
        by_identity = {id(p): name for name, p in model.named_parameters()}
        self.names = [by_identity[id(p)] for p in self._flat()]
        self.snapshot = Snapshot()

    def set_rates(self, factor: float) -> None:
        """Learning rates of an epoch, as a factor of those at the start."""
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor

    def add_gradients(self, loss: float) -> float:
        """Gradients and the loss summed over the processes that share a batch."""
        if self.processes.size == 1:
            return loss
        flat = self._flat()
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in flat]
        numbers = [gradient.double().ravel() for gradient in gradients]
        summed = self.processes.total(torch.cat([*numbers, torch.tensor([loss]).double()]))
        for p, gradient in zip(flat, summed[:-1].split([p.numel() for p in flat]), strict=True):
            p.grad = gradient.reshape(p.shape).to(p.dtype)
        return float(summed[-1])

    def keep(
        self, epoch: int, row: tuple[float, float, float], score: float, seconds: float
    ) -> None:
        """Replace the snapshot in one assignment, which Ctrl-C cannot split.

        Args:
            epoch: counted from 0.
            row: training loss, validation loss and validation rel L2.
            score: the epoch with the least is the best.
            seconds: spent so far.
        """
        old = self.snapshot
        weights = {k: v.numpy().copy() for k, v in self.model.state_dict().items()}
        better = score < old.best_score or not old.arrays
        best = weights if better else old.part("best")
        arrays = {f"model.{k}": v for k, v in weights.items()}
        arrays |= {f"best.{k}": v for k, v in best.items()}
        arrays |= {f"optimiser.{k}": v for k, v in self._moments().items()}
        best_of = (epoch + 1, score) if better else (old.best_epoch, old.best_score)
        self.snapshot = Snapshot(epoch + 1, arrays, *best_of, (*old.history, row), seconds)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""
        load_weights(self.model, snapshot, "model")
        moments = snapshot.part("optimiser")
        for name, p in zip(self.names, self._flat(), strict=True):
            parameter_moments = {k: v for k, v in moments.items() if k.rpartition(".")[0] == name}
            if parameter_moments:
                state = {
                    k.rpartition(".")[2]: torch.from_numpy(v.copy())
                    for k, v in parameter_moments.items()
                }
                self.optimiser.state[p] = state
        self.snapshot = snapshot

    def best(self) -> Any:
        """The model with its best parameters."""
        load_weights(self.model, self.snapshot, "best")
        return self.model

    def _flat(self) -> list[Tensor]:
        return [p for group in self.optimiser.param_groups for p in group["params"]]

    def _moments(self) -> dict[str, Array]:
        """Adam's step and moments by parameter name; copies."""
        return {
            f"{name}.{key}": value.detach().numpy().copy()
            for name, p in zip(self.names, self._flat(), strict=True)
            for key, value in self.optimiser.state[p].items()
        }


def load_weights(model: nn.Module, snapshot: Snapshot, kind: str) -> None:
    """Put the weights of a snapshot, ``model`` or ``best``, into a model."""
    model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in snapshot.part(kind).items()})
