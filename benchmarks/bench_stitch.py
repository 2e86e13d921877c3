"""One long record in parts against one chain: CPU time of an evaluation, and how far they differ.

``python -m benchmarks.bench_stitch`` evaluates likelihood and score of a record with gaps here, as
one chain and in eight parts one after the other. The ratio is the work that stitching adds:
with more workers than that a record is faster in parts.
"""

from __future__ import annotations

import time

import dask.array as da
import numpy as np

import spdelaw as sl
from benchmarks._timing import versions
from spdelaw.data.executors import LocalExecutor, pieces_of
from spdelaw.processes.linear import Linear
from spdelaw.processes.specification import InitialState
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import collapse
from spdelaw.statespace.condense import collapse_pieces
from spdelaw.statespace.likelihood import evaluate_likelihood

N_TIMES, N_PARTS, REPEATS = 4000, 8, 3


def measured(n_modes: int) -> tuple[float, float]:
    """Ratio of CPU times, and relative difference of the log-likelihoods."""
    generator = np.random.default_rng(0)
    points, times = np.linspace(0.05, 3.1, 4 * n_modes), 0.1 * np.arange(N_TIMES)
    values = generator.standard_normal((1, N_TIMES, len(points)))
    values[generator.random(values.shape) < 0.3] = np.nan
    phi = sl.Interval(0, np.pi).eigenfunctions(points, n_modes)
    start = InitialState("gaussian", np.zeros(n_modes), np.ones(n_modes))
    linear = Linear(np.arange(1.0, n_modes + 1), np.ones(n_modes))
    space = StateSpace(linear, start, np.array(0.1))
    pieces = pieces_of(da.from_array(values, chunks=(1, N_TIMES // N_PARTS, -1)))
    both = (
        collapse(values, times, phi),
        collapse_pieces(pieces, times, phi, LocalExecutor(map, N_PARTS)),
    )
    found = [evaluate_likelihood(data, space).log_likelihood[0] for data in both]
    seconds = []
    for data in both:
        before = time.process_time()
        for _ in range(REPEATS):
            evaluate_likelihood(data, space)
        seconds.append(time.process_time() - before)
    return seconds[1] / seconds[0], abs(found[1] / found[0] - 1.0)


def main() -> None:
    print(versions())
    for n_modes in (4, 8, 16, 30):
        ratio, difference = measured(n_modes)
        print(
            f"{n_modes} modes: {ratio:.1f} times the work, likelihood differs by {difference:.0e}"
        )


if __name__ == "__main__":
    main()
