"""``spdelaw info`` and ``show``: describe a file or a law; show the plan of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.cli.inputs import ChosenDomain, DataOptions, Source, read_fields, shown_time
from spdelaw.cli.options import DataFile, LawFile, Names
from spdelaw.cli.output import Output, file_size, file_text, human_size, in_options, shape
from spdelaw.data.clock import step_of
from spdelaw.data.fields import as_fields
from spdelaw.data.io.files import has_fields, read, read_raw
from spdelaw.data.io.tables import Columns
from spdelaw.data.prepare import Preparation
from spdelaw.data.quality import hints, suspect_fills
from spdelaw.data.recognise import recognise, scattered_places
from spdelaw.data.summary import describe, fingerprint
from spdelaw.law.io import load
from spdelaw.law.law import Law
from spdelaw.report.plots import Table
from spdelaw.report.tables import (
    domain_text,
    eigenmode_table,
    law_facts,
    mode_table,
    scalar_table,
    term_table,
)

# ---------- Tables and facts of a law


def show_law(output: Output, title: str, law: Law, most: int | None = None) -> None:
    """Tables of the modes, of the eigenmodes of a drift that couples modes, and of the terms."""
    output.line(title)
    for table in (eigenmode_table(law), mode_table(law), term_table(law)):
        show_table(output, table, most)


def show_table(output: Output, table: Table, most: int | None = None) -> None:
    """Print the first rows of a table that has any."""
    if not table.rows:
        return
    output.table(table.caption, table.header, table.rows[:most])
    left_out = len(table.rows[len(table.rows) if most is None else most :])
    if left_out:
        output.line(f"  ... {left_out} more {table.header[0]}s: spdelaw show lists all.\n")


def fit_facts(law: Law) -> dict[str, str]:
    """Facts about a law, with the parameters that belong to no mode."""
    return law_facts(law) | {row[0]: " ".join(row[1:]) for row in scalar_table(law).rows}


def with_source(law: Law, options: DataOptions, fields: xr.DataArray | None) -> Law:
    """Law with the file and, where the fields are in memory, the fingerprint it was fitted to."""
    data = {"file": str(options.file)}
    data |= {} if fields is None else {"fingerprint": fingerprint(fields)}
    return law.with_info(data=data)


def show_notes(output: Output, law: Law) -> None:
    """Print the notes of the law, a line each."""
    for note in law.info.notes:
        output.line(f"note: {in_options(note)}")


def law_document(law: Law) -> dict[str, Any]:
    """Law as plain data for --json."""
    table = law.parameters
    return {
        "domain": law.domain.to_dict(),
        "n_modes": law.n_modes,
        "level": table.attrs["interval_level"],
        "parameters": {
            str(name): {str(s): values.sel(statistic=s).values for s in table["statistic"].values}
            for name, values in table.data_vars.items()
        },
        **({"terms": table["term"].values} if "term" in table.sizes else {}),
        "info": dict(law.info),
    }


def show_guesses(output: Output, source: Source) -> None:
    """Print what was guessed about a file, in one line."""
    if source.guesses:
        output.line(f"Guessed: {'; '.join(source.guesses)}. Options override these guesses.\n")


# ---------- ``--dry-run``: the data and assumptions of a fit, without fitting


def show_plan(
    output: Output, file: Path, source: Source, chosen: ChosenDomain, n_modes: int | str
) -> None:
    """Guesses, preparation, shape of the prepared data, domain, and what looks unintended."""
    how, fields = source.preparation, source.fields
    affine = how is not None and how.is_affine
    done = how.in_words() if how is not None else []
    values = np.asarray(fields.values)
    observed = values[np.isfinite(values)]
    sizes = {str(d): int(n) for d, n in fields.sizes.items()}
    missing = 1.0 - observed.size / values.size
    notes, domain = hints(fields, affine), chosen.domain
    clock = dict(fields["time"].attrs)
    output.facts(f"{file}: what a fit would use", {
        "variable": f"{fields.name}" + _units(fields.attrs),
        "prepared by": "; ".join(done) or "nothing",
        "shape": shape(sizes),
        "time": time_in_words(fields["time"].values, clock),
        "values": f"mean {observed.mean():.4g}, standard deviation {observed.std():.4g}",
        "missing": f"{100 * missing:.3g} %",
        "domain": f"{domain_text(domain)} ({chosen.source})",
        "modes": str(n_modes),
    })  # fmt: skip
    for guess in source.guesses:
        output.line(f"guessed: {guess}")
    for note in notes:
        output.line(f"note: {in_options(note)}")
    output.document(
        dry_run=True, data=str(file), guesses=source.guesses, notes=notes, shape=sizes,
        missing=missing, preparation=None if how is None else how.to_dict(), prepared_by=done,
        domain=domain if isinstance(domain, str) else domain.to_dict(),
        domain_from=chosen.reason, modes=n_modes,
    )  # fmt: skip


def time_in_words(times: np.ndarray, clock: dict[str, Any]) -> str:
    """First and last time and the step between them."""
    unit = str(clock.get("units", "")).split(" since ")[0]
    ends = f"{shown_time(float(times[0]), clock)} to {shown_time(float(times[-1]), clock)}"
    if len(times) < 2:
        return ends.split(" to ")[0]
    step = step_of(times, clock)
    gaps = np.diff(times)
    regular = step.months is not None or np.allclose(gaps, step.length, rtol=1e-6)
    word = "steps of" if regular else "irregular, mostly"
    return f"{ends}, {word} {step.in_words(unit)}"


# ---------- ``spdelaw info``: describe a file


#: Longest attribute that the table shows; --json has all of it.
MAX_ATTRIBUTE_LENGTH = 80


def info_command(
    file: DataFile,
    output: Output,
    columns: Columns,
    variable: str | None = None,
    dims: Names | None = None,
) -> None:
    """Describe the fields of a file, and how fit would read them.

    A .zarr of this package is read block by block and may be larger than memory.

    Options:
        dims: Spatial dimensions, separated by commas; guessed by default.

    Examples:
        spdelaw info heat.nc
        spdelaw info stations.csv --time date --value tmax --station id --lon lon --lat lat
        spdelaw info sst.zarr --variable anomaly --dims lat,lon --json
    """
    fields, notes = _described_fields(file, variable, dims, columns)
    summary = describe(fields)
    output.facts(file_text(file), _facts(summary) | _date_facts(fields))
    if fields.variable._in_memory:
        notes += hints(fields)
        notes += [
            f"{n} times {v:g}, a fill value that the file does not declare: --missing {v:g}"
            for v, n in suspect_fills(fields.values)
        ]
    for note in notes:
        output.line(f"note: {in_options(note)}")
    output.document(file=str(file), bytes=file_size(file), fields=summary, notes=notes)


def _described_fields(
    file: Path, variable: str | None, dims: Names | None, columns: Columns
) -> tuple[xr.DataArray, list[str]]:
    """Fields with all their spatial dims, and how a fit would take them."""
    lazy = file.suffix.lower() == ".zarr"
    if dims is not None:
        return read(file, variable, dims, lazy=lazy), []
    if has_fields(file, variable):
        return read_fields(file, variable), []
    how = Preparation(variable=variable)
    raw, notes = read_raw(
        file, columns=columns, variable=lambda raw: str(recognise(raw, how).preparation.variable)
    )
    layout = recognise(raw, how)
    name = str(layout.preparation.variable)
    original_names = {d: d for d in raw[name].dims} | {
        n: o for o, n in layout.preparation.rename.items()
    }
    places = scattered_places(raw[name], [str(d) for d in raw[name].dims])
    whole = [str(original_names.get(d, d)) for d in layout.dims] + list(layout.preparation.average)
    fields = as_fields(raw[name], dims=places or tuple(whole))
    return fields, [
        *notes,
        f"a fit would take: {'; '.join([layout.domain_reason, *layout.reasons])}",
    ]


def _date_facts(fields: xr.DataArray) -> dict[str, str]:
    """Times as dates, where they are."""
    clock = dict(fields["time"].attrs)
    if " since " not in str(clock.get("units", "")) or "path_time" in fields.coords:
        return {}
    return {"time": time_in_words(fields["time"].values, clock)}


def _facts(summary: dict[str, Any]) -> dict[str, str]:
    coordinates = {k: v for k, v in summary["coordinates"].items() if k != "path"}
    values = {k: "overflow" if x is None else f"{x:.4g}" for k, x in summary["values"].items()}
    n_missing, share = summary["missing"]["count"], 100 * summary["missing"]["fraction"]
    return {
        "variable": summary["name"] + _units(summary),
        "shape": shape(summary["sizes"]),
        **{name: _coordinate(c) for name, c in coordinates.items()},
        "values": "{min} to {max}, mean {mean}, standard deviation {std}".format(**values),
        "missing": f"{n_missing} ({share:.3g} %)" if n_missing else "none",
        **({"equation": _equation(summary["equation"])} if summary["equation"] else {}),
        **{name: _shortened(value) for name, value in summary["attributes"].items()},
        "fingerprint": summary["fingerprint"],
    }


def _coordinate(c: dict[str, Any]) -> str:
    if "names" in c:
        return ", ".join(c["names"])
    step = (
        f"step {c['spacing']:.6g}" if c["uniform"] else "irregular" if c["n"] > 1 else "one value"
    )
    return f"{c['min']:.6g} to {c['max']:.6g}, {step}{_units(c)}"


def _equation(equation: Any) -> str:
    if isinstance(equation, dict) and "n_modes" in equation:
        return f"{equation.get('label') or 'spectral SPDE'}, {equation['n_modes']} modes"
    return _shortened(equation)


def _units(described: Mapping[Any, Any]) -> str:
    return f" [{described['units']}]" if described.get("units") else ""


def _shortened(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= MAX_ATTRIBUTE_LENGTH else text[: MAX_ATTRIBUTE_LENGTH - 3] + "..."


# ---------- ``spdelaw show``: describe a law


def show_command(law: LawFile, output: Output) -> None:
    """Show a law: every parameter with its interval, how it was estimated, what to cite.

    Examples:
        spdelaw show heat.law
        spdelaw show heat.law --json
    """
    learned = load(law)
    show_law(output, f"{law}: {learned.n_modes} modes on {domain_text(learned.domain)}", learned)
    if learned.parameters.attrs.get("initial_state") != "stationary":
        show_table(output, mode_table(learned, initial=True))
    facts = fit_facts(learned) | {"version": f"spdelaw {learned.info.get('version', '?')}"}
    output.facts("", facts | {"size": human_size(file_size(law))})
    show_notes(output, learned)
    output.line("cite: " + learned.citation().replace("\n", "\n      "))
    output.document(file=str(law), law=law_document(learned), citation=learned.citation())
