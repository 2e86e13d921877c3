"""Numbers printed in the paper (its Tables 2 and 3)."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """A row: number of parameters, and mean and spread of both errors."""

    parameters: int
    relative_l2: tuple[float, float]
    rmse: tuple[float, float]


PAPER: dict[str, dict[str, Published]] = {
    "a": {
        "sv-nn": Published(1_408, (0.2276, 0.0007), (0.7885, 0.0009)),
        "ours": Published(600_864, (0.0779, 0.0031), (0.2615, 0.0110)),
    },
    "b": {
        "deeponet": Published(11_292_672, (0.4726, 0.0015), (0.3226, 0.0021)),
        "fno": Published(4_929_249, (0.4783, 0.0013), (0.3299, 0.0014)),
        "nspde": Published(3_283_457, (0.4764, 0.0005), (0.3275, 0.0004)),
        "dlr-net": Published(133_178, (0.4748, 0.0010), (0.3255, 0.0014)),
        "ours": Published(550_077, (0.1114, 0.0018), (0.0679, 0.0012)),
    },
}
