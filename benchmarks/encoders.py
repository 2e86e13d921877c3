"""Encoders and orders of the amortized engine: error against the decoder's floor.

``python -m benchmarks.encoders [CASE ...] [--seeds 3]`` trains each encoder on each case and writes
``results/encoders.json`` and ``encoders.md``; rows that are there are not trained again.

The floor is the error of the coordinates that fit a test path best, with the true parameters: no
encoder of this decoder can have a smaller one. With additive noise it is a projection
(`spdelaw.evaluation.decoder_floor`), with noise that depends on the state a nonlinear least-squares
search over ``z0`` and ``xi`` of each path, from the encoder's means.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr

import spdelaw as sl
from spdelaw.amortized.neural import NeuralRun, new_model, state_noise
from spdelaw.amortized.structured import make_config
from spdelaw.amortized.vae import ChaosVAE, Paths, as_paths, assess, mean_errors, path_errors
from spdelaw.data.observed import observe
from spdelaw.evaluation import decoder_floor
from spdelaw.processes.catalogue import TORUS

RESULTS = Path(__file__).parent / "results"
N_TRAIN, N_VALIDATION, N_TEST = 300, 50, 100
#: Steps of the search for the floor.
FLOOR_STEPS = 200
GEOMETRIC_NOISE = sl.PowerLaw(1.5, 0.5)


class Case(NamedTuple):
    """An equation with its grid, the decoder, and trainings by the name of their encoder.

    Attributes:
        equation: what is simulated, with more modes than the decoder has.
        points: of the grid.
        n_times: on [0, 1].
        n_modes: N.
        settings: of all encoders.
        encoders: further settings by name.
        missing: share of the values that is hidden.
    """

    equation: Any
    points: Any
    n_times: int
    n_modes: int
    settings: dict[str, Any]
    encoders: dict[str, dict[str, Any]]
    missing: float = 0.0


def cases() -> dict[str, Case]:
    """All cases by name."""
    inner = np.linspace(0.0, np.pi, 14)[1:-1]
    ring = np.linspace(0.0, 2.0 * np.pi, 25)[:-1]
    side = np.linspace(0.0, 2.0 * np.pi, 11)[:-1]
    fast = {"encoder_rate": 3e-3, "schedule": (), "warmup_epochs": 5}
    linear, bilinear = {**fast, "n_time": 16}, {**fast, "n_time": 6, "n_noise": 4, "order": 2}
    square = Case(
        sl.catalogue.square_heat(n_modes=50), {"x": inner, "y": inner}, 51, 8, linear,
        {"modes": {"epochs": 400}, "grid": {"epochs": 200}},
    )  # fmt: skip
    geometric = sl.catalogue.geometric_heat(n_modes=12, noise=GEOMETRIC_NOISE)
    torus = sl.catalogue.geometric_heat(n_modes=13, noise=GEOMETRIC_NOISE, domain=TORUS)
    return {
        "heat 2-D": square,
        "heat 2-D, 30 % missing": square._replace(missing=0.3),
        "geometric heat 1-D": Case(
            geometric, ring, 31, 6, bilinear, {"modes": {"epochs": 240}, "grid": {"epochs": 120}}
        ),
        "geometric heat 2-D": Case(
            torus, {"x": side, "y": side}, 31, 6, bilinear,
            {"modes": {"epochs": 240}, "grid": {"epochs": 120}},
        ),
    }  # fmt: skip


class Data(NamedTuple):
    """Training, validation and test paths as the model reads them, and the test fields."""

    parts: list[Paths]
    test: xr.DataArray
    basis: np.ndarray
    points: np.ndarray


def simulated(case: Case, seed: int, reads_modes: bool) -> Data:
    """Paths of one seed."""
    times, n = np.linspace(0.0, 1.0, case.n_times), N_TRAIN + N_VALIDATION
    fields = sl.simulate(case.equation, n + N_TEST, times, case.points, seed=seed)
    if case.missing:
        hidden = np.random.default_rng(seed).random(fields.shape) < case.missing
        fields = fields.where(~hidden)
    split = fields[:N_TRAIN], fields[N_TRAIN:n], fields[n:]
    each = [observe(one, case.equation.domain) for one in split]
    basis = each[0].basis(case.n_modes)
    given = basis if reads_modes else None
    return Data([as_paths(one, 0.0, 1.0, given) for one in each], split[2], basis, each[0].points)


def nonlinear_floor(model: ChaosVAE, paths: Paths, case: Case) -> dict[str, float]:
    """Least error of the decoder on each path with the true parameters."""
    equation, n = case.equation.linear, case.n_modes
    with torch.no_grad():
        posterior = model.encode(paths)
        rates = np.maximum(equation.eigenvalues[:n], 1e-6)
        q = equation.noise_variance[: case.settings["n_noise"]]
        model.dynamics.log_eigenvalues.copy_(torch.tensor(np.log(rates)))
        model.dynamics.log_factor.diagonal().copy_(torch.tensor(0.5 * np.log(q)))
        curves = model.curves(paths)
    free = [x.clone().requires_grad_() for x in (posterior.initial_mean, posterior.chaos_mean)]
    search = torch.optim.LBFGS(free, max_iter=FLOOR_STEPS, line_search_fn="strong_wolfe")

    def errors() -> tuple[torch.Tensor, ...]:
        return path_errors(model.coefficients(curves, paths, *free) @ model.basis.t(), paths)

    def loss() -> torch.Tensor:
        search.zero_grad()
        total = errors()[0].sum()
        total.backward()
        return total

    search.step(loss)
    return mean_errors(*(x.detach() for x in errors()))


def row(name: str, encoder: str, seed: int) -> dict[str, Any]:
    """One training."""
    case = cases()[name]
    config = make_config(encoder=encoder, **case.settings, **case.encoders[encoder])
    data = simulated(case, seed, encoder == "modes")
    kind = getattr(case.equation, "state_noise", "none")
    noise = state_noise(kind, case.equation.domain, case.n_modes)
    model = new_model(data.basis, config, seed, data.points, noise)
    run, clock = NeuralRun(model, *data.parts[:2], config, seed), time.process_time()
    for epoch in range(config.epochs):
        run.finish(epoch, run.epoch(epoch), 0.0)
    seconds = time.process_time() - clock
    best, test = run.best(), data.parts[2]
    train_error, test_error = (assess(best, paths, config) for paths in (data.parts[0], test))
    if noise is None:
        rates = case.equation.eigenvalues[: case.n_modes]
        domain, k = case.equation.domain, config.n_time
        floor = decoder_floor(data.test, domain, case.n_modes, k, rates)._asdict()
    else:
        floor = nonlinear_floor(best, test, case)
    out = {"case": name, "encoder": encoder, "seed": seed, "epochs": config.epochs}
    out |= {"cpu_seconds": round(seconds, 1), "n_parameters": model.n_parameters}
    for what in ("rmse", "relative_l2"):
        out |= {what: test_error[what], f"{what}_train": train_error[what]}
        out |= {f"{what}_floor": floor[what], f"{what}_over_floor": test_error[what] / floor[what]}
    return out


def markdown(rows: list[dict[str, Any]]) -> str:
    """The page: means over seeds, and the range of the ratio."""
    lines = [
        "# Encoders of the amortized engine", "",
        "`python -m benchmarks.encoders`; 300 training, 50 validation and 100 test paths a seed,",
        "one thread. Ratios: error of a test reconstruction over the floor of its decoder.", "",
        "| case | encoder | seeds | epochs | CPU s | rel L2 | floor | ratio by seed | RMSE ratio |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: |",
    ]  # fmt: skip
    for key in dict.fromkeys((r["case"], r["encoder"]) for r in rows):
        group = [r for r in rows if (r["case"], r["encoder"]) == key]
        mean = {k: np.mean([r[k] for r in group]) for k in group[0] if k not in ("case", "encoder")}
        ratios = ", ".join(f"{r['relative_l2_over_floor']:.3f}" for r in group)
        lines.append(
            f"| {key[0]} | {key[1]} | {len(group)} | {group[0]['epochs']}"
            f" | {mean['cpu_seconds']:.0f} | {mean['relative_l2']:.4f}"
            f" | {mean['relative_l2_floor']:.4f} | {ratios}"
            f" | {mean['rmse_over_floor']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train what is missing, seed by seed, and write both files after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="*", default=list(cases()), help="names of cases")
    parser.add_argument("--encoder", choices=("modes", "grid"), help="one encoder alone")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    file = RESULTS / "encoders.json"
    for seed in range(arguments.seeds):
        for name in arguments.case:
            for encoder in cases()[name].encoders:
                done = [(r["case"], r["encoder"], r["seed"]) for r in saved(file)]
                if (name, encoder, seed) in done or arguments.encoder not in (None, encoder):
                    continue
                new = row(name, encoder, seed)
                rows = [*saved(file), new]  # read again: others may run at the same time
                rows.sort(key=lambda r: (r["case"], r["encoder"] != "modes", r["seed"]))
                print(json.dumps(new), flush=True)
                file.write_text(json.dumps(rows, indent=1) + "\n")
                file.with_suffix(".md").write_text(markdown(rows))


def saved(file: Path) -> list[dict[str, Any]]:
    """Rows of earlier runs."""
    return json.loads(file.read_text()) if file.exists() else []


if __name__ == "__main__":
    main()
