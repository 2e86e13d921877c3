"""Likelihood with score of one long gappy record, against the filters of other packages.

Run it with ``python -m benchmarks.bench_filters``; dynamax and cuthbert are timed where they are
installed (``pip install dynamax cuthbert``) and said to be missing where not. One path of 3000 maps
of 40 x 40 points, 40 % missing, 30 modes. All see the same collapsed rows, ``H_t = L_t'`` and
``y_t = L_t^-1 b_t`` with ``G_t = L_t L_t'``, so none has to look at points, and each computes the
gradient by drift, noise and observation variance: ours by Fisher's identity, theirs by
``jax.value_and_grad`` after compilation. cuthbert runs as a sequential scan (in parallel in time
its gradient did not compile within minutes). cd-dynamax 0.5 has no emission matrices that change
in time; it is compared with ours in `benchmarks.bench_missing`.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks._timing import MISSED, interleaved_medians, table, versions, write_if_whole

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip
from benchmarks._problem import SQUARE, long_record, stationary_law  # isort: skip
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import Collapsed, collapse

from spdelaw.statespace.likelihood import evaluate_likelihood  # isort: skip

COMMAND = "python -m benchmarks.bench_filters"
N_MODES, REPEATS, TOLERANCE, STEP = 30, 5, 1e-7, 30.0 / 2999
OURS = "evaluate_likelihood"
Gradient = Callable[[], tuple[float, np.ndarray]]


def main() -> int:
    """Time all that is installed, print and write the ratios; `MISSED` where scores differ."""
    values, times, points, equation = long_record(N_MODES)
    phi, products = SQUARE.eigenfunctions(points, N_MODES), SQUARE.products(points, N_MODES)
    law, rows = stationary_law(equation), collapse(values, times, phi, None, products)
    tasks: dict[str, Gradient] = {OURS: lambda: _ours(rows, law)}
    expected = tasks[OURS]()[1]
    missing, difference = [], {}
    for name, make in RIVALS.items():
        if importlib.util.find_spec(name) is None:
            print(f"{name}: not installed, left out (pip install {name})")
            missing.append(name)
            continue
        tasks[name] = make(rows, law)
        gap = np.abs(tasks[name]()[1] - expected).max() / np.abs(expected).max()
        difference[name] = float(gap)
        print(f"{name}: compiled, scores differ by {gap:.1e}", flush=True)
    seconds = interleaved_medians(tasks, REPEATS, time.process_time, [OURS])
    document = {
        "command": COMMAND, "repeats": REPEATS, "seconds": seconds, "difference": difference,
        "missing": missing, "tolerance": TOLERANCE,
        "ratios": {n: seconds[n]["median"] / seconds[OURS]["median"] for n in difference},
        "versions": {"spdelaw": sl.__version__, **versions("numpy", "numba", *_packages(tasks))},
    }  # fmt: skip
    text = _markdown(document)
    write_if_whole("filters", document, text, missing)
    print(text)
    return 0 if all(value <= TOLERANCE for value in difference.values()) else MISSED


def _packages(tasks: dict[str, Gradient]) -> list[str]:
    names = [name for name in tasks if name != OURS]
    return [*names, *(["jax"] if names else [])]


def _ours(collapsed: Collapsed, law: StateSpace) -> tuple[float, np.ndarray]:
    found = evaluate_likelihood(collapsed, law)
    by = (found.by_drift, found.by_noise, [found.by_observation_variance])
    return float(found.log_likelihood.sum()), np.concatenate(by)


def _rows(collapsed: Collapsed, law: StateSpace) -> tuple[Any, ...]:
    """Emission matrices (T, N, N) and emissions (T, N), drift and noise and r as one vector."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    block = collapsed.blocks[0]
    gram, vector = block.gram[..., 0], block.vector[..., 0]
    lower = np.linalg.cholesky(gram)
    y = np.linalg.solve(lower, vector[..., None])[..., 0]
    numbers = np.concatenate([law.linear.drift, law.linear.noise, [law.observation_variance]])
    return jnp.asarray(np.swapaxes(lower, 1, 2)), jnp.asarray(y), jnp.asarray(numbers)


def _outside(collapsed: Collapsed, r: Any) -> Any:
    """What values outside the modes add: it depends on r alone."""
    import jax.numpy as jnp

    block = collapsed.blocks[0]
    gram, estimate = block.gram[..., 0], block.estimate[..., 0]
    inside = np.einsum("ti,tij,tj->", estimate, gram, estimate)
    y = np.linalg.solve(np.linalg.cholesky(gram), block.vector[..., 0][..., None])
    left = float(block.misfit[0]) + float(inside - (y**2).sum())
    more = float(block.n_values[0]) - block.vector[..., 0].size
    return -0.5 * (more * jnp.log(2 * jnp.pi * r) + left / r)


def _compiled(function: Callable, at: Any) -> Gradient:
    import jax

    both = jax.jit(jax.value_and_grad(function))

    def run() -> tuple[float, np.ndarray]:
        value, slope = jax.block_until_ready(both(at))
        return float(value), np.asarray(slope)

    return run


def _step(numbers: Any) -> tuple[Any, Any, Any]:
    """``F`` and ``Omega`` of one step, and r."""
    import jax.numpy as jnp

    lam, q, r = numbers[:N_MODES], numbers[N_MODES:-1], numbers[-1]
    return jnp.exp(-lam * STEP), -q * jnp.expm1(-2 * lam * STEP) / (2 * lam), r


def _dynamax(collapsed: Collapsed, law: StateSpace) -> Gradient:
    import jax.numpy as jnp
    from dynamax.linear_gaussian_ssm import (
        ParamsLGSSM,
        ParamsLGSSMDynamics,
        ParamsLGSSMEmissions,
        ParamsLGSSMInitial,
        lgssm_filter,
    )

    h, y, numbers = _rows(collapsed, law)
    none = jnp.zeros((N_MODES, 0))
    spread = jnp.diag(jnp.asarray(law.initial.covariance))

    def value(x: Any) -> Any:
        f, omega, r = _step(x)
        params = ParamsLGSSM(
            ParamsLGSSMInitial(jnp.asarray(law.initial.mean), spread),
            ParamsLGSSMDynamics(jnp.diag(f), jnp.zeros(N_MODES), none, jnp.diag(omega)),
            ParamsLGSSMEmissions(h, jnp.zeros(N_MODES), none, r * jnp.eye(N_MODES)),
        )
        return lgssm_filter(params, y).marginal_loglik + _outside(collapsed, r)

    return _compiled(value, numbers)


def _cuthbert(collapsed: Collapsed, law: StateSpace) -> Gradient:
    import jax.numpy as jnp
    from cuthbert import filter as run_filter
    from cuthbert.gaussian import kalman

    h, y, numbers = _rows(collapsed, law)
    root = jnp.diag(jnp.sqrt(jnp.asarray(law.initial.covariance)))
    none, eye, mean = jnp.zeros(N_MODES), jnp.eye(N_MODES), jnp.asarray(law.initial.mean)

    start = jnp.zeros(len(y)).at[0].set(1.0)

    def value(x: Any) -> Any:
        f, omega, r = _step(x)

        def dynamics(row: Any) -> Any:  # the first row sees the initial state itself
            first = row[2]
            noise = first * root + (1.0 - first) * jnp.diag(jnp.sqrt(omega))
            return (1.0 - first) * jnp.diag(f), first * mean, noise

        def observation(row: Any) -> Any:
            return row[0], none, jnp.sqrt(r) * eye, row[1]

        own = kalman.build_filter(mean, root, dynamics, observation)
        states = run_filter(own, (h, y, start), own.init_prepare())
        return states.log_normalizing_constant[-1] + _outside(collapsed, r)

    return _compiled(value, numbers)


RIVALS: dict[str, Callable[[Collapsed, StateSpace], Gradient]] = {
    "dynamax": _dynamax,
    "cuthbert": _cuthbert,
}


def _markdown(d: dict[str, Any]) -> str:
    rows = [
        [name, *(f"{1e3 * s[k]:.0f}" for k in ("median", "min", "max")),
         f"{d['ratios'][name]:.1f}" if name in d["ratios"] else "",
         f"{d['difference'][name]:.1e}" if name in d["difference"] else ""]
        for name, s in d["seconds"].items()
    ]  # fmt: skip
    absent = f" Not installed, not timed: {', '.join(d['missing'])}." if d["missing"] else ""
    return "\n".join(
        [
            "# Likelihood with score of one long gappy record, against other filters",
            "",
            "One path of 3000 maps of 40 x 40 points, 40 % missing, 30 modes; every package sees "
            "the same collapsed rows of 30 numbers. The difference is that of the scores, "
            f"relative to the largest; limit {d['tolerance']:g}.",
            "",
            table(["", "median [ms]", "min", "max", "ratio", "difference"], rows),
            "",
            f"Command: `{d['command']}`. {d['repeats']} interleaved repeats after compilation, "
            "time of all threads of a package together, so that more of them gain nothing; one "
            "here." + absent,
            f"Versions: {', '.join(f'{k} {v}' for k, v in d['versions'].items())}.",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
