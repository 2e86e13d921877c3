"""The demonstration: simulate both regimes, learn their laws back, compare engines, use the laws.

``python -m paper demo`` prints the tables and writes figures and a report.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import typer
import xarray as xr

import spdelaw as sl
from paper.regimes import REGIMES, Regime
from spdelaw import report
from spdelaw.amortized import amortized_reconstruct
from spdelaw.cli.options import OutFolder, PositiveInt
from spdelaw.cli.output import Output
from spdelaw.errors import FileError, IdentifiabilityWarning, InputError
from spdelaw.evaluation import decoder_floor, law_distance
from spdelaw.evaluation.tasks import TierScore, mean_predictor, parameter_errors
from spdelaw.law import chaos_posterior, relative_l2

#: Modes to learn; Regime B has 50.
N_MODES = 8
#: Parameters that are compared with the truth.
SPECTRA = ("eigenvalue", "noise_variance")
#: Two-sided 95 % quantile of a normal, and the false-alarm rate for a correct law.
Z95, FALSE_ALARM_RATE = 1.959963984540054, 1e-4
#: The hard case: number of paths, step between times, share of missing values, noise.
FEW, THIN, HIDDEN, NOISE = 60, 5, 0.3, 0.05
#: Share of the path that a forecast is given, and number of forecast paths.
HISTORY, JUDGED = 0.6, 40
#: Comparison of engines: functions of time, new paths to reconstruct, most training paths.
N_TIME, NEW_PATHS, MOST_PATHS = 16, 50, 200
#: Settings of each engine, by its name in the table.
ENGINES: dict[str, dict[str, Any]] = {
    "exact": {},
    "chaos, tail dropped (the paper's model)": {"engine": "chaos", "tail": "dropped"},
    "amortized, structured": {"engine": "amortized", "preset": "structured"},
}
#: Times at which moments are compared; the table shows the last one.
TIMES = (0.1, 0.5, 1.0)
#: Modes in the table of moments; the verdict is on all modes.
SHOWN = 8


def demo_command(
    output: Output, out: OutFolder = Path("demo"), paths: PositiveInt = 1000, seed: int = 0
) -> None:
    """Simulate the two equations of the paper, learn their laws back, and draw it all.

    Sample moments are compared with closed forms; then the spectra are learned from the
    paths alone, with and without gaps and noise, and used to fill gaps and to forecast.
    Figures and a report go to a folder. Exit code 1 if a law is off.

    Options:
        out: Folder to write to, demo by default; created if it does not exist.
        paths: Number of simulated paths.

    Examples:
        python -m paper demo --out demo
    """
    if paths < 2:
        raise InputError("--paths", expected="at least 2", got="1", fix="pass --paths 1000")
    report.require_figures()
    report.require_report()
    folder = make_folder(out)
    results = [_demonstrate(regime, paths, seed, folder, output) for regime in REGIMES]
    _show_summary(output, paths, results)
    files = [file for result in results for file in result["figures"]]
    output.line("Figures:\n" + "\n".join(f"  {file}" for file in files))
    page = results[-1].pop("report")
    output.line(f"Done in {output.seconds:.1f} s.\nThe report, to open in a browser:\n  {page}")
    output.document(paths=paths, seed=seed, regimes=results, report=page, seconds=output.seconds)
    if not all(_agrees(result) for result in results):
        raise typer.Exit(1)


def make_folder(folder: Path) -> Path:
    """The folder, created where it is missing, or `FileError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        expected, got = "a folder that can be created", f"{folder}: {error.strerror}"
        raise FileError("--out", expected=expected, got=got, fix="choose another folder") from error
    return folder


def _agrees(result: dict[str, Any]) -> bool:
    return result["verdict"]["agrees"] and all(law["agrees"] for law in result["laws"])


def _demonstrate(
    regime: Regime, paths: int, seed: int, folder: Path, output: Output
) -> dict[str, Any]:
    """Run one regime, print its tables, draw its figures; the result is for --json."""
    equation = regime.equation
    with output.progress(f"Regime {regime.letter}") as progress:
        fields = sl.simulate(equation, paths, seed=seed, progress=progress)
    moments = report.compare_moments(fields, equation, TIMES)
    verdict, errors = report.verdict(moments), mean_predictor(fields, equation)
    _show_moments(output, regime, equation, moments, verdict)
    _show_errors(output, regime, errors)
    laws = _learn_all(regime, equation, fields, seed, output)
    used, extra, engines = {}, {}, []
    if len(laws) > 1:
        with output.busy("comparing the engines"):
            compared, floor = compare_engines(fields, equation, seed)
        _show_engines(output, compared, floor, len(fields))
        used = _use(laws[-1], laws[0], seed, folder, output)
        with output.busy("writing the report"):
            file = write_page(laws[-1], seed + 1, folder / "report.html")
        extra = {"report": str(file), "compared": engines_document(compared, floor)}
        engines = [draw_engines(compared, equation, folder / "regime-b-engines.png")]
    figures = _draw(regime, equation, fields, folder)
    figures += _draw_laws(regime, laws, folder) + engines
    return {
        "regime": regime.letter,
        "equation": equation.label,
        "n_modes": equation.n_modes,
        "times": moments["time"].values,
        "moments": {name: array.values for name, array in moments.data_vars.items()},
        "verdict": verdict._asdict(),
        "predict": {
            "exact mean": {"relative_l2": errors.relative_l2, "rmse": errors.rmse},
            f"paper, {regime.baseline}": {
                name: getattr(regime.published, name)[0] for name in ("relative_l2", "rmse")
            },
        },
        "laws": [learned_document(law) for law in laws],
        "use": {name: {"rmse": u.rmse, "coverage": u.coverage} for name, u in used.items()},
        "figures": [str(file) for file in (*figures, *(u.figure for u in used.values()))],
        **extra,
    }


# ------------------------------------------------------------------ learn


class Learned(NamedTuple):
    """A law, its truth and the distance between them."""

    title: str
    law: sl.Law
    truth: sl.SpectralSPDE
    distance: dict[str, Any]
    seconds: float

    @property
    def bound(self) -> float:
        """Largest z-score that chance explains, Bonferroni over both spectra."""
        return float(-scipy.special.ndtri(FALSE_ALARM_RATE / (4 * self.law.n_modes)))

    @property
    def n_undetermined(self) -> int:
        """Numbers without a finite interval: their z-score of zero would hide a failure."""
        return sum(int((~determined(self.law, name)).sum()) for name in SPECTRA)

    @property
    def agrees(self) -> bool:
        """Whether every number is determined and chance explains its error."""
        return self.n_undetermined == 0 and bool(self.distance["largest_z"] < self.bound)


def learn(title: str, data: xr.DataArray, truth: sl.SpectralSPDE, **settings: Any) -> Learned:
    """Fit the exact engine and compare with the truth."""
    start = time.perf_counter()
    settings = {"mean": "zero", "residual": "white"} | settings
    law = sl.fit(data, truth.domain, min(N_MODES, truth.n_modes), **settings)
    return Learned(title, law, truth, law_distance(law, truth), time.perf_counter() - start)


def learn_hard_case(fields: xr.DataArray, truth: sl.SpectralSPDE, seed: int) -> Learned:
    """The same law from few paths with noise and a third of the values missing.

    The settings are the defaults: a setting tuned on these very data would prove nothing.
    """
    few = fields[:FEW, ::THIN]
    noise = NOISE * np.random.default_rng(seed).standard_normal(few.shape)
    data = sl.mask(few + noise, "random", HIDDEN, seed=seed)
    title = (
        f"{len(few)} paths, {few.sizes['time']} times, {100 * HIDDEN:g} % missing, noise {NOISE:g}"
    )
    return learn(title, data, truth)


def determined(law: sl.Law, name: str) -> np.ndarray:
    """Which numbers of a spectrum have a finite interval."""
    return np.asarray(np.isfinite(law.parameters[name].values).all(axis=1))


def learned_document(learned: Learned) -> dict[str, Any]:
    """A learned law for --json."""
    table = learned.law.parameters
    return {
        "title": learned.title, "agrees": learned.agrees, "bound": learned.bound,
        "n_undetermined": learned.n_undetermined,
        "seconds": learned.seconds, **learned.distance,
        "eigenvalue": table["eigenvalue"].values,
        "noise_variance": table["noise_variance"].values,
        "observation_std": table["observation_std"].values,
    }  # fmt: skip


def _learn_all(
    regime: Regime, equation: sl.SpectralSPDE, fields: xr.DataArray, seed: int, output: Output
) -> list[Learned]:
    """The law from complete paths; on the interval also from few, noisy ones with gaps."""
    with output.busy("learning"):
        laws = [learn(f"{len(fields)} complete paths", fields, equation)]
        if regime.letter == "B":
            laws.append(learn_hard_case(fields, equation, seed))
    for law in laws:
        _show_learned(output, regime.letter, law)
    return laws


# ------------------------------------------------------------------ use


class Used(NamedTuple):
    """Result of a law on new paths: error, share of truth inside 95 % bands, figure."""

    rmse: float
    coverage: float
    figure: Path


def fill_gaps(learned: Learned, seed: int, file: Path) -> Used:
    """Reconstruct new noisy paths through large gaps; scored inside the gaps only."""
    clean, gappy = _new_paths(learned, 8, seed, 0.4)
    result = learned.law.reconstruct(gappy)
    figure = report.save_figure(report.plot_reconstruction(gappy, result), file)
    return Used(*_score(result, clean, np.isnan(gappy.values)), figure)


def write_page(learned: Learned, seed: int, file: Path) -> Path:
    """The report of a law on new noisy paths with large gaps."""
    gappy = _new_paths(learned, FEW, seed, HIDDEN)[1]
    source = {"data": f"{FEW} new paths, simulated with seed {seed}, noise and gaps added",
              "law law": f"learned from {learned.title}", "same": "no"}  # fmt: skip
    title = "Stochastic heat equation, learned through gaps and noise"
    return report.write_report(
        file, learned.law, gappy, truth=learned.truth, title=title, source=source
    )


def look_ahead(learned: Learned, seed: int, file: Path) -> Used:
    """Forecast new paths from their first part."""
    fields = sl.simulate(learned.truth, JUDGED, learned.law.times, seed=seed)
    n = int(HISTORY * fields.sizes["time"])
    history, later = fields[:, :n], fields[:, n:]
    result = learned.law.forecast(history, later["time"].values)
    figure = report.plot_forecast(history, result, later, point=1.0)
    everywhere = np.ones(later.shape, dtype=bool)
    return Used(*_score(result, later, everywhere), report.save_figure(figure, file))


def _new_paths(
    learned: Learned, n_paths: int, seed: int, hidden: float
) -> tuple[xr.DataArray, xr.DataArray]:
    """New paths of the truth, and the same with noise and gaps in blocks."""
    clean = sl.simulate(learned.truth, n_paths, learned.law.times, seed=seed)
    noise = NOISE * np.random.default_rng(seed).standard_normal(clean.shape)
    return clean, sl.mask(clean + noise, "blocks", hidden, seed=seed)


def _score(result: xr.Dataset, truth: xr.DataArray, where: np.ndarray) -> tuple[float, float]:
    error = (result["mean"].values - truth.values)[where]
    std = result["std_field"].values[where]  # the truth has no noise
    inside = np.abs(error) <= Z95 * std
    return float(np.sqrt(np.mean(error**2))), float(inside.mean())


def _use(gaps: Learned, full: Learned, seed: int, folder: Path, output: Output) -> dict[str, Used]:
    """Fill gaps with the law learned through gaps; forecast with the one of complete paths."""
    new = seed + 1  # paths that no fit has used
    with output.busy("filling gaps, forecasting"):
        used = {
            "gaps": fill_gaps(gaps, new, folder / "regime-b-reconstruction.png"),
            "forecast": look_ahead(full, new, folder / "regime-b-forecast.png"),
        }
    rows = [[name, f"{u.rmse:.4f}", f"{100 * u.coverage:.1f} %"] for name, u in used.items()]
    output.table(
        "Regime B: the learned laws on new paths", ("task", "RMSE", "truth inside 95 % band"), rows
    )
    return used


# ------------------------------------------------------------------ engines


class Compared(NamedTuple):
    """One engine's law and its scores.

    Attributes:
        law: the learned law.
        q_ratio: learned over true noise variance, the worst mode.
        kl: divergence from the truth per path, in nats.
        relative_l2: error of new paths reconstructed by N modes and K functions of time; without
            a truncation in time for the exact engine.
        seconds: duration of the fit.
    """

    law: sl.Law
    q_ratio: float
    kl: float
    relative_l2: float
    seconds: float


def compare_engines(
    fields: xr.DataArray, truth: sl.SpectralSPDE, seed: int
) -> tuple[dict[str, Compared], float]:
    """Every engine on the same paths, and the floor of the truncated reconstruction."""
    some = fields[:MOST_PATHS]
    new = sl.simulate(truth, NEW_PATHS, fields["time"].values, fields["x"].values, seed=seed + 1)
    compared = {name: _compare(some, new, truth, settings) for name, settings in ENGINES.items()}
    floor = decoder_floor(new, truth.domain, N_MODES, N_TIME, truth.eigenvalues[:N_MODES])
    return compared, floor.relative_l2


def _compare(
    fields: xr.DataArray, new: xr.DataArray, truth: sl.SpectralSPDE, settings: dict[str, Any]
) -> Compared:
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Without the tail, decay and noise of a fast mode are confounded: the table shows it.
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        if settings.get("engine", "exact") in ("exact", "chaos"):
            settings = {"mean": "zero", "residual": "white"} | settings
        law = sl.fit(fields, truth.domain, N_MODES, **settings)
    seconds = time.perf_counter() - start
    q = law.parameters["noise_variance"].sel(statistic="estimate").values
    ratio = q / truth.noise_variance[:N_MODES]
    worst = float(ratio[np.argmax(np.abs(np.log(ratio)))])
    kl = float(law_distance(law, truth)["kl_per_path"])
    return Compared(law, worst, kl, _reconstruction_error(law, new), seconds)


def _reconstruction_error(law: sl.Law, new: xr.DataArray) -> float:
    engine = law.info["engine"]
    if engine == "amortized":
        return float(amortized_reconstruct(law, new).attrs["relative_l2"])
    reconstructed = (
        chaos_posterior(law, new)["reconstruct_truncated"]
        if engine == "chaos"
        else law.reconstruct(new)["mean"]
    )
    return relative_l2(reconstructed.values[:, 1:], new.values[:, 1:])


def engines_document(compared: dict[str, Compared], floor: float) -> dict[str, Any]:
    """The comparison for --json."""
    rows = {
        name: {k: v for k, v in c._asdict().items() if k != "law"} for name, c in compared.items()
    }
    return {"floor": floor, "engines": rows}


# ------------------------------------------------------------------ draw


def draw_law(learned: Learned, file: Path) -> Path:
    """Figure of the learned spectra against the truth."""
    return report.save_figure(report.plot_spectrum(learned.law, learned.truth), file)


def draw_engines(compared: dict[str, Compared], truth: sl.SpectralSPDE, file: Path) -> Path:
    """Figure of every engine's spectra over the true ones."""
    laws = {name: c.law for name, c in compared.items()}
    return report.save_figure(report.plot_ratios(laws, truth), file)


def _draw(
    regime: Regime, equation: sl.SpectralSPDE, fields: xr.DataArray, folder: Path
) -> list[Path]:
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
    return [draw_law(law, folder / f"{name}.png") for law, name in zip(laws, names, strict=False)]


# ------------------------------------------------------------------ print


def _show_summary(output: Output, paths: int, results: list[dict[str, Any]]) -> None:
    """Print the results in plain words."""
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
        text = f"{law['n_undetermined']} numbers could NOT be determined"
    else:
        text = f"all eigenvalues and noise variances within {law['largest_z']:.1f} standard errors"
    return f"    {name}: {text}; KL {law['kl_per_path']:.4f}, on average {law['kl_limit']:.4f}."


def _show_moments(
    output: Output,
    regime: Regime,
    equation: sl.SpectralSPDE,
    moments: xr.Dataset,
    verdict: report.Verdict,
) -> None:
    """Print sample moments of the first modes and their closed form, and the verdict."""
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
    word = "agrees with" if verdict.agrees else "DOES NOT AGREE with"
    output.line(
        f"  The sample {word} the closed form: largest |z| {verdict.largest:.2f}, "
        f"bound {verdict.bound:.2f}\n  ({verdict.n_comparisons} comparisons: {equation.n_modes} "
        f"modes, {moments.sizes['time']} times, mean and variance; "
        f"false-alarm rate {verdict.false_alarm_rate:g}).\n"
    )


def _digits(name: str, value: Any) -> str:
    if name.endswith("_z"):
        return f"{float(value):+.2f}"
    return f"{float(value):.4g}" if abs(value) > 1e-10 else "0"  # zero by symmetry, or decayed


def _show_errors(output: Output, regime: Regime, errors: TierScore) -> None:
    """Print how well the exact mean predicts, against the paper's best baseline."""
    published = regime.published
    predictors = {
        "exact mean, this sample": (errors.relative_l2, errors.rmse),
        f"paper's best baseline, {regime.baseline}": (published.relative_l2[0], published.rmse[0]),
    }
    rows = [[name, *(f"{error:.4f}" for error in both)] for name, both in predictors.items()]
    output.table(
        f"Regime {regime.letter}: tier 'predict' (only the initial state is known)",
        ("predictor", "rel L2", "RMSE"),
        rows,
    )


def _show_learned(output: Output, letter: str, learned: Learned) -> None:
    """Print both spectra with intervals against the truth, and the distance."""
    law, d = learned.law, learned.distance
    errors = parameter_errors(law, learned.truth)
    rows = [
        [str(int(n)), *(cell for name in SPECTRA for cell in _cells(law, errors, name, i))]
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
        f"  Observation noise {std:.4f} [{lower:.4f}, {upper:.4f}], true {NOISE:g}: the modes "
        f"beyond the {n} modelled\n  count as noise too, which makes "
        f"{np.sqrt(NOISE**2 + tail):.4f}.\n"
    )


def _cells(law: sl.Law, errors: xr.Dataset, name: str, i: int) -> tuple[str, ...]:
    estimate, _, lower, upper = law.parameters[name].values[i]
    true, z = float(errors[f"{name}_truth"][i]), float(errors[f"{name}_z"][i])
    score = f"{z:+.2f}" if determined(law, name)[i] else "undetermined"
    return f"{true:.4g}", f"{estimate:.4g}", f"[{lower:.4g}, {upper:.4g}]", score


def _show_engines(
    output: Output, compared: dict[str, Compared], floor: float, n_paths: int
) -> None:
    """Print the comparison and its conclusion."""
    rows = [
        [name, f"{c.q_ratio:.3g}", f"{c.kl:.3g}", f"{c.relative_l2:.4f}", f"{c.seconds:.1f}"]
        for name, c in compared.items()
    ]
    output.table(
        f"Regime B: the engines on the same {min(n_paths, MOST_PATHS)} paths",
        ("engine", "worst q / true q", "KL per path", "rel L2, reconstruct", "seconds"),
        rows,
    )
    output.line(
        f"  {N_MODES} modes and {N_TIME} functions of time cannot reconstruct better than rel L2 "
        f"{floor:.4f}; the exact engine\n  does not truncate time. Dropping the tail reaches that "
        "floor too, and still learns the wrong law.\n"
    )
