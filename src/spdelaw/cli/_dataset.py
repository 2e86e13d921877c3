"""``spdelaw dataset``: real data that come with the package, as a file of one's own."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Annotated

import typer

from spdelaw import datasets
from spdelaw.cli import _options
from spdelaw.cli._options import one_of
from spdelaw.cli._output import Output, file_size, human_size, shape
from spdelaw.cli._target import check_file_target
from spdelaw.data import read_dataset
from spdelaw.data.atomic import replace_file

EXAMPLES = """**Example**

spdelaw dataset equatorial-pacific --out sst.nc

spdelaw dataset station-tmax --out stations.csv
"""

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help=f"One of {', '.join(datasets.NAMES)}.",
        autocompletion=lambda incomplete: [n for n in datasets.NAMES if n.startswith(incomplete)],
    ),
]


def command(
    *,
    name: Name,
    out: _options.OutFile,
    force: _options.Force = False,
    output: Output,
) -> None:
    """Copy a data set that comes with the package into a NetCDF file or a table."""
    source = datasets.file_of(one_of("NAME", name, tuple(datasets.NAMES)))
    endings = (".nc",) if source.suffix == ".nc" else (".csv", ".csv.gz")
    check_file_target(out, endings, force=force)
    unpack = source.suffix == ".gz" and out.suffix != ".gz"
    with replace_file(out) as new, new.open("wb") as file:
        content = source.read_bytes()
        file.write(gzip.decompress(content) if unpack else content)
    about, sizes = datasets.about(name), _sizes(source)
    output.facts(
        name, {**about, "shape": shape(sizes), "file": f"{out} ({human_size(file_size(out))})"}
    )
    output.document(
        command="dataset", name=name, **about, shape=sizes, file=str(out), bytes=file_size(out)
    )


def _sizes(source: Path) -> dict[str, int]:
    if source.suffix == ".nc":
        return {str(dim): int(n) for dim, n in read_dataset(source).sizes.items()}
    return {"rows": gzip.decompress(source.read_bytes()).count(b"\n") - 1}
