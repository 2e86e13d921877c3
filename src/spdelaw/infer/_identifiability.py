"""What the data cannot tell: parameters without information, and pairs that trade off."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.infer._layout import Layout
from spdelaw.infer._problem import Solution

Array = np.ndarray

#: Standard error of a logarithm from which on the number counts as unknown (a factor of 20).
UNKNOWN = 1.5
#: Correlation from which on two estimates count as one.
INSEPARABLE = 0.98


class Report(NamedTuple):
    """Names of parameters the data do not determine, and of pairs they cannot separate."""

    undetermined: list[str]
    inseparable: list[list[str]]

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
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain lists."""
        return {"undetermined": self.undetermined, "inseparable": self.inseparable}


def identifiability(layout: Layout, solution: Solution) -> Report:
    """Read the covariance of the coordinates; nuisance parameters are not reported."""
    covariance = solution.covariance
    stderr = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    names, is_log = layout.names, layout.is_log
    shown = [
        i for i, name in enumerate(names)
        if stderr[i] > 0 and not name.startswith(("nuisance", "initial_mean"))
    ]  # fmt: skip
    undetermined = [names[i] for i in shown if is_log[i] and stderr[i] > UNKNOWN]
    known = [i for i in shown if names[i] not in undetermined]
    pairs = [
        [names[i], names[j]]
        for k, i in enumerate(known)
        for j in known[k + 1 :]
        if abs(covariance[i, j]) > INSEPARABLE * stderr[i] * stderr[j]
    ]
    return Report(undetermined, pairs)


def _join(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def time_unit_hint(eigenvalues: Array, dt: float, span: float) -> str | None:
    """A hint where every mode is much faster than a step or much slower than the record."""
    if (eigenvalues * dt > 5.0).all():
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
