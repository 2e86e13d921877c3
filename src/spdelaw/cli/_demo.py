"""``spdelaw demo``: both regimes of the paper simulated, checked, learned and drawn."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr

from spdelaw import report
from spdelaw.cli import _options
from spdelaw.cli._demo_show import (
    show_engines,
    show_errors,
    show_learned,
    show_moments,
    show_summary,
)
from spdelaw.cli._options import positive
from spdelaw.cli._output import Output
from spdelaw.equation import SpectralSPDE
from spdelaw.errors import FileError, InputError
from spdelaw.evaluation import mean_predictor
from spdelaw.paper import demo
from spdelaw.paper.demo import Learned, Used
from spdelaw.paper.regimes import REGIMES, Regime
from spdelaw.simulation import simulate

EXAMPLES = """**Example**

spdelaw demo --out demo
"""

#: When the moments are compared; the table shows the last.
TIMES = (0.1, 0.5, 1.0)


def command(
    *,
    out: _options.OutFolder = Path("demo"),
    paths: Annotated[int, typer.Option("--paths", hidden=True)] = 1000,
    seed: _options.Seed = 0,
    output: Output,
) -> None:
    """Simulate the two equations of the paper, learn their laws back, and draw it all.

    Sample moments are compared with closed forms; then the spectra are learned from the
    paths alone, with and without gaps and noise, and used to fill gaps and to forecast.
    Figures and a report go to a folder. Exit code 1 if a law is off.
    """
    start = time.perf_counter()
    if positive("--paths", paths) < 2:
        raise InputError("--paths", expected="at least 2", got="1", fix="pass --paths 1000")
    report.require_figures()
    report.require_report()
    folder = make_folder(out)
    results = [_run(regime, paths, seed, folder, output) for regime in REGIMES]
    show_summary(output, paths, results)
    files = [file for result in results for file in result["figures"]]
    output.line("Figures:\n" + "\n".join(f"  {file}" for file in files))
    page = results[-1].pop("report")
    seconds = time.perf_counter() - start
    output.line(f"Done in {seconds:.1f} s.\nThe report, to open in a browser:\n  {page}")
    output.document(
        command="demo", paths=paths, seed=seed, regimes=results, report=page, seconds=seconds
    )
    if not all(_is_right(result) for result in results):
        raise typer.Exit(1)


def _is_right(result: dict[str, Any]) -> bool:
    return result["verdict"]["agrees"] and all(law["agrees"] for law in result["laws"])


def _run(regime: Regime, paths: int, seed: int, folder: Path, output: Output) -> dict[str, Any]:
    equation = regime.equation
    with output.progress(f"Regime {regime.letter}") as progress:
        fields = simulate(equation, paths, seed=seed, progress=progress)
    moments = report.compare_moments(fields, equation, TIMES)
    answer, errors = report.verdict(moments), mean_predictor(fields, equation)
    show_moments(output, regime, equation, moments, answer)
    show_errors(output, regime, errors)
    laws = _learn(regime, equation, fields, seed, output)
    used, extra, engines = {}, {}, []
    if len(laws) > 1:
        with output.busy("comparing the engines"):
            compared, floor = demo.compare_engines(fields, equation, seed)
        show_engines(output, compared, floor, len(fields))
        used = _use(laws[-1], laws[0], seed, folder, output)
        with output.busy("writing the report"):
            file = demo.write_page(laws[-1], seed + 1, folder / "report.html")
        extra = {"report": str(file), "compared": demo.engines_document(compared, floor)}
        engines = [demo.draw_engines(compared, equation, folder / "regime-b-engines.png")]
    figures = _draw(regime, equation, fields, folder)
    figures += _draw_laws(regime, laws, folder) + engines
    return {
        "regime": regime.letter,
        "equation": equation.label,
        "n_modes": equation.n_modes,
        "times": moments["time"].values,
        "moments": {name: array.values for name, array in moments.data_vars.items()},
        "verdict": answer._asdict(),
        "predict": {
            "exact mean": {"relative_l2": errors.relative_l2, "rmse": errors.rmse},
            f"paper, {regime.baseline}": {
                name: getattr(regime.published, name)[0] for name in ("relative_l2", "rmse")
            },
        },
        "laws": [demo.learned_document(law) for law in laws],
        "use": {name: {"rmse": u.rmse, "coverage": u.coverage} for name, u in used.items()},
        "figures": [str(file) for file in (*figures, *(u.figure for u in used.values()))],
        **extra,
    }


def _learn(
    regime: Regime, equation: SpectralSPDE, fields: xr.DataArray, seed: int, output: Output
) -> list[Learned]:
    """The law from complete paths; on the interval also from few, noisy ones with gaps."""
    with output.busy("learning"):
        laws = [demo.learn(f"{len(fields)} complete paths", fields, equation)]
        if regime.letter == "B":
            laws.append(demo.learn_hard_case(fields, equation, seed))
    for law in laws:
        show_learned(output, regime.letter, law)
    return laws


def _use(gaps: Learned, full: Learned, seed: int, folder: Path, output: Output) -> dict[str, Used]:
    """Fill gaps with the law learned through gaps; forecast with the one of complete paths."""
    new = seed + 1  # paths that no fit has seen
    with output.busy("filling gaps, forecasting"):
        used = {
            "gaps": demo.fill_gaps(gaps, new, folder / "regime-b-reconstruction.png"),
            "forecast": demo.look_ahead(full, new, folder / "regime-b-forecast.png"),
        }
    rows = [[name, f"{u.rmse:.4f}", f"{100 * u.coverage:.1f} %"] for name, u in used.items()]
    output.table(
        "Regime B: the learned laws on new paths", ("task", "RMSE", "truth inside 95 % band"), rows
    )
    return used


def _draw(regime: Regime, equation: SpectralSPDE, fields: xr.DataArray, folder: Path) -> list[Path]:
    figures = {
        "fields": report.plot_fields(fields, equation),
        "variance": report.plot_variance(fields, equation),
        "spectrum": report.plot_energy_spectrum(fields, equation),
    }
    stem = f"regime-{regime.letter.lower()}"
    return [report.save_figure(f, folder / f"{stem}-{name}.png") for name, f in figures.items()]


def _draw_laws(regime: Regime, laws: list[Learned], folder: Path) -> list[Path]:
    stem = f"regime-{regime.letter.lower()}-law"
    names = (stem, f"{stem}-gaps")
    return [
        demo.draw_law(law, folder / f"{name}.png") for law, name in zip(laws, names, strict=False)
    ]


def make_folder(folder: Path) -> Path:
    """The folder, made where it is missing, or `FileError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        expected, got = "a folder that can be made", f"{folder}: {error.strerror}"
        raise FileError("--out", expected=expected, got=got, fix="choose another folder") from error
    return folder
