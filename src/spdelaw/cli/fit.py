"""``spdelaw fit`` and ``discover``: learn the law of the fields in a file."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from json import loads
from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr

from spdelaw.cli import options
from spdelaw.cli.inputs import (
    DomainOptions,
    PreparationOptions,
    choose_domain,
    columns_text,
    read_source,
)
from spdelaw.cli.laws import (
    domain_name,
    fit_facts,
    law_document,
    show_dynamics,
    show_notes,
    show_plan,
    show_terms,
)
from spdelaw.cli.options import (
    Config,
    DaskWorkers,
    config_lines_in_errors,
    dask_client,
    fixed_values,
    names_of,
    one_of,
    word_or_count,
)
from spdelaw.cli.output import Output, check_law_target, required_target
from spdelaw.cli.shell import Without
from spdelaw.data.io.files import read, read_dataset
from spdelaw.data.io.tables import Columns, is_table
from spdelaw.data.summary import fingerprint
from spdelaw.errors import IdentifiabilityWarning, InputError
from spdelaw.infer.discovery import Discovery, discover
from spdelaw.infer.engines.registry import engine_names
from spdelaw.infer.model import DRIFTS, INITIALS, MEANS, NOISES, OBSERVATION_NOISES, RESTS
from spdelaw.infer.pipeline import fit
from spdelaw.infer.semilinear.layout import SEMILINEAR_NOISES
from spdelaw.law.law import Law
from spdelaw.processes.forcing import Season

# ---------- ``spdelaw fit``: learn the law of the fields in a file


FIT_EXAMPLES = """**Examples**

spdelaw fit heat.nc --domain interval --modes 8 --out heat.law

spdelaw fit sst.zarr --domain interval --bounds 0 360 --boundary periodic --out sst.law

spdelaw fit plate.nc --domain box --sides 0,1,0,2 --boundary neumann --modes 16 --out plate.law

spdelaw fit gappy.nc --observation-noise 0.05 --drift parametric --out gappy.law

spdelaw fit ring.nc --drift dense --noise low_rank --modes 5 --out ring.law

spdelaw fit sst.nc --anomalies month --select longitude=150:270 --out sst.law

spdelaw fit sst.nc --anomalies month --dry-run

spdelaw fit rain.nc --mean constant --modes 6 --out rain.law

spdelaw fit stations.csv --time date --value tmax --station id --lon lon --lat lat --dry-run

spdelaw fit globe.nc --domain sphere --anomalies month --drift normal --out globe.law

spdelaw fit heated.nc --domain interval --forcing heater.nc --modes 8 --out heated.law

spdelaw fit storms.nc --season 365.25 4 --modes 6 --out storms.law

spdelaw fit fronts.nc --terms u,u^3 --modes 16 --out fronts.law

spdelaw fit heat.nc --config fit.yaml --modes 6 --out heat.law

spdelaw fit big.zarr --domain interval --modes 8 --dask local:4 --out big.law

spdelaw fit heat.nc --engine chaos --n-time 16 --tail dropped --modes 8 --out paper.law
"""

#: Modes in the table; `spdelaw show` has all.
SHOWN_MODES = 12


def fit_command(
    *,
    ctx: typer.Context,
    file: options.InFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Law to write, such as heat.law.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print guesses and the prepared data, and do not fit."),
    ] = False,
    table: options.Table,
    domain_options: DomainOptions,
    modes: Annotated[str, typer.Option(help="Modes to report, or auto to choose by BIC.")] = "auto",
    observation_noise: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(OBSERVATION_NOISES)}, its known standard deviation, or the "
            "variable of the file that holds it value by value."
        ),
    ] = "auto",
    initial: Annotated[str, typer.Option(help=f"One of {', '.join(INITIALS)}.")] = "auto",
    drift: Annotated[
        str | None,
        typer.Option(
            help="diagonal (the default), parametric (kappa + nu mu^s; the default beside "
            "--terms), normal (pairs that turn) or dense."
        ),
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            help="diagonal (the default), parametric (scale n^-exponent; the default beside "
            "--terms), low_rank or dense."
        ),
    ] = None,
    terms: Annotated[
        str | None,
        typer.Option(
            help="Terms beyond the linear drift, with commas, such as u,u^3; of several fields "
            "'u: u, u: v, v: u', where --modes counts those of all fields."
        ),
    ] = None,
    fixed: options.Fixed = None,
    noise_rank: Annotated[int, typer.Option(help="Patterns of --noise low_rank.")] = 1,
    nuisance: Annotated[
        str, typer.Option(help="Modes to model but not to report: a number, or auto.")
    ] = "auto",
    rest: Annotated[
        str, typer.Option(help="What the modes leave over: white, memory (per point) or auto.")
    ] = RESTS[0],
    forcing: Annotated[
        Path | None,
        typer.Option(help="File with a known forcing (time, x), in units of the field by time."),
    ] = None,
    season: Annotated[
        tuple[float, int] | None,
        typer.Option(help="Period of the noise, in the data's unit of time, and its parts."),
    ] = None,
    mean: Annotated[
        str,
        typer.Option(
            help="State that the field returns to: zero, constant (estimated), auto (tested for), "
            "or a file with the known mean (x)."
        ),
    ] = MEANS[0],
    engine: Annotated[
        str,
        typer.Option(
            help="exact, chaos, amortized, or one of an installed package.",
            rich_help_panel="Engine",
        ),
    ] = "exact",
    n_time: Annotated[
        int | None,
        typer.Option(help="Functions of time K, not of exact.", rich_help_panel="Engine"),
    ] = None,
    tail: Annotated[
        str | None,
        typer.Option(help="Of chaos: modelled (unbiased) or dropped.", rich_help_panel="Engine"),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="Of amortized: paper, literal or structured.", rich_help_panel="Engine"),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Of amortized.", rich_help_panel="Engine")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Of amortized: folder to resume from.", rich_help_panel="Engine"),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="For data with gaps.", rich_help_panel="Engine")
    ] = None,
    dask: DaskWorkers = None,
    engine_option: Annotated[
        list[str] | None,
        typer.Option(
            help="Any other option of the engine, as name=value.", rich_help_panel="Engine"
        ),
    ] = None,
    variable: options.Variable = None,
    preparation_options: PreparationOptions,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    bootstrap: Annotated[
        int, typer.Option(help="Replicates of a parametric bootstrap; 0 for Fisher information.")
    ] = 0,
    seed: options.Seed = 0,
    config: Config = None,
    force: options.Force = False,
    output: Output,
) -> None:
    """Learn the law of the fields in a file: spectra, initial state, noise, with intervals.

    Fields may have gaps (NaN), noise, irregular times or times of their own for each path;
    a single path is enough. Variable, dims, domain, boundary and unit of time are guessed from
    the file where they are not given, and the guesses are said; --dry-run says them and stops.
    The law is written as a directory, whole or not at all.
    """
    start = time.perf_counter()
    columns = table.columns
    with config_lines_in_errors(ctx):
        target = (
            None if dry_run else check_law_target(required_target(out, "heat.law"), force=force)
        )
        n_modes = word_or_count("--modes", modes, "auto", 1)
        fixed_noise, std = _noise_or_variable(observation_noise, file)
        settings: dict[str, Any] = {
            "observation_noise": fixed_noise,
            "initial": one_of("--initial", initial, INITIALS),
            "noise_rank": noise_rank, "rest": one_of("--rest", rest, RESTS),
            "nuisance": word_or_count("--nuisance", nuisance, "auto", 0),
            "mean": _parse_mean(mean),
            "level": level, "bootstrap": bootstrap, "seed": seed,
            "engine": one_of("--engine", engine, engine_names()),
        }  # fmt: skip
        of_engine = {"n_time": n_time, "tail": tail, "preset": preset, "epochs": epochs,
                     "checkpoint": checkpoint, "threads": threads}  # fmt: skip
        settings |= {key: value for key, value in of_engine.items() if value is not None}
        settings |= _engine_options(engine_option or [])
        if drift is not None:
            settings["drift"] = one_of("--drift", drift, DRIFTS)
        if noise is not None:
            settings["noise"] = one_of("--noise", noise, NOISES)
        if terms is not None:
            settings["terms"] = names_of("--terms", terms)
        if fixed is not None:
            settings["fixed"] = fixed_values("--fixed", fixed)
        if season is not None:
            settings["season"] = Season(*season)
        if forcing is not None:
            settings["forcing"] = read(forcing)
        source = read_source(
            file, variable, preparation_options, domain_options.domain, columns, std
        )
        chosen = choose_domain(domain_options._replace(domain=source.domain), source.fields)
        if target is None:
            show_plan(output, file, source, chosen, n_modes)
            return
        settings |= source.ready(chosen.domain) | {"domain": chosen.domain, "n_modes": n_modes}
        work = output.busy(f"fitting {file}")
        with work as tell, warn_once(output), dask_client(dask) as client:
            law = fit(**settings, executor=client, progress=tell)
    law = with_source(law, file, None if dask else source.fields, columns)
    if std is not None:
        law = law.with_info(data={**law.info["data"], "observation_std": std})
    law.save(target)
    seconds = time.perf_counter() - start
    title = f"Law of {file}: {law.n_modes} modes on {domain_name(law.domain)}"
    show_dynamics(output, title, law, SHOWN_MODES)
    facts = fit_facts(law) | {"domain": f"{domain_name(law.domain)} ({chosen.reason})"}
    guesses = [*source.guesses, *([chosen.reason] if chosen.guessed else [])]
    if guesses:
        output.line(f"Guessed: {'; '.join(guesses)}. Options overrule each of these.\n")
    if source.preparation is not None and law.info.get("preparation"):
        facts["prepared by"] = "; ".join(law.info["preparation"])
    output.facts("", facts | {"file": str(target), "time": f"{seconds:.1f} s"})
    show_notes(output, law)
    output.document(
        command="fit", data=str(file), file=str(target), domain_from=chosen.reason, guesses=guesses,
        seconds=seconds,
        law=law_document(law),
    )  # fmt: skip


def with_source(law: Law, file: Path, fields: xr.DataArray | None, columns: Columns) -> Law:
    """Law with the file and, where the fields are in memory, the fingerprint it was fitted to."""
    data = {"file": str(file)}
    data |= {} if fields is None else {"fingerprint": fingerprint(fields)}
    data |= {"columns": columns_text(columns)} if columns.given else {}
    return law.with_info(data=data)


@contextlib.contextmanager
def warn_once(output: Output) -> Iterator[None]:
    """Silence identifiability warnings where the notes of the law already show them."""
    with warnings.catch_warnings():
        if output.talks or output.json:
            warnings.simplefilter("ignore", IdentifiabilityWarning)
        yield


def _noise_or_variable(text: str, file: Path) -> tuple[str | float, str | None]:
    """Observation noise of the option, or the variable of the file with standard deviations."""
    try:
        return observation_noise_of(text), None
    except InputError:
        if is_table(file) or not file.exists() or text not in read_dataset(file).data_vars:
            raise
        return "auto", text


def observation_noise_of(text: str) -> str | float:
    """A word, or a number, or `InputError`."""
    if text in OBSERVATION_NOISES:
        return text
    try:
        return float(text)
    except ValueError as error:
        expected, got = f"one of {', '.join(OBSERVATION_NOISES)} or a number", repr(text)
        fix = "pass --observation-noise auto"
        raise InputError("--observation-noise", expected=expected, got=got, fix=fix) from error


def _parse_mean(text: str) -> Any:
    """One of the words, or the one variable of a file."""
    if text in MEANS:
        return text
    expected, got = f"one of {', '.join(MEANS)}, or a file with one variable", repr(text)
    dataset = read_dataset(text) if Path(text).exists() else xr.Dataset()
    if len(dataset.data_vars) != 1:
        got = f"{len(dataset.data_vars)} variables in {text}" if dataset.data_vars else got
        raise InputError("--mean", expected=expected, got=got, fix="pass --mean auto")
    field = next(iter(dataset.data_vars.values()))
    single = [dim for dim in ("path", "time") if field.sizes.get(dim) == 1]
    return field.squeeze(single, drop=True)


def _engine_options(texts: list[str]) -> dict[str, Any]:
    """Options by name; numbers, true and false are read as such, everything else is text."""
    out: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name.isidentifier() and sign):
            expected, fix = "name=value", "pass --engine-option epochs=100"
            raise InputError("--engine-option", expected=expected, got=repr(text), fix=fix)
        try:
            out[name] = loads(value)
        except ValueError:
            out[name] = value
    return out


# ---------- ``spdelaw discover``: learn which terms the fields in a file obey


DISCOVER_EXAMPLES = """**Examples**

spdelaw discover fronts.nc --modes 16 --out fronts.law

spdelaw discover fronts.nc --modes 16 --library u,u^2,u^3 --json

spdelaw discover flow.nc --modes 16 --library "u,u u_x,u_x^2" --out flow.law
"""


def discover_command(
    *,
    ctx: typer.Context,
    file: options.InFile,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Law with the chosen terms to write; none by default."),
    ] = None,
    library: Annotated[
        str | None,
        typer.Option(
            help="Terms to choose from, with commas; by default 1,u,u^2,u^3 and products of first "
            "derivatives where the domain has them."
        ),
    ] = None,
    domain_options: DomainOptions,
    modes: Annotated[str, typer.Option(help="Modes of the law, or auto.")] = "auto",
    observation_noise: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(OBSERVATION_NOISES)}, or its known standard deviation."
        ),
    ] = "auto",
    noise: Annotated[
        str, typer.Option(help="parametric (scale n^-exponent) or diagonal.")
    ] = SEMILINEAR_NOISES[0],
    fixed: options.Fixed = None,
    variable: options.Variable = None,
    preparation_options: Annotated[
        PreparationOptions, Without("anomalies", "detrend", "standardise", "area_weights")
    ],
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    bootstrap: Annotated[
        int, typer.Option(help="Resampled records that say how sure the choice is.")
    ] = 200,
    seed: options.Seed = 0,
    config: Config = None,
    force: options.Force = False,
    output: Output,
) -> None:
    """Learn which terms the fields in a file obey, and their law with these terms.

    Every subset of the library is a candidate, the linear law among them; the table compares the
    best by likelihood and BIC, and says how often resampled records choose each. Fields may have
    gaps, noise and times of their own, as for fit.
    """
    start = time.perf_counter()
    with config_lines_in_errors(ctx):
        target = None if out is None else check_law_target(out, force=force)
        n_modes = word_or_count("--modes", modes, "auto", 1)
        settings: dict[str, Any] = {
            "library": None if library is None else names_of("--library", library),
            "noise": one_of("--noise", noise, SEMILINEAR_NOISES),
            "fixed": None if fixed is None else fixed_values("--fixed", fixed),
            "observation_noise": observation_noise_of(observation_noise),
            "level": level,
            "bootstrap": bootstrap,
            "seed": seed,
        }
        source = read_source(file, variable, preparation_options, domain_options.domain, Columns())
        chosen = choose_domain(domain_options._replace(domain=source.domain), source.fields)
        settings["prepare"] = source.preparation
        with output.busy(f"choosing terms of {file}"), warn_once(output):
            discovery = discover(source.data, chosen.domain, n_modes, **settings)
    law = with_source(discovery.law, file, source.fields, Columns())
    if target is not None:
        law.save(target)
    _show_discovery(output, discovery)
    facts = {"domain": f"{domain_name(law.domain)} ({chosen.reason})", "modes": str(law.n_modes)}
    facts |= {} if target is None else {"file": str(target)}
    output.facts("", facts | {"time": f"{time.perf_counter() - start:.1f} s"})
    show_notes(output, law)
    output.document(
        command="discover",
        data=str(file),
        file=None if target is None else str(target),
        domain_from=chosen.reason,
        discovery=discovery.to_dict(),
        law=law_document(law),
    )


def _show_discovery(output: Output, discovery: Discovery) -> None:
    """The sentence, the candidates and the coefficients of the best."""
    rows = []
    for row in discovery.to_dict()["candidates"]:
        log_likelihood = row["log_likelihood"]
        log_likelihood = "not fitted" if log_likelihood is None else f"{log_likelihood:.2f}"
        chosen = "" if row["frequency"] is None else f"{100 * row['frequency']:.0f} %"
        rows.append([row["terms"], log_likelihood, f"{row['bic']:.1f}", chosen])
    output.table(
        discovery.sentence, ["terms", "log-likelihood", "BIC above the best", "chosen"], rows
    )
    show_terms(output, discovery.law)
