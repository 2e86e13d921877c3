"""``spdelaw info`` and ``show``: describe a file or a law."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr

from spdelaw.cli.commands.laws import (
    domain_name,
    fit_facts,
    law_document,
    show_law,
    show_modes,
    show_notes,
    time_in_words,
)
from spdelaw.cli.inputs import read_fields
from spdelaw.cli.messages import in_options
from spdelaw.cli.options import DataFile, LawFile, Names
from spdelaw.cli.output import Output, file_size, file_text, human_size, shape
from spdelaw.data.fields import as_fields
from spdelaw.data.io.files import has_fields, read, read_raw
from spdelaw.data.io.tables import Columns
from spdelaw.data.prepare import Preparation
from spdelaw.data.quality import hints, suspect_fills
from spdelaw.data.recognise import recognise, scattered_places
from spdelaw.data.summary import describe
from spdelaw.law.io import load

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


def _units(described: dict[str, Any]) -> str:
    return f" [{described['units']}]" if described["units"] else ""


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
    show_law(output, f"{law}: {learned.n_modes} modes on {domain_name(learned.domain)}", learned)
    if learned.parameters.attrs.get("initial_state") != "stationary":
        show_modes(output, "Initial state", learned, initial=True)
    facts = fit_facts(learned) | {"version": f"spdelaw {learned.info.get('version', '?')}"}
    output.facts("", facts | {"size": human_size(file_size(law))})
    show_notes(output, learned)
    output.line("cite: " + learned.citation().replace("\n", "\n      "))
    output.document(file=str(law), law=law_document(learned), citation=learned.citation())
