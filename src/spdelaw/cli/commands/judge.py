"""``spdelaw evaluate``, ``compare``, ``skill`` and ``report``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw import report
from spdelaw.cli.commands.fit import model_words
from spdelaw.cli.commands.show import with_source
from spdelaw.cli.inputs import (
    DataOptions,
    LawAndData,
    LawsAndData,
    check_same_domain,
    read_fields,
    stored_equation,
)
from spdelaw.cli.options import (
    DataFile,
    Forecasts,
    JsonFile,
    NewPage,
    Observations,
    PositiveInt,
    SeveralModes,
    SkillModel,
    SkillSettings,
    TermOptions,
)
from spdelaw.cli.output import Output, SkillTargets, file_size, file_text, in_options
from spdelaw.data.io.files import write
from spdelaw.data.summary import fingerprint
from spdelaw.errors import IdentifiabilityWarning, InputError
from spdelaw.evaluation.comparison import compare
from spdelaw.evaluation.forecast_skill import Verification, skill
from spdelaw.evaluation.scorecard import evaluate
from spdelaw.evaluation.verification import verify
from spdelaw.infer.pipeline import NONLINEAR_WORDS
from spdelaw.law.law import Law
from spdelaw.processes.linear import Linear
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.report.figures.predictions import plot_skill

# ---------- ``spdelaw evaluate``: how well a law describes new fields


class TruthOptions(NamedTuple):
    """Where the true equation of simulated data comes from."""

    truth: DataFile | None = None
    no_truth: bool = False

    def find(self, file: Path, fields: xr.DataArray, law: Law) -> tuple[SpectralSPDE | None, str]:
        """The true equation, where one is known, checked against the law, and its source."""
        given = self.truth
        if given is not None and self.no_truth:
            expected = "either --truth or --no-truth"
            raise InputError("--truth", expected=expected, got="both", fix="leave one out")
        if self.no_truth or (given is None and not isinstance(law.dynamics, Linear)):
            return None, "not used"
        source = file if given is None else given
        equation = stored_equation(fields if given is None else read_fields(given))
        if equation is None and given is None:
            return None, "unknown"
        if equation is None:
            expected, fix = "a simulated file, with its equation", "pass a file of spdelaw simulate"
            raise InputError("--truth", expected=expected, got=f"none in {source}", fix=fix)
        check_same_domain(f"equation of {source}", equation.domain, law.domain)
        if equation.n_modes < law.n_modes:
            expected = f"an equation of at least {law.n_modes} modes, as the law has"
            fix = "pass --no-truth, or fit fewer modes"
            raise InputError("--truth", expected=expected, got=str(equation.n_modes), fix=fix)
        name = equation.label or "equation"
        return equation, f"{name}, {equation.n_modes} modes, from {source}"


def evaluate_command(source: LawAndData, truth: TruthOptions, output: Output) -> None:
    """Evaluate a law on held-out fields: errors, calibration, model checks.

    Simulated files contain their equation; the law is then also compared with the truth.

    Examples:
        spdelaw evaluate heat.law test.nc
        spdelaw evaluate heat.law test.nc --truth heat.nc --json
    """
    law, fields = source.read()
    equation, reference = truth.find(source.file, fields, law)
    with output.busy(f"evaluating {source.law}"):
        card = evaluate(law, fields, equation)
    output.line(f"{source.law} on {source.file}; truth: {reference}\n")
    output.line(in_options(repr(card)))
    output.document(
        law=str(source.law), data=str(source.file), truth=reference, verdict=card.verdict,
        advice=card.advice, scorecard=card.to_dict(),
    )  # fmt: skip


# ---------- ``spdelaw compare``: which of several laws to use


def compare_command(
    source: LawsAndData, output: Output, level: float = 0.95, seed: int = 0
) -> None:
    """Compare laws: likelihoods, nested tests, scores on new data, parameters side by side.

    Likelihoods are compared if they are densities of the same values; otherwise data are needed.
    The last line says which law to use, and how certain that is.

    Options:
        laws: Two or more laws written by spdelaw fit; a file of new data may follow them.

    Examples:
        spdelaw compare few.law many.law
        spdelaw compare diagonal.law dense.law new.nc
        spdelaw compare a.law b.law c.law --data new.nc --json
    """
    laws, file, fields = source.read()
    if len(laws) < 2:
        fix = "spdelaw compare a.law b.law"
        raise InputError("LAW", expected="at least two laws", got=str(len(laws)), fix=fix)
    with output.busy(f"comparing {len(laws)} laws"):
        comparison = compare(*laws.values(), data=fields, names=tuple(laws), level=level, seed=seed)
    output.table("Laws compared", ["", *comparison.names], comparison.table)
    for note in [*comparison.notes, *_training_data_notes(laws, fields)]:
        output.line(f"note: {note}")
    output.line(comparison.sentence)
    output.document(
        files=[str(path) for path in source.laws[: len(laws)]],
        data=None if file is None else str(file),
        **comparison.to_dict(),
    )


def _training_data_notes(laws: dict[str, Law], fields: Any) -> list[str]:
    """A note about laws fitted to these very data, where more parameters look better."""
    if fields is None:
        return []
    first = next(iter(laws.values()))
    data_fingerprint = fingerprint(first.observe(fields).labelled)
    names = [name for name, law in laws.items() if _fingerprint_of(law) == data_fingerprint]
    if not names:
        return []
    return [
        f"{' and '.join(names)} fitted to these data, on which more modes always look better. "
        "Compare on data of other times, or use spdelaw skill"
    ]


def _fingerprint_of(law: Law) -> str | None:
    """Fingerprint of the data that a law was fitted to; None where it stores none."""
    learned_from = law.info.get("data")
    return learned_from.get("fingerprint") if isinstance(learned_from, dict) else None


# ---------- ``spdelaw skill``: hindcasts, scored together with reference methods


def skill_command(
    data: DataOptions,
    targets: SkillTargets,
    output: Output,
    model: SkillModel,
    terms: TermOptions,
    settings: SkillSettings,
    modes: SeveralModes = "auto",
) -> None:
    """Score forecasts of the past against climatology, persistence, damped persistence and a LIM.

    Each forecast uses earlier times only: law, climatology and EOFs are fitted again, --refits
    times in all. --domain eof uses EOFs of the data as modes. RMSE, CRPS, log score and coverage
    have intervals from a bootstrap over blocks of forecasts.

    Options:
        modes: Number of modes, several to choose from, separated by commas, or auto.
        domain: ... Write eof for EOFs of the data; by default both kinds of modes are compared.
        drift: ... [default: diagonal and, for EOFs, dense are compared]
        noise: ... [default: that of the drift]
        initial: ... [default: stationary for EOFs, else auto]
        observation_noise: ... The standard deviation is a number, or the name of a variable with
            one per value.
        nuisance: ... [default: 0 for EOFs, else auto]
        mean: ... A known field is read from a file.
        terms: ... For several fields write 'u: u, u: v, v: u'; --modes is then their total.
            [default: none, the law is linear]
        residual: ... [default: auto]
        leads: Numbers of steps to forecast ahead, separated by commas.
        origins: Training data before each forecast: expanding (all earlier times) or rolling (a
            window of constant length).
        first: Times before the first forecast, as a number or as a share of all times.
        refits: Number of times that law and reference methods are fitted.
        most_origins: Largest number of forecasts, evenly distributed over the record.
        level: Probability that an interval contains the true score.
        seed: Seed of the bootstrap: the same seed gives the same intervals.

    Shown first:
        file, out, save_law, force, figure, variable, domain, modes, anomalies, leads, first,
        refits, drift, noise, config

    Examples:
        spdelaw skill sst.nc --anomalies month --leads 1,3,6,12 --save-law best.law
        spdelaw skill sst.nc --domain eof --anomalies month --modes 2,4,8 --drift dense
        spdelaw skill tmax.csv --time date --value tmax --lon lon --lat lat --anomalies dayofyear
        spdelaw skill heat.nc --modes 4 --leads 1,5 --out forecasts.nc --figure skill.png
    """
    targets.check()
    if targets.figure is not None:
        report.require_figures()
    words, std = model_words(model, data.file)
    words |= terms
    source = data.read(std, climate=NONLINEAR_WORDS.isdisjoint(words))
    is_open = source.preparation is not None and not any(data.domain)
    with output.progress(f"forecasting {data.file}") as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        scores = skill(
            source.data,
            None if is_open else source.choose_domain(patterns=True).domain,
            modes, prepare=source.preparation, progress=progress, **words, **settings,
        )  # fmt: skip
    written = {}
    if targets.save_law is not None:
        with_source(scores.law, data, source.fields).save(targets.save_law, overwrite=True)
        written["law"] = f"{targets.save_law}, fitted to all data"
    if targets.out is not None:
        write(scores.forecasts, targets.out)
        written["forecasts"] = file_text(targets.out)
    if targets.figure is not None:
        report.save_figure(plot_skill(scores), targets.figure)
        written["figure"] = str(targets.figure)
    output.line(f"{scores.title}, {data.file}")
    guesses = [f"guessed: {'; '.join(source.guesses)}"] if source.guesses else []
    _show_scores(output, scores, *guesses)
    texts = {k: v if np.ndim(v) == 0 else ",".join(v) for k, v in scores.about["fit"].items()}
    options = in_options(" ".join(f"{k}='{text}'" for k, text in texts.items()), ("domain",))
    output.line(f"the law: {options}. Fit it with these options, or write it with --save-law.")
    output.facts("", written | {"time": f"{output.seconds:.1f} s"})
    output.document(
        data=str(data.file), guesses=source.guesses, seconds=output.seconds,
        file=None if targets.out is None else str(targets.out),
        figure=None if targets.figure is None else str(targets.figure),
        **scores.to_dict(),
    )  # fmt: skip


# ---------- ``spdelaw verify``: forecasts in a file against observations


def verify_command(
    forecasts: Forecasts,
    observations: Observations,
    output: Output,
    variable: str | None = None,
    anomalies: str = "mean",
    adjust: bool = True,
    level: float = 0.95,
    seed: int = 0,
) -> None:
    """Score forecasts against observations, together with climatology and persistence.

    Forecasts have a start and a lead, as hindcasts do, and come with members or, from spdelaw
    forecast, with mean and standard deviation.

    Options:
        forecasts: File of forecasts, of spdelaw forecast or of a model with several members.
        observations: File with the same field over time, at the same places.
        anomalies: Climatology of the observations: mean, month, dayofyear, hour or month+hour.
        adjust: Subtract the mean error of the other starts at each lead and point.

    Examples:
        spdelaw verify ahead.nc observed.nc
        spdelaw verify hindcast.nc observed.nc --variable SST --anomalies month
    """
    with output.busy(f"verifying {forecasts}"):
        scores = verify(
            str(forecasts), str(observations), variable=variable, anomalies=anomalies,
            adjust=adjust, level=level, seed=seed,
        )  # fmt: skip
    output.line(f"{scores.title}: {forecasts} against {observations}")
    _show_scores(output, scores)
    output.document(
        forecasts=str(forecasts), observations=str(observations), seconds=output.seconds,
        **scores.to_dict(),
    )  # fmt: skip


def _show_scores(output: Output, scores: Verification, *more: str) -> None:
    """Print facts, tables and verdict."""
    for fact in [*scores.facts, *more]:
        output.line(f"  {fact}")
    output.line("")
    for header, rows in scores.tables():
        output.table("", header, rows)
    output.line(scores.verdict)


# ---------- ``spdelaw report``: one HTML file that shows a law and how it describes data


def report_command(
    source: LawsAndData,
    out: NewPage,
    truth: TruthOptions,
    output: Output,
    title: str | None = None,
    skill: JsonFile | None = None,
    max_paths: PositiveInt = 100,
    seed: int = 0,
) -> None:
    """Write one HTML page about a law: estimates, intervals, model checks, interactive figures.

    The page opens offline in any browser, can be printed, and has a light and a dark theme. With
    several laws the page is about the first and compares the others with it.

    Options:
        laws: Law written by spdelaw fit, further laws to compare it with, and a file of data.
        title: Heading of the page; by default it names the law and the data.
        skill: JSON document that spdelaw skill --json printed, to show its scores too.
        max_paths: Largest number of paths to use.

    Examples:
        spdelaw report heat.law heat.nc --out report.html
        spdelaw report sst.law sst.nc --skill skill.json --out report.html
        spdelaw report exact.law chaos.law --data unseen.nc --out engines.html
    """
    report.require_report()
    scores = None if skill is None else report.read_skill(skill)
    laws, file, fields = source.read()
    if file is None or fields is None:
        fix = "spdelaw report a.law data.nc --out report.html"
        raise InputError("DATA", expected="a file of data", got="none", fix=fix)
    first = next(iter(laws.values()))
    equation, reference = truth.find(file, fields, first)
    observed = first.observe(fields)
    about = {"data": str(file)}
    about |= {f"law {name}": str(path) for name, path in zip(laws, source.laws, strict=False)}
    if _fingerprint_of(first) is not None:
        same = _fingerprint_of(first) == fingerprint(observed.labelled)
        about["same"] = "yes" if same else "no"
    with output.busy(f"writing {out}"):
        report.write_report(
            out, laws, observed, truth=equation, title=title, source=about, skill=scores,
            max_paths=max_paths, seed=seed,
        )  # fmt: skip
    paths = [str(path) for path in source.laws[: len(laws)]]
    output.facts(
        f"Report on {', '.join(paths)}",
        {"data": str(file), "truth": reference, "page": file_text(out),
         "time": f"{output.seconds:.1f} s", "open": out.resolve().as_uri()},
    )  # fmt: skip
    output.document(
        laws=paths, data=str(file), truth=reference, file=str(out), bytes=file_size(out),
        seconds=output.seconds,
    )  # fmt: skip
