"""``spdelaw fit`` and ``discover``: learn the law of the fields in a file."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xarray as xr

import spdelaw.amortized.engine  # noqa: F401  # defines the engine
from spdelaw.checks import one_of
from spdelaw.cli.commands.show import (
    fit_facts,
    law_document,
    show_guesses,
    show_law,
    show_notes,
    show_plan,
    show_table,
    with_source,
)
from spdelaw.cli.inputs import DataOptions
from spdelaw.cli.options import (
    DiscoverModel,
    EngineOptions,
    Given,
    ModelOptions,
    Modes,
    Names,
    NewLaw,
    Settings,
    TermOptions,
)
from spdelaw.cli.output import Output, required_target
from spdelaw.cli.values import refused
from spdelaw.data.io.files import read, read_dataset
from spdelaw.data.io.tables import is_table
from spdelaw.errors import ExecutorError, IdentifiabilityWarning, InputError, MissingExtraError
from spdelaw.infer.discovery import discover
from spdelaw.infer.engines.registry import engine_names
from spdelaw.infer.model import MEANS, OBSERVATION_NOISES, Model
from spdelaw.infer.pipeline import fit
from spdelaw.processes.forcing import Season
from spdelaw.report.tables import candidate_table, domain_text, term_table

# ---------- ``spdelaw fit``: learn the law of the fields in a file


#: Modes in the table; `spdelaw show` has all.
SHOWN_MODES = 12


def fit_command(
    data: DataOptions,
    output: Output,
    model: ModelOptions,
    terms: TermOptions,
    engine_options: EngineOptions,
    out: NewLaw | None = None,
    dry_run: bool = False,
    modes: Modes = "auto",
    engine: str = "exact",
    engine_option: Settings | None = None,
    dask: str | None = None,
    level: float = 0.95,
    bootstrap: int = 0,
    seed: int = 0,
) -> None:
    """Learn the law of the fields in a file: spectra, initial state, noise, with intervals.

    Fields may have gaps (NaN), noise, irregular times or different times for each path; a single
    path is enough. Variable, dimensions, domain, boundary and unit of time are guessed from the
    file where options do not state them, and the guesses are printed; --dry-run prints them and
    stops. The law is a directory; an interrupted fit leaves none behind.

    Options:
        engine: Method of estimation: exact, chaos, amortized, or one of an installed package.
        engine_option: Any other option of the engine, as name=value. The option can be repeated.
        dask: Dask workers for a .zarr file: local:4 starts four on this machine, tcp://host:8786
            connects to a scheduler.
        bootstrap: Number of replicates of a parametric bootstrap; 0 uses the Fisher information.
        drift: ... [default: diagonal; parametric with --terms]
        observation_noise: ... The standard deviation is a number, or the name of a variable with
            one per value.
        forcing: ... Pass a file with the dimensions time and space.
        mean: ... A known field is read from a file.
        terms: ... For several fields write 'u: u, u: v, v: u'; --modes is then their total.
            [default: none, the law is linear]
        epochs: ... [default: 640; 30 with --preset structured]

    Shown first:
        file, out, force, dry_run, variable, domain, modes, anomalies, drift, noise, initial, mean,
        observation_noise, engine, config

    Examples:
        spdelaw fit heat.nc --domain interval --modes 8 --out heat.law
        spdelaw fit sst.zarr --domain interval --bounds 0 360 --boundary periodic --out sst.law
        spdelaw fit plate.nc --domain box --sides 0,1,0,2 --boundary neumann --out plate.law
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
    file = data.file
    target = None if dry_run else required_target(out, file, ".law")
    settings, std = model_words(model, file)
    settings |= terms | engine_options | (engine_option or {})
    settings |= {"engine": one_of("engine", engine, engine_names()), "n_modes": modes}
    settings |= {"level": level, "bootstrap": bootstrap, "seed": seed}
    source = data.read(std, climate=not {"terms", "state_noise"}.intersection(settings))
    chosen = source.choose_domain(patterns=True)
    if target is None:
        show_plan(output, file, source, chosen, modes)
        return
    settings |= source.ready(chosen.domain) | {"domain": chosen.domain}
    work = output.busy(f"fitting {file}")
    with work as tell, warn_once(output), dask_client(dask) as client:
        law = fit(**settings, executor=client, progress=tell)
    law = with_source(law, data, None if dask else source.fields)
    if std is not None:
        law = law.with_info(data={**law.info["data"], "observation_std": std})
    law.save(target, overwrite=True)  # the option --force was checked before
    title = f"Law of {file}: {law.n_modes} modes on {domain_text(law.domain)}"
    show_law(output, title, law, SHOWN_MODES)
    show_guesses(output, source)
    facts = fit_facts(law) | {"domain": f"{domain_text(law.domain)} ({chosen.source})"}
    if source.preparation is not None and law.info.get("preparation"):
        facts["prepared by"] = "; ".join(law.info["preparation"])
    output.facts("", facts | {"file": str(target), "time": f"{output.seconds:.1f} s"})
    show_notes(output, law)
    output.document(
        data=str(file), file=str(target), domain_from=chosen.reason, guesses=source.guesses,
        seconds=output.seconds, law=law_document(law),
    )  # fmt: skip


@contextlib.contextmanager
def warn_once(output: Output) -> Iterator[None]:
    """Silence identifiability warnings where the notes of the law already show them."""
    with warnings.catch_warnings():
        if output.talks or output.json:
            warnings.simplefilter("ignore", IdentifiabilityWarning)
        yield


def model_words(given: Given, file: Path) -> tuple[dict[str, Any], str | None]:
    """Words of a model, checked, and the variable of the file with standard deviations."""
    words, std = dict(given), None
    if "observation_noise" in words:
        words["observation_noise"], std = _noise_or_variable(words["observation_noise"], file)
    if "mean" in words:
        words["mean"] = _parse_mean(words["mean"])
    if "forcing" in words:
        words["forcing"] = read(words["forcing"])
    if "season" in words:
        words["season"] = Season(*words["season"])
    Model(**words)
    return words, std


def _noise_or_variable(text: str, file: Path) -> tuple[str | float, str | None]:
    """Observation noise of the option, or the variable of the file with standard deviations."""
    if text in OBSERVATION_NOISES:
        return text, None
    try:
        return float(text), None
    except ValueError as error:
        if not is_table(file) and text in read_dataset(file).data_vars:
            return "auto", text
        expected = f"one of {', '.join(OBSERVATION_NOISES)} or a number"
        raise refused("--observation-noise", expected, repr(text), "auto") from error


def _parse_mean(text: str) -> Any:
    """One of the words, or the one variable of a file."""
    if text in MEANS:
        return text
    dataset = read_dataset(text) if Path(text).exists() else xr.Dataset()
    if len(dataset.data_vars) != 1:
        expected, got = f"one of {', '.join(MEANS)}, or a file with one variable", repr(text)
        got = f"{len(dataset.data_vars)} variables in {text}" if dataset.data_vars else got
        raise refused("--mean", expected, got, "auto")
    field = next(iter(dataset.data_vars.values()))
    single = [dim for dim in ("path", "time") if field.sizes.get(dim) == 1]
    return field.squeeze(single, drop=True)


# ---------- ``spdelaw discover``: learn which terms the fields in a file obey


def discover_command(
    data: DataOptions,
    output: Output,
    model: DiscoverModel,
    out: NewLaw | None = None,
    library: Names | None = None,
    modes: Modes = "auto",
    noise: str = "diagonal",
    level: float = 0.95,
    bootstrap: int = 200,
    seed: int = 0,
) -> None:
    """Choose the terms of a semilinear equation from a file, and fit the law with them.

    Every subset of the library is a candidate, the linear law included. The table compares the
    best candidates by likelihood and BIC, and shows how often bootstrap samples select each of
    them. Fields may have gaps, noise and different times for each path, as for fit.

    Options:
        out: Law with the chosen terms to write; none is written by default.
        library: Terms to choose from, separated by commas; by default 1,u,u^2,u^3 and products of
            first derivatives where the domain has them.
        modes: Number of modes of the law, or auto to choose it.
        noise: Covariance of the noise: diagonal or parametric (scale n^-exponent).
        bootstrap: Number of bootstrap samples that measure how certain the choice of terms is.

    Shown first:
        file, out, force, variable, domain, modes, library, observation_noise, noise, fixed, config

    Examples:
        spdelaw discover fronts.nc --modes 16 --out fronts.law
        spdelaw discover fronts.nc --modes 16 --library u,u^2,u^3 --json
        spdelaw discover flow.nc --modes 16 --library "u,u u_x,u_x^2" --out flow.law
    """
    settings, std = model_words(model, data.file)
    settings |= {"noise": noise, "level": level, "bootstrap": bootstrap, "seed": seed}
    settings |= {} if library is None else {"library": library}
    source = data.read(std, climate=False)
    chosen = source.choose_domain()
    settings["prepare"] = source.preparation
    with output.busy(f"choosing terms of {data.file}"), warn_once(output):
        discovery = discover(source.data, chosen.domain, modes, **settings)
    law = with_source(discovery.law, data, source.fields)
    if out is not None:
        law.save(out, overwrite=True)
    output.line(discovery.sentence)
    show_table(output, candidate_table(discovery.law))
    show_table(output, term_table(discovery.law))
    show_guesses(output, source)
    facts = {"domain": f"{domain_text(law.domain)} ({chosen.source})", "modes": str(law.n_modes)}
    facts |= {} if out is None else {"file": str(out)}
    output.facts("", facts | {"time": f"{output.seconds:.1f} s"})
    show_notes(output, law)
    output.document(
        data=str(data.file), file=None if out is None else str(out), domain_from=chosen.reason,
        discovery=discovery.to_dict(), law=law_document(law),
    )  # fmt: skip


# ---------- ``--dask``: the executor of a fit to lazy data


#: Seconds to wait for a scheduler to answer.
SCHEDULER_TIMEOUT = 15


@contextlib.contextmanager
def dask_client(where: str | None) -> Iterator[Any]:
    """A Dask client while a command runs; None without the option."""
    if where is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("--dask", "distributed") from error
    kind, _, count = where.partition(":")
    if kind == "local" and count.isdecimal() and int(count) > 0:
        settings: dict[str, Any] = {
            "n_workers": int(count),
            "threads_per_worker": 1,
            "dashboard_address": ":0",
        }
    elif kind in ("tcp", "tls", "ws", "wss") and count.startswith("//"):
        settings = {"address": where, "timeout": SCHEDULER_TIMEOUT}
    else:
        got, fix = repr(where), "pass --dask local:4, or --dask tcp://host:8786"
        expected = "local:4, or the address of a scheduler"
        raise InputError("--dask", expected=expected, got=got, fix=fix)
    try:
        client = Client(**settings)
    except (OSError, TimeoutError, ValueError) as error:
        expected, got = f"a Dask scheduler at {where}", f"none ({error})"
        fix = "start one with dask scheduler, or check the address"
        raise ExecutorError("--dask", expected=expected, got=got, fix=fix) from error
    with client:
        yield client
