"""Log-likelihood and score of fields with gaps against likelihoods of other packages.

Run it with ``python -m benchmarks.bench_missing`` where statsmodels is installed. Each path has
gaps of its own. statsmodels computes the likelihood alone, without a score, by its univariate
filter with nothing stored; its collapsed filter is tried too and the faster one counts. It
works path by path, so a few paths are timed and scaled to all. cd-dynamax, where it is
installed, computes the likelihood alone by a compiled filter with a mask, solving its moment
equations numerically; one path is timed and scaled. Ours runs as machine code (extra ``fast``)
and, for comparison, in NumPy alone.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import unittest.mock
from collections.abc import Callable

from benchmarks._problem import Observations, observations
from benchmarks._timing import MISSED, interleaved_medians, table, versions, write_if_whole

import numpy as np  # isort: skip
from statsmodels.tsa.statespace import kalman_filter  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.processes.linear import transition  # isort: skip
from spdelaw.statespace import posterior as posterior_module
from spdelaw.statespace.collapse import Collapsed, collapse

from spdelaw.statespace.likelihood import evaluate_likelihood  # isort: skip

N_PATHS, MISSING, REPEATS, TARGET, TOLERANCE = 700, 0.3, 7, 20.0, 1e-8
SOME, FEW = 10, 1
COMMAND = "python -m benchmarks.bench_missing"
OURS, NUMPY = "evaluate_likelihood", "evaluate_likelihood, without numba"
COLLAPSE = "collapse, once a data set"
PLAIN, COLLAPSED = "statsmodels, univariate", "statsmodels, univariate and collapsed"
CD = "cd-dynamax"


def main() -> int:
    """Time all, print and write the ratios; `MISSED` where a target is missed."""
    o = observations(N_PATHS, missing=MISSING)
    collapsed = collapse(o.values, o.times, o.eigenfunctions)
    expected = evaluate_likelihood(collapsed, o.parameters).log_likelihood
    others = {
        PLAIN: (_statsmodels(o, False), SOME),
        COLLAPSED: (_statsmodels(o, True), SOME),
    }
    if importlib.util.find_spec("cd_dynamax"):
        others[CD] = (_cd_dynamax(o), FEW)
    difference = {
        name: float(np.max(np.abs(task() / expected[:n] - 1.0)))
        for name, (task, n) in others.items()
    }
    tasks = {**_ours(o, collapsed), **{name: task for name, (task, _) in others.items()}}
    seconds = interleaved_medians(tasks, REPEATS, time.process_time, set(tasks) - {CD})
    for name, (_, n) in others.items():
        seconds[name] = {key: s * N_PATHS / n for key, s in seconds[name].items()}
    document = _document(o, seconds, difference, {name: n for name, (_, n) in others.items()})
    text = _markdown(document)
    write_if_whole("missing", document, text, [] if CD in others else [CD])
    print(text)
    met = document["ratio"] >= TARGET and difference[PLAIN] <= TOLERANCE
    return 0 if met else MISSED


def _ours(o: Observations, collapsed: Collapsed) -> dict[str, Callable[[], object]]:
    return {
        OURS: lambda: evaluate_likelihood(collapsed, o.parameters),
        NUMPY: lambda: _without_numba(collapsed, o),
        COLLAPSE: lambda: collapse(o.values, o.times, o.eigenfunctions),
    }


def _without_numba(collapsed: Collapsed, o: Observations) -> object:
    with unittest.mock.patch.object(posterior_module, "COMPILED_MODES", 0):
        return evaluate_likelihood(collapsed, o.parameters)


def _statsmodels(o: Observations, use_collapse: bool) -> Callable[[], np.ndarray]:
    """Log-likelihood of the first paths, one filter a path."""
    p, dt = o.parameters, o.times[1] - o.times[0]
    step = transition(p.linear.drift, p.linear.noise, np.array([dt]))
    a, omega = step.factor[0], step.covariance[0]
    n_points, n_modes = o.eigenfunctions.shape
    filters = []
    for values in o.values[:SOME]:
        f = kalman_filter.KalmanFilter(k_endog=n_points, k_states=n_modes)
        f.bind(np.ascontiguousarray(values))
        f["design"] = o.eigenfunctions
        f["obs_cov"] = float(p.observation_variance) * np.eye(n_points)
        f["transition"], f["selection"] = np.diag(a), np.eye(n_modes)
        f["state_cov"] = np.diag(omega)
        f.initialize_known(p.initial.mean, np.diag(p.initial.covariance))
        f.filter_univariate, f.filter_collapsed = True, use_collapse
        f.set_conserve_memory(kalman_filter.MEMORY_CONSERVE)
        f.tolerance = 0  # gaps rule out the shortcut of a steady state
        filters.append(f)
    return lambda: np.array([f.loglike() for f in filters])


def _cd_dynamax(o: Observations) -> Callable[[], np.ndarray]:
    """Compiled log-likelihood of the first paths."""
    import jax
    import jax.numpy as jnp
    from cd_dynamax import cdlgssm_filter

    jax.config.update("jax_enable_x64", True)
    params, times = _cd_parameters(o), jnp.asarray(o.times)[:, None]
    values = jnp.asarray(o.values[:FEW])

    @jax.jit
    def run(values):
        def one(y):
            return cdlgssm_filter(
                params, jnp.nan_to_num(y), times, output_fields=["marginal_loglik"], warn=False,
                emission_mask=~jnp.isnan(y),
            ).marginal_loglik  # fmt: skip

        return jax.vmap(one)(values)

    return lambda: np.asarray(jax.block_until_ready(run(values)))


def _cd_parameters(o: Observations) -> object:
    import jax.numpy as jnp
    from cd_dynamax import ParamsCDLGSSM
    from cd_dynamax.src.continuous_discrete_linear_gaussian_ssm.cdlgssm_utils import (
        ParamsCDLGSSMDynamics,
    )
    from dynamax.linear_gaussian_ssm import ParamsLGSSMEmissions, ParamsLGSSMInitial

    p, (n_points, n_modes) = o.parameters, o.eigenfunctions.shape
    diagonal, spread = (jnp.diag(jnp.asarray(x)) for x in (p.linear.noise, p.initial.covariance))
    return ParamsCDLGSSM(
        ParamsLGSSMInitial(jnp.asarray(p.initial.mean), spread),
        ParamsCDLGSSMDynamics(
            jnp.diag(-jnp.asarray(p.linear.drift)), jnp.zeros(n_modes), jnp.zeros((n_modes, 0)),
            jnp.eye(n_modes), diagonal,
        ),
        ParamsLGSSMEmissions(
            jnp.asarray(o.eigenfunctions), jnp.zeros(n_points), jnp.zeros((n_points, 0)),
            float(p.observation_variance) * jnp.eye(n_points),
        ),
    )  # fmt: skip


def _document(o: Observations, seconds: dict, difference: dict, timed: dict) -> dict:
    best = min((PLAIN, COLLAPSED), key=lambda name: seconds[name]["median"])
    whole = seconds[OURS]["median"] + seconds[COLLAPSE]["median"]
    packages = ["numpy", "numba", "statsmodels", *(["cd-dynamax", "jax"] if CD in seconds else [])]
    ratio = {name: seconds[name]["median"] / seconds[OURS]["median"] for name in timed}
    return {
        "command": COMMAND,
        "size": dict(zip(("paths", "times", "points"), o.values.shape, strict=True)),
        "modes": o.parameters.n_modes,
        "missing": MISSING,
        "threads": {"spdelaw": 1, "statsmodels": 1, "jax": "all cores"},
        "repeats": REPEATS,
        "paths_timed": timed,
        "seconds": seconds,
        "best_statsmodels": best,
        "ratio": ratio[best],
        "ratio_without_numba": seconds[best]["median"] / seconds[NUMPY]["median"],
        "ratio_with_collapse": seconds[best]["median"] / whole,
        "ratios": ratio,
        "target": TARGET,
        "difference": difference,
        "tolerance": TOLERANCE,
        "versions": {"spdelaw": sl.__version__, **versions(*packages)},
    }


def _markdown(d: dict) -> str:
    size = " x ".join(str(n) for n in d["size"].values())
    rows = [
        [name, *(f"{s[k]:.2f}" for k in ("median", "min", "max")),
         f"{d['ratios'][name]:.0f}" if name in d["ratios"] else "",
         f"{d['difference'][name]:.1e}" if name in d["difference"] else ""]
        for name, s in d["seconds"].items()
    ]  # fmt: skip
    timed = ", ".join(f"{name}: {n}" for name, n in d["paths_timed"].items())
    return "\n".join(
        [
            "# Log-likelihood and score with gaps, against likelihoods alone",
            "",
            f"`evaluate_likelihood`, score included, is **{d['ratio']:.0f} times** as fast as "
            f"the faster of statsmodels' filters without a score (target: at least "
            f"{d['target']:g}); without "
            f"numba {d['ratio_without_numba']:.0f} times; with the collapse, which is done once "
            f"a data set, {d['ratio_with_collapse']:.1f} times.",
            "",
            f"Stochastic heat equation with noise, {100 * d['missing']:g} % missing at random in "
            f"each path: {size} (paths, times, points), {d['modes']} modes. Limit of the relative "
            f"difference to statsmodels' univariate filter: {d['tolerance']:g}. cd-dynamax solves "
            "its moment equations numerically and is not held to it.",
            "",
            table(["", "median [s]", "min [s]", "max [s]", "ratio", "difference"], rows),
            "",
            f"Command: `{d['command']}`. {d['repeats']} interleaved repeats. Paths timed and "
            f"scaled linearly to all: {timed}. The ratios are those of the medians and carry over "
            "between machines, the times do not. Time of all threads together; BLAS "
            "and statsmodels have one.",
            f"Versions: {', '.join(f'{k} {v}' for k, v in d['versions'].items())}.",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
