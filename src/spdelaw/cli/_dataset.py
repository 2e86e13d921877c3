"""``spdelaw dataset``: real data that come with the package, as a file of one's own."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

from spdelaw import datasets
from spdelaw.cli import _options
from spdelaw.cli._options import one_of
from spdelaw.cli._output import Output, file_size, human_size, shape
from spdelaw.cli._target import check_target
from spdelaw.data import read_dataset
from spdelaw.data.atomic import replace_file
from spdelaw.errors import FileError

EXAMPLES = """**Example**

spdelaw dataset equatorial-pacific --out sst.nc
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
    name: Name,
    out: _options.OutFile,
    force: _options.Force = False,
    json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Copy a data set that comes with the package, with its licence, into a NetCDF file."""
    output = Output(json, quiet)
    source = datasets.file_of(one_of("NAME", name, tuple(datasets.NAMES)))
    check_target(out, force=force)
    if out.suffix != ".nc":
        raise FileError(
            "--out",
            expected="a name that ends in .nc",
            got=str(out),
            fix=f"pass --out {out.stem}.nc",
        )
    with replace_file(out) as new:
        shutil.copyfile(source, new)
    content = read_dataset(out)
    about = {key: str(content.attrs[key]) for key in ("title", "source", "licence")}
    sizes = {str(dim): int(n) for dim, n in content.sizes.items()}
    output.facts(name, {**about, "shape": shape(sizes),
                        "file": f"{out} ({human_size(file_size(out))})"})  # fmt: skip
    output.document(
        command="dataset", name=name, **about, shape=sizes, file=str(out), bytes=file_size(out)
    )
