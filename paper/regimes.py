"""The paper's two regimes, and the numbers it prints for them (its Tables 2 and 3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import spdelaw as sl

#: Equation and title of each regime.
EQUATIONS: dict[str, Callable[[int], sl.SpectralSPDE]] = {
    "a": sl.catalogue.ornstein_uhlenbeck,
    "b": sl.catalogue.heat,
}
TITLES = {
    "a": "Regime A, Ornstein-Uhlenbeck equation on the line",
    "b": "Regime B, stochastic heat equation",
}


class Published(NamedTuple):
    """A row of the paper: number of parameters, and mean and spread of both errors."""

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


@dataclasses.dataclass(frozen=True)
class Regime:
    """One regime of the paper (section 3) as the demonstration uses it.

    Attributes:
        letter: "A" or "B".
        make: builds the equation with a given number of modes.
        n_modes: number of modes in the demonstration.
        baseline: name of the paper's best baseline.
        published: row of that baseline in the paper's tables.
    """

    letter: str
    make: Callable[[int], sl.SpectralSPDE]
    n_modes: int
    baseline: str
    published: Published

    @property
    def equation(self) -> sl.SpectralSPDE:
        """The equation with this regime's modes."""
        return self.make(self.n_modes)


REGIMES = (
    # Eight modes on the line: its uniform grid cannot separate more (condition number 2e17
    # for 50), so nothing could be compared mode by mode.
    Regime("A", EQUATIONS["a"], 8, "SV&NN", PAPER["a"]["sv-nn"]),
    Regime("B", EQUATIONS["b"], 50, "DeepONet", PAPER["b"]["deeponet"]),
)
