"""Log-likelihood and score of complete, noisy fields against dynamax.

Run it with ``python -m benchmarks.bench_complete_noisy`` where dynamax 1.0 is installed. Both
sides see observations collapsed onto the modes: eight numbers a path and time instead of 101.
dynamax gets them with their covariance as an 8-dimensional emission, all paths by `vmap` in one
compiled function, and may use every core; this package uses one thread. Collapse and rotation
(paths mixed orthogonally to as many as there are times, which leaves all sums as they are) are done
once a data set, before any evaluation; a second ratio includes them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from benchmarks._problem import Observations, observations
from benchmarks._timing import MISSED, interleaved_medians, table, versions, write_results

import numpy as np  # isort: skip

try:
    import jax
    import jax.numpy as jnp
    from dynamax.linear_gaussian_ssm import (
        ParamsLGSSM,
        ParamsLGSSMDynamics,
        ParamsLGSSMEmissions,
        ParamsLGSSMInitial,
        lgssm_filter,
    )
except ImportError:
    print("not run: this comparison needs dynamax (pip install 'dynamax==1.0.*' jax jaxlib)")
    sys.exit(2)

import spdelaw as sl  # isort: skip
from spdelaw.statespace.collapse import Block, collapse, rotate

from spdelaw.statespace.likelihood import evaluate_likelihood  # isort: skip

N_PATHS, REPEATS, TARGET, TOLERANCE = 700, 15, 3.0, 1e-8
COMMAND = "python -m benchmarks.bench_complete_noisy"
OURS, WITH = "evaluate_likelihood", "the same, collapse and rotation"
THEIRS = "dynamax value_and_grad"
#: dynamax adds 1e-9 to covariances before it inverts them; in these units that is nothing.
UNIT = 1e5


def main() -> int:
    """Time all, print and write the ratios; `MISSED` where a target is missed."""
    jax.config.update("jax_enable_x64", True)
    o = observations(N_PATHS)
    collapsed = collapse(o.values, o.times, o.eigenfunctions)
    theirs = _dynamax(collapsed.blocks[0], o)
    rotated = rotate(collapsed)

    def ours(data=rotated) -> tuple[float, np.ndarray]:
        e = evaluate_likelihood(data, o.parameters)
        score = (
            e.by_drift, e.by_noise, e.by_initial_mean, e.by_initial_covariance,
            [e.by_observation_variance],
        )  # fmt: skip
        return float(e.log_likelihood.sum()), np.concatenate(score)

    difference = _difference(ours(), theirs())
    tasks = {
        OURS: ours,
        WITH: lambda: ours(rotate(collapse(o.values, o.times, o.eigenfunctions))),
        THEIRS: theirs,
    }
    seconds = interleaved_medians(tasks, REPEATS, time.process_time, [OURS, WITH])
    document = {
        "command": COMMAND,
        "size": {"paths": N_PATHS, "times": len(o.times), "modes": o.parameters.n_modes},
        "threads": {"spdelaw": 1, "jax": "all cores"},
        "repeats": REPEATS,
        "seconds": seconds,
        "ratio": seconds[THEIRS]["median"] / seconds[OURS]["median"],
        "ratio_with_collapse": seconds[THEIRS]["median"] / seconds[WITH]["median"],
        "target": TARGET,
        "difference": difference,
        "tolerance": TOLERANCE,
        "versions": {"spdelaw": sl.__version__, **versions("numpy", "dynamax", "jax", "jaxlib")},
    }
    text = _markdown(document)
    write_results("complete_noisy", document, text)
    print(text)
    met = document["ratio"] >= TARGET and max(difference.values()) <= TOLERANCE
    return 0 if met else MISSED


def _dynamax(block: Block, o: Observations) -> Callable[[], tuple[float, np.ndarray]]:
    """Compiled value and gradient by (lambda, q, m0, v0, r), all paths summed."""
    gram = block.gram[0, :, 0]  # the grid leaves the modes uncoupled: G is diagonal
    dt = o.times[1] - o.times[0]
    n_paths, n_times, n_modes = len(block.paths), len(o.times), len(gram)
    estimates = jnp.asarray(UNIT * block.estimate.transpose(2, 0, 1))
    # Noise outside the modes, which no emission shows, and the two changes of variables.
    outside = float(block.n_values.sum()) - n_paths * n_times * n_modes
    misfit = float(block.misfit.sum())
    constant = n_paths * n_times * (n_modes * np.log(UNIT) - 0.5 * np.log(gram).sum())

    def value(lam, q, m0, v0, r):
        zero, none = jnp.zeros(n_modes), jnp.zeros((n_modes, 0))
        noise = UNIT**2 * q * -jnp.expm1(-2 * lam * dt) / (2 * lam)
        params = ParamsLGSSM(
            ParamsLGSSMInitial(UNIT * m0, jnp.diag(UNIT**2 * v0)),
            ParamsLGSSMDynamics(jnp.diag(jnp.exp(-lam * dt)), zero, none, jnp.diag(noise)),
            ParamsLGSSMEmissions(jnp.eye(n_modes), zero, none, jnp.diag(UNIT**2 * r[0] / gram)),
        )
        inside = jax.vmap(lambda y: lgssm_filter(params, y).marginal_loglik)(estimates).sum()
        left = -0.5 * (outside * jnp.log(2 * jnp.pi * r[0]) + misfit / r[0])
        return inside + left + constant

    compiled = jax.jit(jax.value_and_grad(value, argnums=tuple(range(5))))
    p = o.parameters
    at = [
        jnp.asarray(x)
        for x in (
            p.linear.drift, p.linear.noise, p.initial.mean, p.initial.covariance,
            p.observation_variance[None],
        )
    ]  # fmt: skip

    def run() -> tuple[float, np.ndarray]:
        total, score = jax.block_until_ready(compiled(*at))
        return float(total), np.concatenate(score)

    return run


def _difference(ours: tuple, theirs: tuple) -> dict[str, float]:
    """Relative difference of the values, and the largest one among the scores."""
    return {
        "log_likelihood": abs(ours[0] / theirs[0] - 1.0),
        "score": float(np.max(np.abs(ours[1] - theirs[1]) / np.abs(theirs[1]))),
    }


def _markdown(d: dict) -> str:
    size = ", ".join(f"{n} {what}" for what, n in d["size"].items())
    rows = [
        [name, *(f"{1e3 * s[k]:.1f}" for k in ("median", "min", "max"))]
        for name, s in d["seconds"].items()
    ]
    return "\n".join(
        [
            "# Log-likelihood and score, complete and noisy, against dynamax",
            "",
            f"`evaluate_likelihood` is **{d['ratio']:.1f} times** as fast as dynamax's compiled "
            f"`value_and_grad` (target: at least {d['target']:g}). With collapse and rotation, "
            f"done once a data set, in every evaluation: {d['ratio_with_collapse']:.1f} times.",
            "",
            f"Relative difference of the log-likelihoods {d['difference']['log_likelihood']:.1e}, "
            f"largest of the scores {d['difference']['score']:.1e} (limit {d['tolerance']:g}).",
            "",
            f"Stochastic heat equation on 101 points with noise: {size}; dynamax sees the "
            "collapsed emissions.",
            "",
            table(["", "median [ms]", "min [ms]", "max [ms]"], rows),
            "",
            f"Command: `{d['command']}`. One thread here, as many as it likes for JAX, "
            f"time of all of them together, {d['repeats']} interleaved repeats after compilation; "
            "the ratio is that of the medians and carries over between machines, the times do not.",
            f"Versions: {', '.join(f'{k} {v}' for k, v in d['versions'].items())}.",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
