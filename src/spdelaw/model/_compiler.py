"""Machine code by numba, where it is installed and may compile.

Numba keeps what it compiled on disk: beside the byte code of the module, or in the user's own
cache folder where that one cannot be written (``NUMBA_CACHE_DIR`` names another). Only the first
use on a machine waits for the compiler, some seconds; data too small to earn that wait back
within a fit stay with NumPy, which gives the same answers.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache, partial
from types import ModuleType


def compiled(function: Callable) -> Callable:
    """Machine code that releases the interpreter lock; kept on disk where that is possible."""
    import numba

    njit = partial(numba.njit, nogil=True, error_model="numpy", fastmath={"contract"})
    try:
        return njit(function, cache=True)
    except RuntimeError:  # no folder to keep it in
        return njit(function)


@cache
def kernels(name: str) -> ModuleType | None:
    """The module of compiled kernels of that name, or None where nothing may be compiled."""
    try:
        import numba
    except ImportError:
        return None
    # Kernels that call BLAS hand it integers of 64 bits whose first 32 are all it may read.
    if getattr(numba.config, "DISABLE_JIT", False) or sys.byteorder != "little":
        return None
    return importlib.import_module(f"spdelaw.model.{name}")
