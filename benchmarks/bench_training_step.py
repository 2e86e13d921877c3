"""One training step of the amortized engine, with the propagators found in three ways.

Run it with ``python -m benchmarks.bench_training_step``. The same network, batch and optimiser
take turns with propagators in closed form, by RK4 shared by the batch, and by RK4 with the whole
state of d = N (1 + K L) = 1032 numbers for each path, as the paper's text describes. A fourth
row keeps the closed form but takes torch's own recurrent unit, a softmax for each channel and
residuals through automatic differentiation: what writing them out is worth.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from benchmarks._timing import MISSED, interleaved_medians, table, versions, write_results

import numpy as np  # isort: skip
import torch  # isort: skip
from torch import Tensor, nn  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.chaos.propagators import CosineBasis

from spdelaw.chaos.propagators import decode_states, rk4_states  # isort: skip
from spdelaw.data.observed import observe  # isort: skip
from spdelaw.amortized.structured import AmortizedConfig, make_config

from spdelaw.amortized import vae as vae_module  # isort: skip
from spdelaw.amortized.vae import ChaosVAE  # isort: skip
from spdelaw.amortized.training import reused_memory  # isort: skip
from spdelaw.amortized.neural import NeuralRun, new_model  # isort: skip
from spdelaw.amortized.vae import Paths, as_paths  # isort: skip
from spdelaw.amortized.encoder import MultiTimeAttention  # isort: skip

REPEATS, FEW, BATCH = 25, 5, 40
TARGETS = {"rk4, shared": 4.0, "rk4, per path": 10.0}
COMMAND = "python -m benchmarks.bench_training_step"
CLOSED, SHARED, PER_PATH, PLAIN = (
    "closed form", "rk4, shared", "rk4, per path", "closed form, plain torch",
)  # fmt: skip


class PerPath(ChaosVAE):
    """The latent state of every path integrated on its own: (T, paths, 1 + K L, N)."""

    def curves(self, paths: Paths) -> None:  # type: ignore[override]
        """Nothing is shared."""

    def coefficients(self, curves: None, paths: Paths, initial: Tensor, chaos: Tensor) -> Tensor:  # type: ignore[override]
        """RK4 from each path's own initial state."""
        lam = torch.exp(self.dynamics.log_eigenvalues).float()
        b = torch.diag(torch.exp(torch.diagonal(self.dynamics.log_factor))).float()
        states = rk4_states(CosineBasis(), paths.ages, lam, b, initial, self.n_time)
        return decode_states(states, chaos)


class PlainGRU(nn.GRU):
    """torch's recurrent unit in place of ours."""

    weight_input = bias_input = None

    def recur(self, inputs: Tensor) -> Tensor:
        """Final state."""
        return self(inputs)[1][0]


class PlainAttention(MultiTimeAttention):
    """A softmax for every channel, and its own output map."""

    def forward(self, values: Tensor, observed: None, times: Tensor, through: None) -> Tensor:  # type: ignore[override]
        """As where values are missing."""
        return super().forward(values, torch.ones_like(values), times)


class Plain(ChaosVAE):
    """Attention, output map and recurrent unit one after the other."""

    def __init__(self, basis: np.ndarray, config: AmortizedConfig) -> None:
        super().__init__(basis, config)
        width, embedding = config.n_hidden, config.n_embedding
        self.encoder.attention = PlainAttention(len(basis), width, embedding, config.n_reference)
        self.encoder.recurrent = PlainGRU(width, width)  # type: ignore[assignment]


def plain_residuals(coefficients: Tensor, basis: Tensor, paths: Paths) -> Tensor:
    """Field first, then its residuals, by automatic differentiation."""
    return ((paths.values - coefficients @ basis.t()) ** 2).sum(1).double()


def main() -> int:
    """Time all, print and write the ratios; `MISSED` where one misses its target."""
    torch.set_num_threads(1)
    equation = sl.catalogue.heat(n_modes=50)
    observed = observe(sl.simulate(equation, BATCH, seed=0), equation.domain)
    paths = as_paths(observed, observed.origin, observed.span)
    basis = equation.domain.eigenfunctions(observed.points, 8)
    closed = _step(new_model(basis, make_config(), 0), paths)
    small = {
        CLOSED: closed,
        SHARED: _step(new_model(basis, make_config(propagators="rk4"), 0), paths),
        PLAIN: _plain(_step(Plain(basis, make_config()), paths)),
    }
    # Apart from the others: its gigabytes of states slow down whatever runs after it.
    large = {CLOSED: closed, PER_PATH: _step(PerPath(basis, make_config()), paths)}
    with reused_memory():
        seconds = interleaved_medians(small, REPEATS, time.process_time)
        apart = interleaved_medians(large, FEW, time.process_time)
    ratios = {n: _ratio(seconds, n, "median") for n in seconds}
    ratios[PER_PATH] = _ratio(apart, PER_PATH, "median")
    minima = {n: _ratio(seconds, n, "min") for n in seconds}
    minima[PER_PATH] = _ratio(apart, PER_PATH, "min")
    seconds[PER_PATH] = apart[PER_PATH]
    document = {
        "command": COMMAND,
        "size": {"paths": BATCH, "times": len(observed.times), "points": len(observed.points),
                 "modes": 8, "functions of time": 16, "reference times": 32},
        "threads": 1, "repeats": REPEATS, "seconds": seconds, "ratios": ratios,
        "ratios_of_minima": minima, "seconds_beside_per_path": apart[CLOSED],
        "targets": TARGETS,
        "versions": {"spdelaw": sl.__version__, **versions("torch", "torchdiffeq", "numpy")},
    }  # fmt: skip
    text = _markdown(document)
    write_results("training_step", document, text)
    print(text)
    return 0 if all(ratios[name] >= least for name, least in TARGETS.items()) else MISSED


def _ratio(seconds: dict[str, dict[str, float]], name: str, kind: str) -> float:
    return seconds[name][kind] / seconds[CLOSED][kind]


def _step(model: ChaosVAE, paths: Paths) -> Callable[[], object]:
    run = NeuralRun(model, paths, paths, make_config(), 0)
    generator = torch.Generator().manual_seed(0)
    return lambda: run.step(paths, generator, 0)


def _plain(step: Callable[[], object]) -> Callable[[], object]:
    def timed() -> None:
        ours, vae_module.squared_residuals = vae_module.squared_residuals, plain_residuals
        try:
            step()
        finally:
            vae_module.squared_residuals = ours

    return timed


def _markdown(d: dict) -> str:
    rows = [
        [name, *(f"{1e3 * s[k]:.0f}" for k in ("median", "min", "max")),
         f"{d['ratios'][name]:.1f}", f"{d['ratios_of_minima'][name]:.1f}",
         f"{d['targets'][name]:g}" if name in d["targets"] else ""]
        for name, s in d["seconds"].items()
    ]  # fmt: skip
    size = ", ".join(f"{n} {what}" for what, n in d["size"].items())
    return "\n".join(
        [
            "# One training step of the amortized engine",
            "",
            f'Regime B, `preset="paper"` (550,077 parameters): {size}.',
            "",
            table(
                [
                    "propagators",
                    "median [ms]",
                    "min [ms]",
                    "max [ms]",
                    "ratio",
                    "of minima",
                    "at least",
                ],
                rows,
            ),
            "",
            "What remains is the recurrent network: 32 dependent products (40 x 256 by "
            "256 x 768) forwards and as many backwards. What helped, together the difference to "
            "plain torch: the backward recursion written out, with one product for the weights' "
            "gradient instead of 32; the output map of the attention multiplied into the input map "
            "of the recurrent unit; residuals as one product that starts from the observation, "
            "whose gradient needs no array of the size of the fields; one attention matrix for "
            "the batch where nothing is missing. Freed memory stays with the process for the "
            "time of a training (for all rows here): page faults were a fifth of a step.",
            "",
            f"Command: `{d['command']}`. One thread, time of the process, {d['repeats']} "
            f"interleaved repeats (RK4 per path: {FEW}, with the closed form alone, because of "
            "its memory); the "
            "ratio is that of the medians and carries over between machines, the times do not.",
            f"Versions: {', '.join(f'{k} {v}' for k, v in d['versions'].items())}.",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
