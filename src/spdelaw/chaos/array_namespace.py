"""One source for NumPy and torch: which of the two a formula runs in, and how values enter it.

A formula is written once against the names both share (``exp``, ``expm1``, ``where``, ``matmul``,
...) as ``xp.exp(...)``. torch is never imported here: whoever holds a tensor has imported it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from spdelaw.errors import InputError

#: A NumPy array or a torch tensor.
Array = Any


def namespace(*values: Any, xp: Any = None) -> Any:
    """``numpy``, or ``torch`` where one of the values is a tensor; ``xp`` decides if given.

    Example:
        >>> namespace([1.0, 2.0]).__name__
        'numpy'
    """
    if xp is not None:
        if getattr(xp, "__name__", None) not in ("numpy", "torch"):
            expected = "the module numpy or torch"
            raise InputError("xp", expected=expected, got=repr(xp), fix="leave it out")
        return xp
    torch = sys.modules.get("torch")
    if torch is not None and any(isinstance(value, torch.Tensor) for value in values):
        return torch
    return np


def as_floating(value: Any, xp: Any) -> Array:
    """Value as an array of ``xp``: float64 in NumPy; a floating tensor keeps its precision."""
    if xp is np:
        return np.asarray(value, dtype=float)
    if not isinstance(value, xp.Tensor):
        return xp.tensor(np.array(value, dtype=float))
    return value if value.is_floating_point() else value.to(xp.float64)


def constant(value: Any, like: Array, xp: Any) -> Array:
    """Value, without gradient, in the precision and on the device of ``like``.

    NumPy keeps float64; a tensor gets a copy, because equations hand out read-only arrays.
    """
    if xp is np:
        return np.asarray(value, dtype=float)
    return xp.tensor(np.array(value, dtype=float), dtype=like.dtype, device=like.device)


def to_numpy(value: Any) -> np.ndarray:
    """Value as float64 NumPy, out of any graph and off any device."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value, dtype=float)
