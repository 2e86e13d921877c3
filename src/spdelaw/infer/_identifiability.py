"""What the data cannot tell: parameters without information, and pairs that trade off."""

from __future__ import annotations

import numpy as np

from spdelaw.equation import operators
from spdelaw.infer._estimate import Estimate

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


def in_words(found: dict[str, list]) -> list[str]:
    """What `identifiability` found, in plain words."""
    out = []
    if found["undetermined"]:
        out.append(
            f"the data do not determine {_join(_by_name(found['undetermined']))}: their intervals "
            "span a factor of 20 or more"
        )
    out += [f"the data cannot separate {a} from {b}" for a, b in found["inseparable"][:5]]
    if found["silent"]:
        out.append(
            f"no energy beyond rounding in modes {_join([str(n) for n in found['silent']])}: their "
            "numbers mean nothing; fit fewer modes"
        )
    return out


def identifiability(estimate: Estimate, n_modes: int) -> dict[str, list]:
    """Parameters the data do not determine, pairs they cannot separate, modes without energy.

    Read from the covariance of the coordinates; nuisance parameters are not reported.
    """
    columns = estimate.columns
    stderr = np.sqrt((columns**2).sum(-1))
    names, is_log = estimate.parametrisation.names, estimate.parametrisation.is_log
    hidden = ("nuisance", "initial_mean", *ENTRIES)
    shown = [i for i in np.flatnonzero(stderr > 0) if not names[i].startswith(hidden)]
    undetermined = [names[i] for i in shown if is_log[i] and stderr[i] > UNKNOWN]
    known = [i for i in shown if names[i] not in undetermined]
    own, size = columns[known], stderr[known]
    close = np.abs(own @ own.T) > INSEPARABLE * np.outer(size, size)
    pairs = [[names[known[i]], names[known[j]]] for i, j in np.argwhere(np.triu(close, 1))]
    q = operators.diagonal(estimate.state_space.linear.noise)
    silent = [int(n) + 1 for n in np.flatnonzero(q <= ROUNDING * q.max())]
    more = undetermined_eigenmodes(estimate, n_modes)
    return {"undetermined": undetermined + more, "inseparable": pairs, "silent": silent}


def undetermined_eigenmodes(estimate: Estimate, n_modes: int) -> list[str]:
    """Eigenmodes of a drift matrix whose decay rate the data leave open by a factor of 20."""
    drift = operators.leading(estimate.state_space.linear.drift, n_modes)
    if operators.is_diagonal(drift):
        return []
    rates, error = _rates_with_errors(estimate, drift)
    open_ones = (error > UNKNOWN * np.abs(rates.real)) & (rates.imag >= 0)
    return [f"the eigenmode of decay rate {r:.3g}" for r in np.sort(rates.real[open_ones])]


def _rates_with_errors(estimate: Estimate, drift: Array) -> tuple[Array, Array]:
    """Eigenvalues of the leading drift and the errors of their real parts; (n,) each.

    ``d rate = left' dLambda right``, its slope by the coordinates times their columns.
    """
    rates, right = np.linalg.eig(drift)
    left, own, n = np.linalg.inv(right), estimate.parametrisation, len(rates)
    where, by = own.slices["drift"], np.zeros(estimate.state_space.linear.drift.shape)
    slopes = np.empty((n, where.stop - where.start))
    for k in range(n):
        by[:n, :n] = np.outer(left[k], right[:, k]).real
        slopes[k] = own.parts["drift"].pull_back(estimate.full[where], by)
    change = np.nan_to_num(slopes) @ estimate.columns[where]
    return rates, np.sqrt((change**2).sum(-1))


def _by_name(labels: list[str]) -> list[str]:
    """Labels such as ``eigenvalue[3]``, those of one name together: ``eigenvalue[1-3, 7]``."""
    modes: dict[str, list[int]] = {}
    out: list[str] = []
    for label in labels:
        name, _, number = label.removesuffix("]").partition("[")
        if number.isdigit():
            modes.setdefault(name, []).append(int(number))
        else:
            out.append(label)
    return [f"{name}[{', '.join(_ranges(own))}]" for name, own in modes.items()] + out


def _ranges(numbers: list[int]) -> list[str]:
    """Increasing numbers, neighbours as a range: 1, 2-4, 9."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return [str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True)]


def _join(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def time_unit_hint(rates: Array, dt: float, span: float, some_unknown: bool) -> str | None:
    """A hint where every mode is much faster than a step or much slower than the record."""
    # White noise has a lag-one correlation of 1 / sqrt(n) by chance, which looks like a decay
    # of log(n) / 2 per step: where intervals are wide open, less is enough.
    if (rates * dt > (FAST_AND_UNKNOWN if some_unknown else FAST)).all():
        return (
            f"all modes decay within one time step ({dt:g}): the eigenvalues are lower bounds; "
            "check the unit of time, or observe more often"
        )
    if (rates * span < 1e-3).all():
        return (
            f"no mode decays noticeably within the record ({span:g}): check the unit of time, or "
            "observe longer"
        )
    return None
