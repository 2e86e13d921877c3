"""The paper's two regimes: equation, modes that a demonstration can tell apart, best baseline."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from spdelaw.equation import SpectralSPDE
from spdelaw.equation.catalogue import heat, ornstein_uhlenbeck
from spdelaw.paper.published import PAPER, Published


@dataclasses.dataclass(frozen=True)
class Regime:
    """One regime of the paper (section 3) and its best baseline there.

    Attributes:
        letter: "A" or "B".
        make: the equation with so many modes.
        n_modes: of the demonstration.
        baseline: name of the best baseline.
        published: its row in the paper's tables.
    """

    letter: str
    make: Callable[[int], SpectralSPDE]
    n_modes: int
    baseline: str
    published: Published

    @property
    def equation(self) -> SpectralSPDE:
        """The equation with this regime's modes."""
        return self.make(self.n_modes)


REGIMES = (
    # Eight modes on the line: on its uniform grid more cannot be told apart (condition 2e17
    # for 50), so nothing could be compared mode by mode.
    Regime("A", ornstein_uhlenbeck, 8, "SV&NN", PAPER["a"]["sv-nn"]),
    Regime("B", heat, 50, "DeepONet", PAPER["b"]["deeponet"]),
)
