"""Peak memory of a piece of work in this process."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

#: Linux: writing 5 here sets the high-water mark back to the present size.
_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class Peak:
    """Bytes at most, once the work is done; ``own`` where they are of that work alone."""

    value: float = float("nan")
    own: bool = False


@contextlib.contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure the largest resident size of the process while the block runs.

    Where the system cannot set its mark back, the result is the largest size so far.

    Example:
        >>> with peak_memory() as peak:
        ...     _ = bytearray(10**6)
        >>> peak.value > 1e6
        True
    """
    peak = Peak()
    peak.own = _reset()
    try:
        yield peak
    finally:
        peak.value = _high_water() if peak.own else _largest_so_far()


def _reset() -> bool:
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return _STATUS.exists()


def _high_water() -> float:
    line = next(row for row in _STATUS.read_text().splitlines() if row.startswith("VmHWM:"))
    return 1024.0 * float(line.split()[1])


def _largest_so_far() -> float:
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
