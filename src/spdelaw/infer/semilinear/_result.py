"""What a fit of a semilinear law returns."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from spdelaw.infer.semilinear._layout import Layout

Array = np.ndarray


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SemilinearFit:
    """Estimate of a semilinear law with its uncertainty.

    Attributes:
        layout: names and order of the parameters.
        x: free vector at the maximum.
        covariance: of the free vector, by the observed information; (n_free, n_free).
        sandwich: of the free vector, robust against a wrong model; (n_free, n_free).
        log_likelihood: at the estimate.
        n_values: how many numbers it is the log density of.
        scores: of each transition, or of each path behind gaps and noise, (n, n_free).
        groups: path of each score, (n,).
        diagnostics: ``n_steps`` (sub-steps of the closure), ``step_shift`` (what twice as many
            would change, in standard errors), ``rate_dt``, ``converged`` and more.
    """

    layout: Layout
    x: Array
    covariance: Array
    sandwich: Array
    log_likelihood: float
    n_values: int
    scores: Array
    groups: Array
    diagnostics: dict[str, Any]

    @property
    def values(self) -> dict[str, float]:
        """Every parameter by name, held ones included."""
        return self.layout.values(self.x)

    @property
    def standard_errors(self) -> dict[str, float]:
        """Of each free parameter in its own units, by the observed information."""
        return self._errors(self.covariance)

    @property
    def robust_errors(self) -> dict[str, float]:
        """The same by the sandwich."""
        return self._errors(self.sandwich)

    def _errors(self, covariance: Array) -> dict[str, float]:
        spread = np.sqrt(np.maximum(np.diag(covariance), 0.0)) * self.layout.units(self.x)
        return dict(zip(self.layout.free_names, map(float, spread), strict=True))

    def __repr__(self) -> str:
        """One line per parameter."""
        errors = self.standard_errors
        lines = [f"SemilinearFit: log-likelihood {self.log_likelihood:.2f}"]
        for name, value in self.values.items():
            error = f"+- {errors[name]:.3g}" if name in errors else "held"
            lines.append(f"  {name:<10} {value:>10.4g} {error}")
        return "\n".join(lines)
