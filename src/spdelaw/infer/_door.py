"""The door of a fit: what numerical libraries raise inside leaves it as one clear error.

Their warnings about overflow stay inside: a search tries numbers that it then leaves again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from spdelaw.errors import ConvergenceError, SpdeLawError


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """Turn an overflow, a matrix that cannot be factorised and the like into `ConvergenceError`."""
    try:
        with np.errstate(all="ignore"):
            yield
    except SpdeLawError:
        raise
    except (ArithmeticError, ValueError) as error:  # LinAlgError is a ValueError
        raise ConvergenceError(
            "fit",
            expected="numbers that a likelihood can be computed from",
            got=f"{type(error).__name__} ({error})",
            fix="look at the scale of the data and the unit of time, fit fewer modes, or tie "
            "parameters (drift='parametric')",
        ) from error
