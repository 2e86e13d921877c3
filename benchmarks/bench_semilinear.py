"""Recovery of semilinear laws: bias, coverage and time over many data sets.

Run ``python -m benchmarks.bench_semilinear run allen_cahn_0.1 --sets 200`` for one case (``--list``
names them) and ``python -m benchmarks.bench_semilinear report`` for the table. A run appends one
line per data set to ``<work>/<case>.jsonl`` and goes on where it stopped; every data set has a
seed of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._timing import table, versions, write_results

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.equation import advance  # isort: skip
from spdelaw.infer.semilinear import SemilinearFit, fit_complete, fit_filtered  # isort: skip
from spdelaw.model import collapse  # isort: skip

WORK = Path(__file__).with_name("runs") / "semilinear"
RESULTS = Path(__file__).with_name("results") / "semilinear.json"
COMMAND = "python -m benchmarks.bench_semilinear"
#: Half-width of a 95 % interval in standard errors.
Z = 1.959963984540054
Record = dict[str, Any]


def spread(n_modes: int, scale: float = 1.0) -> sl.Gaussian:
    """Random starts with fronts: variance ``scale / n^2`` of coefficient n."""
    return sl.Gaussian(0.0, scale / np.arange(1.0, n_modes + 1.0) ** 2)


def coefficients(equation: sl.Semilinear, n_paths: int, seed: int) -> np.ndarray:
    """Coefficients (path, time, mode) of simulated fields."""
    fields = sl.simulate(equation, n_paths, seed=seed)
    return equation.domain.analyse(fields, equation.n_modes, method="dense").values


def compare(fit: SemilinearFit, truth: dict[str, float], seconds: float, cpu: float) -> Record:
    """One line of results."""
    return {
        "truth": truth,
        "estimate": {k: fit.values[k] for k in truth},
        "stderr": fit.standard_errors,
        "robust": fit.robust_errors,
        "seconds": seconds,
        "cpu": cpu,
        **{k: v for k, v in fit.diagnostics.items() if isinstance(v, (bool, int, float))},
    }


def timed(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """Result, wall and processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    out = function()
    return out, time.perf_counter() - wall, time.process_time() - cpu


def complete(
    equation: sl.Semilinear, n_paths: int, seed: int, truth: dict[str, float], **words: Any
) -> Record:
    """Fit of complete coefficients; the last ten times are left out and, in some sets, forecast."""
    c, ahead = coefficients(equation, n_paths, seed), 10
    seen, times = c[:, :-ahead], equation.times[:-ahead]
    fit, wall, cpu = timed(
        lambda: fit_complete(seen, times, equation.domain, list(equation.terms), **words)
    )
    record = compare(fit, truth, wall, cpu)
    if is_forecast(seed):
        record["forecast"] = forecast(fit, equation, c, ahead)
    return record


def is_forecast(seed: int) -> bool:
    """The first ten sets of a case and every tenth: a forecast costs as much as a fit."""
    return seed % 1000 < 10 or seed % 10 == 0


def forecast(fit: SemilinearFit, e: sl.Semilinear, c: np.ndarray, ahead: int = 10) -> Record:
    """Coverage at 50, 80 and 95 % of field values ``ahead`` steps after the last one used.

    Once by the closure and once by an ensemble; both from the estimated law.
    """
    law = fit.equation(e.domain, times=e.times).dynamics
    h = e.domain.eigenfunctions(e.default_grid(), e.n_modes)
    now, later, dt = c[:, -1 - ahead], c[:, -1] @ h.T, float(e.times[1] - e.times[0])
    step, _ = advance(law.closure, now, None, ahead * dt, 2 * ahead)
    mean, std = step.mean @ h.T, np.sqrt(np.einsum("xn,bnm,xm->bx", h, step.covariance, h))
    draws = np.tile(now, (400, 1, 1)).reshape(-1, e.n_modes)
    draws = law.sample(draws, 0.0, ahead * dt, np.random.default_rng(0), n_steps=4 * ahead)
    fields = (draws @ h.T).reshape(400, *later.shape)
    out = {}
    for level, z in ((50, 0.6745), (80, 1.2816), (95, 1.96)):
        low, high = np.quantile(fields, [0.5 - level / 200, 0.5 + level / 200], axis=0)
        out[f"closure_{level}"] = float((np.abs(later - mean) < z * std).mean())
        out[f"ensemble_{level}"] = float(((later > low) & (later < high)).mean())
    return out


def allen_cahn(rate_dt: float, seed: int) -> Record:
    """31 modes (32 points), 20 paths of 100 steps; nu, a, b, scale and exponent."""
    e = sl.catalogue.allen_cahn(initial=spread(31), times=rate_dt * np.arange(111))
    return complete(e, 20, seed, _truth(e, nu=0.05, scale=0.1, exponent=1.5))


def allen_cahn_gaps(rate_dt: float, seed: int) -> Record:
    """The same fields with 30 % of the values missing and noise of 0.1; one parameter more."""
    e = sl.catalogue.allen_cahn(initial=spread(31), times=rate_dt * np.arange(101))
    fields = sl.simulate(e, 20, seed=seed, observation_std=0.1)
    values = sl.mask(fields, fraction=0.3, seed=seed).values
    h = e.domain.eigenfunctions(fields["x"].values, 31)
    truth = _truth(e, nu=0.05, scale=0.1, exponent=1.5, observation_variance=0.01)
    fit, wall, cpu = timed(
        lambda: fit_filtered(collapse(values, e.times, h), e.domain, list(e.terms))
    )
    return compare(fit, truth, wall, cpu)


def small_gaps(rate_dt: float, seed: int) -> Record:
    """9 modes on 16 points, 12 paths of 60 steps, gaps and noise as above, through `sl.fit`."""
    e = sl.catalogue.allen_cahn(9, initial=spread(9), times=rate_dt * np.arange(61))
    fields = sl.simulate(e, 12, grid=e.domain.grid(16), seed=seed, observation_std=0.1)
    seen = sl.mask(fields, fraction=0.3, seed=seed)
    law, wall, cpu = timed(lambda: sl.fit(seen, e.domain, 9, terms=tuple(e.terms)))
    info = law.info
    truth = _truth(e, nu=0.05, scale=0.1, exponent=1.5, observation_variance=0.01)
    return {
        "truth": truth,
        "estimate": info["estimates"],
        "stderr": info["standard_errors"],
        "robust": info["robust_errors"],
        "seconds": wall,
        "cpu": cpu,
        **info["closure"],
    }


def _truth(e: sl.Semilinear, **more: float) -> dict[str, float]:
    return {**more, **e.terms}


def burgers(seed: int) -> Record:
    """15 modes, 10 paths of 100 steps of 0.1."""
    e = sl.catalogue.burgers(15, times=0.1 * np.arange(111), initial=spread(15, 0.3))
    truth = _truth(e, nu=0.1, kappa=0.1, scale=0.3, exponent=1.5)
    return complete(e, 10, seed, truth, fixed={"kappa": None})


def kpz(seed: int) -> Record:
    """15 modes, 10 paths of 100 steps of 0.1, with a free constant."""
    e = sl.catalogue.kpz(15, times=0.1 * np.arange(111), initial=spread(15, 0.3))
    e = sl.Semilinear(e.linear, {**e.terms, "1": 0.0})
    truth = _truth(e, nu=0.2, kappa=0.1, scale=0.3, exponent=1.5)
    return complete(e, 10, seed, truth, fixed={"kappa": None})


def fisher_kpp(seed: int) -> Record:
    """15 modes, 10 paths of 100 steps of 0.1."""
    e = sl.catalogue.fisher_kpp(15, times=0.1 * np.arange(111))
    return complete(e, 10, seed, _truth(e, nu=0.05, scale=0.0064, exponent=1.5))


def nagumo(seed: int) -> Record:
    """15 modes, 10 paths of 100 steps of 0.1."""
    e = sl.catalogue.nagumo(15, times=0.1 * np.arange(111))
    return complete(e, 10, seed, _truth(e, nu=0.05, scale=0.01, exponent=1.5))


def allen_cahn_2d(seed: int) -> Record:
    """37 modes of a square, 10 paths of 100 steps of 0.1."""
    e = sl.catalogue.allen_cahn_2d(37, times=0.1 * np.arange(111), initial=spread(37, 3.0))
    return complete(e, 10, seed, _truth(e, nu=0.05, scale=0.3, exponent=1.0))


CASES: dict[str, tuple[Callable[[int], Record], int]] = {
    "allen_cahn_0.02": (lambda seed: allen_cahn(0.02, seed), 200),
    "allen_cahn_0.1": (lambda seed: allen_cahn(0.1, seed), 200),
    "allen_cahn_0.3": (lambda seed: allen_cahn(0.3, seed), 200),
    "allen_cahn_gaps_0.1": (lambda seed: allen_cahn_gaps(0.1, seed), 50),
    "small_gaps_0.1": (lambda seed: small_gaps(0.1, seed), 100),
    "burgers": (burgers, 10),
    "kpz": (kpz, 10),
    "fisher_kpp": (fisher_kpp, 10),
    "nagumo": (nagumo, 10),
    "allen_cahn_2d": (allen_cahn_2d, 10),
}


def run(case: str, sets: int, work: Path) -> None:
    """Append records until there are ``sets`` of them."""
    function, _ = CASES[case]
    work.mkdir(parents=True, exist_ok=True)
    path = work / f"{case}.jsonl"
    done = len(path.read_text().splitlines()) if path.exists() else 0
    for k in range(done, sets):
        seed = 100_000 + 1000 * (zlib.crc32(case.encode()) % 1000) + k
        try:
            record = function(seed)
        except sl_errors() as error:
            record = {"error": str(error)}
        with path.open("a") as file:
            file.write(json.dumps({"seed": seed, **record}) + "\n")


def sl_errors() -> type[Exception]:
    """Base of the package's errors: a failed fit is a result, too."""
    from spdelaw.errors import SpdeLawError

    return SpdeLawError


def summary(records: list[Record]) -> Record:
    """Bias and spread in standard errors, coverage and times."""
    good = [r for r in records if "error" not in r]
    names = list(good[0]["stderr"])
    z = np.array(
        [[(r["estimate"][n] - r["truth"][n]) / r["stderr"][n] for n in names] for r in good]
    )
    robust = np.array(
        [[(r["estimate"][n] - r["truth"][n]) / r["robust"][n] for n in names] for r in good]
    )
    return {
        "sets": len(good),
        "failed": len(records) - len(good),
        "bias": dict(zip(names, z.mean(0).round(3).tolist(), strict=True)),
        "spread": dict(zip(names, z.std(0).round(3).tolist(), strict=True)),
        "worst": float(np.abs(z).max()),
        "coverage": float((np.abs(z) < Z).mean()),
        "coverage_robust": float((np.abs(robust) < Z).mean()),
        "seconds": float(np.median([r["seconds"] for r in good])),
        "cpu": float(np.median([r["cpu"] for r in good])),
        "step_shift": float(np.median([r["step_shift"] for r in good])),
        "forecast": {
            key: float(np.mean([r["forecast"][key] for r in good if "forecast" in r]))
            for key in good[0].get("forecast", {})
        },
    }


def report(work: Path) -> None:
    """Write ``results/semilinear.json`` and ``.md``; rows of more data sets stand."""
    found = json.loads(RESULTS.read_text())["cases"] if RESULTS.exists() else {}
    for case in CASES:
        path = work / f"{case}.jsonl"
        if path.exists():
            own = summary([json.loads(line) for line in path.read_text().splitlines()])
            if own["sets"] >= found.get(case, own)["sets"]:
                found[case] = own
    found = {case: found[case] for case in CASES if case in found}
    document = {"command": COMMAND, "cases": found, "versions": versions("numpy", "scipy")}
    text = _markdown(document)
    write_results("semilinear", document, text)
    print(text)


def _markdown(d: Record) -> str:
    rows = []
    for case, s in d["cases"].items():
        bias = ", ".join(f"{k} {v:+.2f}" for k, v in s["bias"].items())
        rows.append(
            [case, f"{s['sets']}", bias, f"{s['worst']:.1f}", f"{100 * s['coverage']:.1f}",
             f"{100 * s['coverage_robust']:.1f}", f"{s['seconds']:.1f}", f"{s['cpu']:.1f}",
             _forecast(s["forecast"], "closure"), _forecast(s["forecast"], "ensemble"),
             f"{s['failed']}"]
        )  # fmt: skip
    head = ["case", "data sets", "bias in standard errors", "largest", "coverage [%]",
            "robust [%]", "wall [s]", "cpu [s]", "closure forecast", "ensemble forecast",
            "failed"]  # fmt: skip
    return "\n".join(
        [
            "# Semilinear laws: bias, coverage and time",
            "",
            "Bias is the mean of (estimate - truth) / standard error; its own Monte-Carlo error is "
            "one over the root of the number of data sets. Coverage of 95 % intervals, all "
            "parameters pooled. Forecasts: coverage of field values ten steps ahead at 50/80/95 %.",
            "",
            table(head, rows),
            "",
            f"Commands: `{d['command']} run <case> --sets N --work DIR`, "
            f"`{d['command']} report --work DIR`; a run goes on where it stopped. Times are "
            "medians on one core of a machine that others use, too.",
            f"Versions: {', '.join(f'{k} {v}' for k, v in d['versions'].items())}.",
            "",
        ]
    )


def _forecast(found: dict[str, float], kind: str) -> str:
    return "/".join(f"{100 * v:.0f}" for key, v in found.items() if key.startswith(kind))


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["run", "report", "list"])
    parser.add_argument("case", nargs="?", choices=list(CASES))
    parser.add_argument("--sets", type=int)
    parser.add_argument("--work", type=Path, default=WORK)
    given = parser.parse_args()
    if given.action == "list":
        print("\n".join(CASES))
    elif given.action == "report":
        report(given.work)
    else:
        for case in [given.case] if given.case else list(CASES):
            run(case, given.sets or CASES[case][1], given.work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
