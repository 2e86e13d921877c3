"""``spdelaw demo``: both regimes of the paper, checked against closed forms and drawn."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, cast

import typer
import xarray as xr

from spdelaw import report
from spdelaw.cli import _options
from spdelaw.cli._options import positive
from spdelaw.cli._output import Output
from spdelaw.cli._regimes import REGIMES, Errors, Regime, mean_predictor
from spdelaw.equation import SpectralSPDE
from spdelaw.errors import FileError, InputError
from spdelaw.simulate import simulate

EXAMPLES = """**Example**

spdelaw demo --out demo
"""

#: When the moments are compared; the table shows the last.
TIMES = (0.1, 0.5, 1.0)
#: Modes that the table shows; the verdict is on all.
SHOWN = 8


def command(
    out: _options.OutFolder = Path("demo"),
    paths: Annotated[int, typer.Option("--paths", hidden=True)] = 1000,
    seed: _options.Seed = 0,
    json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Simulate the two equations of the paper, check them and draw them.

    Sample means and variances of the modes are compared with their closed forms; figures
    of paths, variance and energy spectrum go to a folder. Exit code 1 if a law is off.
    """
    start, output = time.perf_counter(), Output(json, quiet)
    if positive("--paths", paths) < 2:
        raise InputError("--paths", expected="at least 2", got="1", fix="pass --paths 1000")
    report.require_figures()
    folder = _make_folder(out)
    results = [_run(regime, paths, seed, folder, output) for regime in REGIMES]
    files = [file for result in results for file in result["figures"]]
    output.line("Figures:\n" + "\n".join(f"  {file}" for file in files))
    seconds = time.perf_counter() - start
    output.line(f"Done in {seconds:.1f} s.")
    output.document(command="demo", paths=paths, seed=seed, regimes=results, seconds=seconds)
    if not all(result["verdict"]["agrees"] for result in results):
        raise typer.Exit(1)


def _run(regime: Regime, paths: int, seed: int, folder: Path, output: Output) -> dict[str, Any]:
    equation = regime.equation
    with output.progress(f"Regime {regime.letter}") as progress:
        fields = cast(xr.DataArray, simulate(equation, paths, seed=seed, progress=progress))
    moments = report.compare_moments(fields, equation, TIMES)
    answer, errors = report.verdict(moments), mean_predictor(fields, equation)
    _show_moments(output, regime, equation, moments, answer)
    _show_errors(output, regime, errors)
    return {
        "regime": regime.letter,
        "equation": equation.label,
        "n_modes": equation.n_modes,
        "times": moments["time"].values,
        "moments": {name: array.values for name, array in moments.data_vars.items()},
        "verdict": answer._asdict(),
        "predict": {
            "exact mean": errors._asdict(),
            f"paper, {regime.baseline}": regime.published._asdict(),
        },
        "figures": [str(file) for file in _draw(regime, equation, fields, folder)],
    }


def _draw(regime: Regime, equation: SpectralSPDE, fields: xr.DataArray, folder: Path) -> list[Path]:
    figures = {
        "fields": report.plot_fields(fields, equation),
        "variance": report.plot_variance(fields, equation),
        "spectrum": report.plot_energy_spectrum(fields, equation),
    }
    stem = f"regime-{regime.letter.lower()}"
    return [report.save_figure(f, folder / f"{stem}-{name}.png") for name, f in figures.items()]


def _show_moments(
    output: Output,
    regime: Regime,
    equation: SpectralSPDE,
    moments: xr.Dataset,
    answer: report.Verdict,
) -> None:
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


def _show_errors(output: Output, regime: Regime, errors: Errors) -> None:
    rows = [
        [name, f"{e.relative_l2:.4f}", f"{e.rmse:.4f}"]
        for name, e in (
            ("exact mean, this sample", errors),
            (f"paper's best baseline, {regime.baseline}", regime.published),
        )
    ]
    output.table(
        f"Regime {regime.letter}: tier 'predict' (only the initial state is known)",
        ("predictor", "rel L2", "RMSE"),
        rows,
    )


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            "--out", expected="a folder that can be made", got=f"{folder}: {error.strerror}",
            fix="choose another folder",
        ) from error  # fmt: skip
    return folder
