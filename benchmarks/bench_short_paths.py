"""Likelihood with score of 60 short gappy paths, against dynamax.

Run it with ``python -m benchmarks.bench_short_paths`` where dynamax is installed (``pip install
dynamax``). Paths of 41 times at 101 points, 30 % missing, noise, 8 modes. Both see the same
collapsed rows, ``H_t = L_t'`` and ``y_t = L_t^-1 b_t`` with ``G_t = L_t L_t'``, and compute the
gradient by drift, noise and observation variance: ours by Fisher's identity, dynamax's filter under
``jax.vmap`` by ``jax.value_and_grad`` after compilation.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable

from benchmarks._problem import observations, parameters
from benchmarks._timing import interleaved_medians, table, versions, write_results

import numpy as np  # isort: skip

from spdelaw.statespace.chain import StateSpace  # isort: skip
from spdelaw.statespace.collapse import Collapsed, collapse
from spdelaw.statespace.likelihood import evaluate_likelihood

COMMAND = "python -m benchmarks.bench_short_paths"
N_PATHS, N_TIMES, N_POINTS, N_MODES, MISSING, REPEATS = 60, 41, 101, 8, 0.3, 15
OURS, WANTED, TOLERANCE = "evaluate_likelihood", 8.0, 1e-7


def main() -> int:
    """Time both, compare the scores, write the ratio."""
    if importlib.util.find_spec("dynamax") is None:
        print("dynamax is not installed: pip install dynamax")
        return 1
    data, law = observations(N_PATHS, N_TIMES, N_POINTS, N_MODES, MISSING), parameters(N_MODES)
    rows = collapse(data.values, data.times, data.eigenfunctions)
    step = float(data.times[1] - data.times[0])
    tasks = {OURS: lambda: _ours(rows, law), "dynamax": _dynamax(rows, law, step)}
    expected, other = (task() for task in tasks.values())
    gap = float(np.abs(expected - other)[: 2 * N_MODES].max() / np.abs(expected).max())
    seconds = interleaved_medians(tasks, REPEATS, time.process_time, [OURS])
    ratio = seconds["dynamax"]["median"] / seconds[OURS]["median"]
    document = {
        "command": COMMAND, "seconds": seconds, "difference": gap, "ratio": ratio,
        "versions": versions("numpy", "numba", "jax", "dynamax"),
    }  # fmt: skip
    cells = [[name, *(f"{1e3 * one[k]:.2f}" for k in ("median", "min", "max"))]
             for name, one in seconds.items()]  # fmt: skip
    text = (
        f"`{COMMAND}`: 60 paths of 41 times at 101 points, 30 % missing, 8 modes; ms of CPU time. "
        f"dynamax takes {ratio:.1f} times as long (wanted: at least {WANTED:g}); scores by drift "
        f"and noise differ by {gap:.1e} of the largest.\n\n"
        + table(["likelihood and score", "median", "min", "max"], cells)
        + "\n"
    )
    write_results("short_paths", document, text)
    print(text)
    return 0 if ratio >= WANTED and gap <= TOLERANCE else 1


def _ours(rows: Collapsed, law: StateSpace) -> np.ndarray:
    evaluation = evaluate_likelihood(rows, law)
    by = (evaluation.by_drift, evaluation.by_noise, [evaluation.by_observation_variance])
    return np.concatenate(by)


def _dynamax(rows: Collapsed, law: StateSpace, step: float) -> Callable[[], np.ndarray]:
    import jax
    import jax.numpy as jnp
    from dynamax.linear_gaussian_ssm import (
        ParamsLGSSM,
        ParamsLGSSMDynamics,
        ParamsLGSSMEmissions,
        ParamsLGSSMInitial,
        lgssm_filter,
    )

    jax.config.update("jax_enable_x64", True)
    gram, vector = (
        np.concatenate([np.moveaxis(getattr(block, name), -1, 0) for block in rows.blocks])
        for name in ("gram", "vector")
    )
    lower = np.linalg.cholesky(gram)
    emissions = jnp.asarray(np.linalg.solve(lower, vector[..., None])[..., 0])
    matrices, n = jnp.asarray(np.swapaxes(lower, -1, -2)), N_MODES
    numbers = np.concatenate([law.linear.drift, law.linear.noise, [law.observation_variance]])
    start = ParamsLGSSMInitial(
        jnp.asarray(law.initial.mean), jnp.diag(jnp.asarray(law.initial.covariance))
    )
    none, zero = jnp.zeros((n, 0)), jnp.zeros(n)

    def value(x: jnp.ndarray) -> jnp.ndarray:
        lam, q, r = x[:n], x[n:-1], x[-1]
        noise = jnp.diag(-q * jnp.expm1(-2 * lam * step) / (2 * lam))
        dynamics = ParamsLGSSMDynamics(jnp.diag(jnp.exp(-lam * step)), zero, none, noise)

        def one(h: jnp.ndarray, y: jnp.ndarray) -> jnp.ndarray:
            emission = ParamsLGSSMEmissions(h, zero, none, r * jnp.eye(n))
            return lgssm_filter(ParamsLGSSM(start, dynamics, emission), y).marginal_loglik

        return jax.vmap(one)(matrices, emissions).sum()

    both, at = jax.jit(jax.value_and_grad(value)), jnp.asarray(numbers)
    return lambda: np.asarray(jax.block_until_ready(both(at))[1])


if __name__ == "__main__":
    raise SystemExit(main())
