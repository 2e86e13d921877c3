"""``spdelaw sample``: new paths of a law into a file."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from spdelaw.cli import _options
from spdelaw.cli._law_file import load_law
from spdelaw.cli._options import numbers, positive
from spdelaw.cli._output import Output
from spdelaw.cli._target import check_room, check_target
from spdelaw.cli._written import report_written
from spdelaw.data import write

EXAMPLES = """**Examples**

spdelaw sample heat.law --paths 100 --out new.nc

spdelaw sample heat.law --times 0,0.5,1,2 --points 51 --observation-noise --out new.nc
"""


def command(
    *,
    law: _options.LawArgument,
    out: _options.OutFile,
    paths: _options.Paths = 100,
    times: _options.Times = None,
    points: Annotated[
        int | None, typer.Option(help="Regular grid points; by default those of the data.")
    ] = None,
    observation_noise: Annotated[
        bool, typer.Option("--observation-noise", help="Add the learned observation noise.")
    ] = False,
    seed: _options.Seed = 0,
    force: _options.Force = False,
    output: Output,
) -> None:
    """Draw new paths from a law, at the times and points of its data by default."""
    start = time.perf_counter()
    check_target(out, force=force)
    positive("--paths", paths)
    clock = None if times is None else numbers("--times", times)
    learned = load_law(law)
    grid = learned.points if points is None else learned.domain.grid(positive("--points", points))
    n_times = len(learned.times if clock is None else clock)
    check_room(out, 8 * paths * n_times * len(grid))
    fields = learned.sample(paths, clock, grid, seed=seed, observation_noise=observation_noise)
    write(fields, out)
    report_written(
        output, "sample", f"New paths of {law}", fields, out, time.perf_counter() - start,
        law=str(law), seed=seed,
    )  # fmt: skip
