"""What the data cannot tell: parameters without information, and pairs that trade off."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.infer._layout import Layout
from spdelaw.infer._problem import Solution
from spdelaw.model import CoupledParameters

Array = np.ndarray

#: Standard error of a logarithm from which on the number counts as unknown (a factor of 20).
UNKNOWN = 1.5
#: Coordinates of matrices: their correlations say nothing about the matrices themselves.
ENTRIES = ("drift_", "noise_root", "noise_factor", "initial_root")
#: Noise variance, relative to the largest, that is rounding of the other modes.
ROUNDING = 1e-22
#: Decay within a step from which on all modes count as too fast, and where something is unknown.
FAST, FAST_AND_UNKNOWN = 5.0, 2.0
#: Correlation from which on two estimates count as one.
INSEPARABLE = 0.98


class Report(NamedTuple):
    """Parameters the data do not determine, pairs they cannot separate, modes without energy."""

    undetermined: list[str]
    inseparable: list[list[str]]
    silent: list[int]

    @property
    def sentences(self) -> list[str]:
        """The report in plain words."""
        out = []
        if self.undetermined:
            out.append(
                f"the data do not determine {_join(self.undetermined)}: their intervals span a "
                "factor of 20 or more"
            )
        for a, b in self.inseparable[:5]:
            out.append(f"the data cannot separate {a} from {b}")
        if self.silent:
            out.append(
                f"no energy beyond rounding in modes {_join([str(n) for n in self.silent])}: their "
                "numbers mean nothing; fit fewer modes"
            )
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain lists."""
        return self._asdict()


def identifiability(layout: Layout, solution: Solution) -> Report:
    """Read the covariance of the coordinates; nuisance parameters are not reported."""
    covariance = solution.covariance
    stderr = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    names, is_log = layout.names, layout.is_log
    shown = [
        i for i, name in enumerate(names)
        if stderr[i] > 0 and not name.startswith(("nuisance", "initial_mean", *ENTRIES))
    ]  # fmt: skip
    undetermined = [names[i] for i in shown if is_log[i] and stderr[i] > UNKNOWN]
    known = [i for i in shown if names[i] not in undetermined]
    pairs = [
        [names[i], names[j]]
        for k, i in enumerate(known)
        for j in known[k + 1 :]
        if abs(covariance[i, j]) > INSEPARABLE * stderr[i] * stderr[j]
    ]
    found = solution.parameters
    q = (
        np.diag(found.noise_covariance)
        if isinstance(found, CoupledParameters)
        else found.noise_variance
    )
    silent = [int(n) + 1 for n in np.flatnonzero(q <= ROUNDING * q.max())]
    return Report(undetermined, pairs, silent)


def _join(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def time_unit_hint(
    eigenvalues: Array, dt: float, span: float, some_unknown: bool = False
) -> str | None:
    """A hint where every mode is much faster than a step or much slower than the record."""
    # White noise has a lag-one correlation of 1 / sqrt(n) by chance, which looks like a decay
    # of log(n) / 2 a step: where intervals are wide open, less is enough.
    if (eigenvalues * dt > (FAST_AND_UNKNOWN if some_unknown else FAST)).all():
        return (
            f"all modes decay within one time step ({dt:g}): the eigenvalues are lower bounds; "
            "check the unit of time, or observe more often"
        )
    if (eigenvalues * span < 1e-3).all():
        return (
            f"no mode decays noticeably within the record ({span:g}): check the unit of time, or "
            "observe longer"
        )
    return None
