"""Tables and sentences of ``spdelaw demo``."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw import report
from spdelaw.cli._output import Output
from spdelaw.equation import SpectralSPDE
from spdelaw.evaluation import TierScore, parameter_errors
from spdelaw.law import Law
from spdelaw.paper import demo
from spdelaw.paper.demo import Compared, Learned
from spdelaw.paper.regimes import Regime

#: Modes that the table shows; the verdict is on all.
SHOWN = 8


def show_summary(output: Output, paths: int, results: list[dict[str, Any]]) -> None:
    """The demo in plain words."""
    a, b = results
    (law_a,), (law_b, hard) = a["laws"], b["laws"]
    gaps, forecast = b["use"]["gaps"], b["use"]["forecast"]
    lines = ["In short", f"  From {paths} paths each, and nothing else:"]
    lines += [_in_words(f"Regime {r}", law) for r, law in (("A", law_a), ("B", law_b))]
    lines += [f"  From {hard['title']}:", _in_words("Regime B", hard)]
    lines += [
        f"  On new paths the 95 % band held the truth {100 * gaps['coverage']:.0f} % of the time "
        f"in gaps, {100 * forecast['coverage']:.0f} % in forecasts.\n"
    ]
    output.line("\n".join(lines))


def _in_words(name: str, law: dict[str, Any]) -> str:
    if law["n_undetermined"]:
        told = f"{law['n_undetermined']} numbers could NOT be determined"
    else:
        told = f"all eigenvalues and noise variances within {law['largest_z']:.1f} standard errors"
    return f"    {name}: {told}; KL {law['kl_per_path']:.4f}, on average {law['kl_limit']:.4f}."


def show_moments(
    output: Output,
    regime: Regime,
    equation: SpectralSPDE,
    moments: xr.Dataset,
    answer: report.Verdict,
) -> None:
    """Print sample moments of the first modes beside their closed form, and the verdict."""
    last = moments.isel(time=-1, mode=slice(SHOWN))
    names = ("mean", "mean_sample", "mean_z", "variance", "variance_sample", "variance_z")
    rows = [
        [str(int(n)), f"{equation.eigenvalues[i]:g}", *(_digits(k, last[k][i]) for k in names)]
        for i, n in enumerate(last["mode"].values)
    ]
    output.table(
        f"Regime {regime.letter}: {equation.label}, {moments.attrs['n_paths']} paths, "
        f"t = {float(last['time']):g}",
        ("mode", "lambda", "mean", "sample", "z", "variance", "sample", "z"),
        rows,
    )
    word = "agrees with" if answer.agrees else "DOES NOT AGREE with"
    output.line(
        f"  The sample {word} the closed form: largest |z| {answer.largest:.2f}, "
        f"bound {answer.bound:.2f}\n  ({answer.n_comparisons} comparisons: {equation.n_modes} "
        f"modes, {moments.sizes['time']} times, mean and variance; "
        f"false-alarm rate {answer.false_alarm_rate:g}).\n"
    )


def _digits(name: str, value: Any) -> str:
    if name.endswith("_z"):
        return f"{float(value):+.2f}"
    return f"{float(value):.4g}" if abs(value) > 1e-10 else "0"  # zero by symmetry, or decayed


def show_errors(output: Output, regime: Regime, errors: TierScore) -> None:
    """Print how well the exact mean predicts, beside the paper's best baseline."""
    printed = regime.published
    found = {
        "exact mean, this sample": (errors.relative_l2, errors.rmse),
        f"paper's best baseline, {regime.baseline}": (printed.relative_l2[0], printed.rmse[0]),
    }
    rows = [[name, *(f"{error:.4f}" for error in both)] for name, both in found.items()]
    output.table(
        f"Regime {regime.letter}: tier 'predict' (only the initial state is known)",
        ("predictor", "rel L2", "RMSE"),
        rows,
    )


def show_learned(output: Output, letter: str, learned: Learned) -> None:
    """Print both spectra with intervals against the truth, and the distance in words."""
    law, d = learned.law, learned.distance
    errors = parameter_errors(law, learned.truth)
    rows = [
        [str(int(n)), *(cell for name in demo.SPECTRA for cell in _row(law, errors, name, i))]
        for i, n in enumerate(errors["mode"].values)
    ]
    head = ("95 % interval", "z")
    output.table(
        f"Regime {letter}, learned from {learned.title}",
        ("mode", "true lambda", "learned", *head, "true q", "learned", *head),
        rows,
    )
    word = "agrees with" if learned.agrees else "DOES NOT AGREE with"
    output.line(
        f"  The learned law {word} the true one: largest |z| {d['largest_z']:.2f}, "
        f"bound {learned.bound:.2f},\n  {learned.n_undetermined} numbers undetermined.\n"
        f"  KL per path {d['kl_per_path']:.4f} nats; p/(2M) = {d['kl_limit']:.4f} is the average "
        f"of maximum likelihood.\n{_noise_line(learned)}  Fitted in {learned.seconds:.2f} s.\n"
    )


def _noise_line(learned: Learned) -> str:
    """Modes beyond the modelled ones look like noise, so the estimate aims at their sum."""
    std, _, lower, upper = learned.law.parameters["observation_std"].values
    if std == 0:
        return ""
    n = learned.law.dynamics.n_modes
    tail = float(learned.truth.stationary_variance()[n:].sum()) / learned.truth.domain.volume
    return (
        f"  Observation noise {std:.4f} [{lower:.4f}, {upper:.4f}], true {demo.NOISE:g}: the modes "
        f"beyond the {n} modelled\n  count as noise too, which makes "
        f"{np.sqrt(demo.NOISE**2 + tail):.4f}.\n"
    )


def _row(law: Law, errors: xr.Dataset, name: str, i: int) -> tuple[str, ...]:
    estimate, _, lower, upper = law.parameters[name].values[i]
    true, z = float(errors[f"{name}_truth"][i]), float(errors[f"{name}_z"][i])
    score = f"{z:+.2f}" if demo.determined(law, name)[i] else "undetermined"
    return f"{true:.4g}", f"{estimate:.4g}", f"[{lower:.4g}, {upper:.4g}]", score


def show_engines(output: Output, found: dict[str, Compared], floor: float, n_paths: int) -> None:
    """Print the comparison and what it says."""
    rows = [
        [name, f"{c.q_ratio:.3g}", f"{c.kl:.3g}", f"{c.relative_l2:.4f}", f"{c.seconds:.1f}"]
        for name, c in found.items()
    ]
    output.table(
        f"Regime B: the engines on the same {min(n_paths, demo.MOST_PATHS)} paths",
        ("engine", "worst q / true q", "KL per path", "rel L2, reconstruct", "seconds"),
        rows,
    )
    n, k = demo.N_MODES, demo.N_TIME
    output.line(
        f"  {n} modes and {k} functions of time cannot reconstruct better than rel L2 {floor:.4f}; "
        "the exact engine\n  does not truncate time. Dropping the tail reaches that floor too, and "
        "still learns the wrong law.\n"
    )
