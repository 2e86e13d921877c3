"""``spdelaw fit`` and ``discover``: learn the law of the fields in a file."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from json import loads
from pathlib import Path
from typing import Any

import xarray as xr

from spdelaw.cli.commands import Discover, Fit
from spdelaw.cli.inputs import choose_domain, columns_text, read_source
from spdelaw.cli.laws import (
    domain_name,
    fit_facts,
    law_document,
    show_dynamics,
    show_notes,
    show_plan,
    show_terms,
)
from spdelaw.cli.options import Given, dask_client, names_of, one_of, word_or_count
from spdelaw.cli.output import Output, check_law_target, required_target
from spdelaw.data.io.files import read, read_dataset
from spdelaw.data.io.tables import Columns, is_table
from spdelaw.data.summary import fingerprint
from spdelaw.errors import IdentifiabilityWarning, InputError
from spdelaw.infer.discovery import Discovery, discover
from spdelaw.infer.engines.registry import engine_names
from spdelaw.infer.model import MEANS, OBSERVATION_NOISES, Model
from spdelaw.infer.pipeline import fit
from spdelaw.infer.semilinear.layout import SEMILINEAR_NOISES
from spdelaw.law.law import Law
from spdelaw.processes.forcing import Season

# ---------- ``spdelaw fit``: learn the law of the fields in a file


#: Modes in the table; `spdelaw show` has all.
SHOWN_MODES = 12


def fit_command(call: Fit) -> None:
    """Fit a law to the fields of a file and write it."""
    start = time.perf_counter()
    file, columns, output = call.file, call.table.columns, call.output
    target = None
    if not call.dry_run:
        target = check_law_target(required_target(call.out, "heat.law"), force=call.force)
    n_modes = word_or_count("--modes", call.modes, "auto", 1)
    words, std = _model_words(call.model, file)
    settings = words | call.terms | call.settings | _engine_options(call.engine_option or [])
    settings |= {"engine": one_of("--engine", call.engine, engine_names())}
    settings |= {"level": call.level, "bootstrap": call.bootstrap, "seed": call.seed}
    source = read_source(
        file, call.variable, call.preparation, call.along, call.domain.domain, columns, std
    )
    chosen = choose_domain(call.domain._replace(domain=source.domain), source.fields)
    if target is None:
        show_plan(output, file, source, chosen, n_modes)
        return
    settings |= source.ready(chosen.domain) | {"domain": chosen.domain, "n_modes": n_modes}
    work = output.busy(f"fitting {file}")
    with work as tell, warn_once(output), dask_client(call.dask) as client:
        law = fit(**settings, executor=client, progress=tell)
    law = with_source(law, file, None if call.dask else source.fields, columns)
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


def _model_words(given: Given, file: Path) -> tuple[dict[str, Any], str | None]:
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


def discover_command(call: Discover) -> None:
    """Choose terms for the fields of a file and write the law."""
    start = time.perf_counter()
    file, output = call.file, call.output
    target = None if call.out is None else check_law_target(call.out, force=call.force)
    n_modes = word_or_count("--modes", call.modes, "auto", 1)
    words, _ = _model_words(call.model, file)
    settings = words | {"noise": one_of("--noise", call.noise, SEMILINEAR_NOISES)}
    settings |= {"level": call.level, "bootstrap": call.bootstrap, "seed": call.seed}
    if call.library is not None:
        settings["library"] = names_of("--library", call.library)
    source = read_source(
        file, call.variable, call.preparation, call.along, call.domain.domain, Columns()
    )
    chosen = choose_domain(call.domain._replace(domain=source.domain), source.fields)
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
