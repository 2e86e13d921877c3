"""Where the paths start: together or apart."""

from __future__ import annotations

import numpy as np

from spdelaw.infer._estimate import Decision
from spdelaw.infer._model import Model
from spdelaw.model import Block, Collapsed

Array = np.ndarray

#: Spread of first states, in variances of their noise, from which on paths start apart.
APART = 4.0
#: Paths up to which a spread is too poorly known for a law of initial states.
FEW_PATHS = 4
#: Least eigenvalue of a row's Gram matrix, scaled to a unit diagonal, that determines all modes.
WELL_CONDITIONED = 0.05


def initial_state(model: Model, spread: Array, noise: Array, n_paths: int) -> Decision:
    """Kind of the initial state: as asked for, or by whether paths start apart.

    Args:
        model: what is assumed.
        spread: variance over paths of the first states, (N,).
        noise: variance that a shared start would show, (N,).
        n_paths: number of paths.
    """
    if model.initial != "auto":
        return Decision(model.initial, {})
    apart = bool((spread > noise).any())
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.nan_to_num(spread / noise).max(initial=0.0))
    kind = "gaussian" if apart and n_paths > FEW_PATHS else "deterministic"
    return Decision(kind, {"spread_over_noise": ratio, "n_paths": n_paths})


def first_states(collapsed: Collapsed) -> tuple[Array, Array]:
    """Mean and spread over paths of the first estimate, where its row determines all modes."""
    first = np.concatenate(collapsed.over_first_rows(_first_estimates), axis=1)
    if first.shape[1] < 2:
        return (first[:, 0] if first.size else np.zeros(len(first))), np.zeros(len(first))
    return first.mean(1), first.var(1)


def _first_estimates(block: Block) -> Array:
    whole = np.broadcast_to(_determines(block.gram[0]), len(block.paths))
    return block.estimate[0][:, whole]


def _determines(gram: Array) -> Array:
    """Whether a row's Gram matrix (N, N, B), or its diagonal (N, B), is well conditioned."""
    if gram.ndim == 2:
        return np.asarray((gram > 0).all(0))
    scale = np.einsum("iib->ib", gram)
    safe = np.where(scale > 0, scale, 1.0)
    unit = np.moveaxis(gram / np.sqrt(safe[:, None] * safe[None]), -1, 0)
    return (scale > 0).all(0) & (np.linalg.eigvalsh(unit)[:, 0] > WELL_CONDITIONED)
