"""``spdelaw info``: what a file holds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from spdelaw.cli import _options
from spdelaw.cli._output import Output, file_size, human_size, shape
from spdelaw.data import describe, read

EXAMPLES = """**Examples**

spdelaw info heat.nc

spdelaw info sst.zarr --variable anomaly --dims lat,lon --json
"""

#: Longest attribute that the table shows; --json has all of it.
LONGEST = 80


def command(
    file: _options.InFile,
    variable: _options.Variable = None,
    dims: Annotated[str, typer.Option("--dims", help="Spatial dims, with commas.")] = "x",
    json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Check a file against the data contract and describe its fields.

    A .zarr is read block by block and may be larger than memory.
    """
    output = Output(json, quiet)
    lazy = file.suffix.lower() == ".zarr"
    summary = describe(read(file, variable, dims.split(","), lazy=lazy))
    size = file_size(file)
    output.facts(f"{file} ({human_size(size)})", _facts(summary))
    output.document(command="info", file=str(file), bytes=size, fields=summary)


def _facts(summary: dict[str, Any]) -> dict[str, str]:
    coordinates = {k: v for k, v in summary["coordinates"].items() if k != "path"}
    return {
        "variable": summary["name"] + _units(summary),
        "shape": shape(summary["sizes"]),
        **{name: _coordinate(c) for name, c in coordinates.items()},
        "values": _values(summary["values"]),
        "missing": _missing(summary["missing"]),
        **({"equation": _equation(summary["equation"])} if summary["equation"] else {}),
        **{name: _short(value) for name, value in summary["attributes"].items()},
        "fingerprint": summary["fingerprint"],
    }


def _coordinate(c: dict[str, Any]) -> str:
    step = (
        f"step {c['spacing']:.6g}" if c["uniform"] else "irregular" if c["n"] > 1 else "one value"
    )
    return f"{c['min']:.6g} to {c['max']:.6g}, {step}{_units(c)}"


def _values(values: dict[str, float | None]) -> str:
    low, high, mean, std = (
        "overflow" if values[k] is None else f"{values[k]:.4g}"
        for k in ("min", "max", "mean", "std")
    )
    return f"{low} to {high}, mean {mean}, standard deviation {std}"


def _missing(missing: dict[str, Any]) -> str:
    return f"{missing['count']} ({100 * missing['fraction']:.3g} %)" if missing["count"] else "none"


def _equation(equation: Any) -> str:
    if isinstance(equation, dict) and "n_modes" in equation:
        return f"{equation.get('label') or 'spectral SPDE'}, {equation['n_modes']} modes"
    return _short(equation)


def _units(described: dict[str, Any]) -> str:
    return f" [{described['units']}]" if described["units"] else ""


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
