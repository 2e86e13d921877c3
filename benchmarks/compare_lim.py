"""A linear inverse model by lag covariances and by likelihood, on the same fields.

The lag-covariance model is the textbook one (Penland 1989): ``Lambda = -log(C(tau) C(0)^-1) / tau``
on the coefficients of every row, noise from ``Lambda C(0) + C(0) Lambda' = Q``. First on complete,
noise-free fields with equal steps, where both are the same; then with observation noise and gaps.
"""

from __future__ import annotations

import argparse
import sys
import warnings

from benchmarks._timing import table, versions, write_results

import numpy as np  # isort: skip
import xarray as xr
from scipy import linalg

import spdelaw as sl

COMMAND = "python -m benchmarks.compare_lim"
RING = sl.Interval(0.0, 2.0 * np.pi, "periodic")
N, STEP, POINTS = 5, 0.25, 24
NOISE, MISSING, MISSING_ROWS = 0.25, 0.2, 0.1
LEAD = 1.0


def equation() -> sl.SpectralSPDE:
    """Damping, diffusion, transport, and a mean that the first wave pushes: far from normal."""
    drift = np.diag(0.25 + 0.3 * RING.eigenvalues(N))
    for k, (c, s) in enumerate(((1, 2), (3, 4)), 1):
        drift[c, s], drift[s, c] = 0.6 * k, -0.6 * k
    drift[0, 1] = -1.0
    pattern = np.array([0.1, 0.5, -0.3, 0.3, 0.2])
    noise = np.diag([0.1, 0.3, 0.3, 0.2, 0.2]) + np.outer(pattern, pattern)
    return sl.SpectralSPDE(RING, N, drift, noise=noise, initial="stationary")


def fields(n_times: int, seed: int, *, noisy: bool, n_paths: int = 1) -> xr.DataArray:
    times = STEP * np.arange(n_times)
    grid = RING.grid(POINTS)
    if not noisy:
        return sl.simulate(equation(), n_paths, times, grid, seed=seed)
    data = sl.simulate(equation(), n_paths, times, grid, seed=seed, observation_std=NOISE)
    return sl.mask(sl.mask(data, "random", MISSING, seed=seed), "rows", MISSING_ROWS, seed=seed)


def coefficients(values: np.ndarray) -> np.ndarray:
    """Least squares, row by row, on the points that were observed; (path, time, mode)."""
    phi = RING.eigenfunctions(RING.grid(POINTS), N)
    out = np.full((*values.shape[:2], N), np.nan)
    for at in np.ndindex(values.shape[:2]):
        seen = ~np.isnan(values[at])
        if seen.sum() >= 2 * N:
            out[at] = np.linalg.lstsq(phi[seen], values[at][seen], rcond=None)[0]
    return out


def lag_covariance_model(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drift and noise covariance from pairs of rows in a row."""
    now, then = c[:, :-1].reshape(-1, N), c[:, 1:].reshape(-1, N)
    both = ~np.isnan(now + then).any(1)
    before = now[both].T @ now[both] / both.sum()
    cross = then[both].T @ now[both] / both.sum()
    drift = -np.real(linalg.logm(cross @ np.linalg.inv(before))) / STEP
    return drift, drift @ before + before @ drift.T


def likelihood_model(data: xr.DataArray) -> sl.Law:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sl.errors.IdentifiabilityWarning)
        return sl.fit(data, RING, N, drift="dense", noise="dense", initial="stationary")


def numbers(drift: np.ndarray, noise: np.ndarray) -> dict[str, float]:
    """What people read off such a model."""
    mu = np.linalg.eigvals(drift)
    mu = np.sort_complex(mu[mu.imag >= 0])
    turning = mu[mu.imag > 0]
    slow = turning[np.argmin(np.abs(turning.real))] if len(turning) else complex(np.nan, np.nan)
    growth = np.linalg.norm(linalg.expm(-LEAD * drift), 2) ** 2
    return {
        "longest e-folding time": 1.0 / mu.real.min(),
        "e-folding time of the slowest wave": 1.0 / slow.real,
        "period of the slowest wave": 2 * np.pi / slow.imag,
        f"optimal growth over {LEAD:g}": growth,
        "trace of the noise": float(np.trace(noise)),
    }


def forecast_errors(law: sl.Law, drift: np.ndarray) -> dict[str, float]:
    """RMSE of the clean field one lead time after 20 noisy, gappy rows of new paths."""
    clean = sl.simulate(equation(), 200, STEP * np.arange(25), RING.grid(POINTS), seed=9999)
    noisy = clean + NOISE * np.random.default_rng(1).standard_normal(clean.shape)
    history = sl.mask(noisy[:, :20], "random", MISSING, seed=1)
    lead = STEP * 19 + LEAD
    truth = clean.sel(time=lead, method="nearest").values
    phi = RING.eigenfunctions(RING.grid(POINTS), N)
    last = coefficients(history.values)[:, -1]
    best = _true_law(law)
    found = {
        "lag covariances": last @ linalg.expm(-LEAD * drift).T @ phi.T,
        "likelihood": law.forecast(history, [lead])["mean"].values[:, 0],
        "true law": best.forecast(history, [lead])["mean"].values[:, 0],
    }
    return {name: float(np.sqrt(np.mean((x - truth) ** 2))) for name, x in found.items()}


def _true_law(law: sl.Law) -> sl.Law:
    import dataclasses

    e = equation()
    return dataclasses.replace(
        law, dynamics=e.dynamics, initial=e.initial_state, observation_variance=NOISE**2
    )


def exact_case() -> dict[str, float]:
    data = fields(1000, 0, noisy=False)
    law = sl.fit(data, RING, N, drift="dense", noise="dense", observation_noise="none",
                 initial="deterministic")  # fmt: skip
    drift = lag_covariance_model(coefficients(data.values))[0]
    return {"largest difference of drift entries": float(np.abs(law.dynamics.drift - drift).max())}


def noisy_case(n_times: int, replicates: int) -> dict:
    rows: dict[str, dict[str, list[float]]] = {}
    inside: list[bool] = []
    errors: dict[str, list[float]] = {}
    truth = numbers(equation().drift_matrix, equation().noise_covariance)
    for seed in range(replicates):
        data = fields(n_times, seed, noisy=True)
        drift, noise = lag_covariance_model(coefficients(data.values))
        law = likelihood_model(data)
        own = {
            "lag covariances": numbers(drift, noise),
            "likelihood": numbers(law.dynamics.drift, law.dynamics.noise),
        }
        for method, found in own.items():
            for name, value in found.items():
                rows.setdefault(name, {}).setdefault(method, []).append(value)
        p = law.parameters
        for name, true in (("drift", equation().drift_matrix),
                           ("noise_covariance", equation().noise_covariance)):  # fmt: skip
            low, high = (p[name].sel(statistic=s).values for s in ("lower", "upper"))
            inside += list(((low <= true) & (true <= high)).ravel())
        for method, value in forecast_errors(law, drift).items():
            errors.setdefault(method, []).append(value)
    return {
        "truth": truth,
        "estimates": {
            name: {m: {"mean": float(np.mean(v)), "std": float(np.std(v, ddof=1))}
                   for m, v in by.items()}
            for name, by in rows.items()
        },
        "coverage": float(np.mean(inside)),
        "forecast_rmse": {m: float(np.mean(v)) for m, v in errors.items()},
    }  # fmt: skip


def markdown(d: dict) -> str:
    noisy = d["noisy"]
    rows = [
        [name, f"{noisy['truth'][name]:.3g}",
         *(f"{by[m]['mean']:.3g} ± {by[m]['std']:.2g}" for m in ("lag covariances", "likelihood"))]
        for name, by in noisy["estimates"].items()
    ]  # fmt: skip
    rmse = noisy["forecast_rmse"]
    rows.append([f"forecast RMSE, lead {LEAD:g}", f"{rmse['true law']:.3g}",
                 f"{rmse['lag covariances']:.3g}", f"{rmse['likelihood']:.3g}"])  # fmt: skip
    exact = d["exact"]["largest difference of drift entries"]
    return "\n".join(
        [
            f"Complete, noise-free, equal steps: the two drift matrices differ by {exact:.1e} at "
            "most.",
            "",
            f"One path of {d['n_times']} times, noise of standard deviation {NOISE:g} on "
            f"{POINTS} points, {100 * MISSING:g} % of the values and {100 * MISSING_ROWS:g} % of "
            f"the rows missing; mean ± standard deviation over {d['replicates']} replicates:",
            "",
            table(["", "truth", "lag covariances", "likelihood"], rows),
            "",
            f"95 % intervals of the likelihood hold {100 * noisy['coverage']:.1f} % of the true "
            "entries of drift and noise; lag covariances give none.",
            "",
            f"Command: `{d['command']}`. "
            f"Versions: {', '.join(f'{k} {v}' for k, v in d['versions'].items())}.",
            "",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--times", type=int, default=1000)
    chosen = parser.parse_args(arguments)
    document = {
        "command": COMMAND,
        "replicates": chosen.replicates,
        "n_times": chosen.times,
        "exact": exact_case(),
        "noisy": noisy_case(chosen.times, chosen.replicates),
        "versions": {"spdelaw": sl.__version__, **versions("numpy", "scipy")},
    }
    write_results("compare_lim", document, markdown(document))
    print(markdown(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
