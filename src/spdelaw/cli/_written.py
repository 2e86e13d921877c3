"""What a command says about the file that it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr

from spdelaw.cli._output import Output, file_size, human_size, shape


def report_written(
    output: Output,
    command: str,
    title: str,
    written: xr.DataArray | xr.Dataset,
    out: Path,
    seconds: float,
    facts: dict[str, str] | None = None,
    **document: Any,
) -> None:
    """Shape, variables, size and time: a table for people, one document for machines."""
    names = (
        [str(n) for n in written.data_vars]
        if isinstance(written, xr.Dataset)
        else [str(written.name)]
    )
    main = written["mean"] if "mean" in names and isinstance(written, xr.Dataset) else written
    sizes = {str(d): n for d, n in main.sizes.items()}
    size = file_size(out)
    output.facts(
        title,
        {
            "shape": shape(sizes),
            "variables": ", ".join(names),
            **(facts or {}),
            "file": f"{out} ({human_size(size)})",
            "time": f"{seconds:.1f} s",
        },
    )
    output.document(
        command=command, shape=sizes, variables=names, file=str(out), bytes=size,
        seconds=seconds, **document,
    )  # fmt: skip
