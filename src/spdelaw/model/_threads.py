"""Linear algebra in one thread, for work that comes in many small pieces.

NumPy and SciPy each bring a BLAS with threads of its own. Where a computation goes to and fro
between the two, the idle threads of the one wait in a busy loop and take the cores from the other:
on two cores the same numbers took 10 to 25 times as long as in one thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function with one thread of linear algebra; the old number is back afterwards."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with _libraries().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return run


@functools.cache
def _libraries() -> Any:
    """The BLAS of NumPy and of SciPy, both loaded by then."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()
