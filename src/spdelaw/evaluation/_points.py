"""Does every point have the same noise? What the modes leave over, point by point.

In a row with the modes ``Phi`` at its n points, ``y - Phi c_hat = (1 - H) e`` with H the projection
on the modes, so that the square at point i has the mean ``r (1 - H_ii)``. Sums over rows, relative
to their mean over points, follow F with as many degrees of freedom as rows; the smallest p-value,
times the number of points, is that of all together.
"""

from __future__ import annotations

import numpy as np
import scipy

from spdelaw.data import Observed
from spdelaw.evaluation._departures import Departure
from spdelaw.law import Law, modes_at, weights_of

Array = np.ndarray

#: Rows that are looked at, spread over the data, and fewest of them at a point.
MOST_ROWS, FEWEST = 2000, 20


def point_noise(law: Law, own: Observed, n_series: int) -> Departure | None:
    """Departure of the noise of single points from that of all; None where there is nothing left.

    Unresolved modes are larger at some points than at others, and are no noise: with them the test
    says nothing.
    """
    noisy = law.observation_variance.ndim == 0 and float(law.observation_variance) > 0
    if not noisy or law.unresolved_variance > 0 or weights_of(law, own) is not None:
        return None
    squares, freedom = _left_over(own, modes_at(law, own.places))
    seen = freedom >= FEWEST
    if seen.sum() < 2:
        return None
    ratio = squares[seen] / freedom[seen]
    whole, total = squares[seen].sum() / freedom[seen].sum(), freedom[seen].sum()
    f = ratio / whole
    tails = [g(freedom[seen], total, f) for g in (scipy.special.fdtr, scipy.special.fdtrc)]
    p = min(1.0, 2.0 * float(np.min(tails)) * int(seen.sum()))
    # Gain of a variance of each point's own over one of all.
    gain = 0.5 * float(freedom[seen] @ -np.log(f)) - 0.5 * int(seen.sum())
    nothing, most = np.full(n_series, np.nan), float(f.max())
    return Departure("point noise", nothing, p, max(gain, 0.0), most, float(seen.sum()))


def _left_over(own: Observed, basis: Array) -> tuple[Array, Array]:
    """Sums of squares outside the modes, and of ``1 - H_ii``, at each point; (M,)."""
    rows = own.values.reshape(-1, own.values.shape[-1])
    rows = np.asarray(rows[:: max(1, len(rows) // MOST_ROWS)])
    n_modes = basis.shape[1]
    squares, freedom = np.zeros((2, rows.shape[1]))
    known: dict[bytes, Array] = {}
    for row in rows:
        there = np.isfinite(row)
        if there.sum() <= n_modes:
            continue
        key = there.tobytes()
        if key not in known:
            known[key] = np.linalg.qr(basis[there])[0]
        q, y = known[key], row[there]
        squares[there] += (y - q @ (q.T @ y)) ** 2
        freedom[there] += 1.0 - (q**2).sum(1)
    return squares, freedom
