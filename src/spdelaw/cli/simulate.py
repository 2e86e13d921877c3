"""``spdelaw dataset`` and ``simulate``: write fields to a file."""

from __future__ import annotations

import difflib
import gzip
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr

from spdelaw import datasets
from spdelaw.cli import options
from spdelaw.cli.entry import deferred_interrupts
from spdelaw.cli.options import numbers, one_of, positive, positive_number
from spdelaw.cli.output import (
    Output,
    check_file_target,
    check_free_space,
    check_target,
    file_size,
    human_size,
    shape,
)
from spdelaw.data.io.files import read_dataset, write
from spdelaw.data.io.safe_files import replace_file
from spdelaw.data.io.zarr import replace_store
from spdelaw.errors import EquationError, InputError
from spdelaw.processes.catalogue import EQUATIONS, SEMILINEAR
from spdelaw.processes.paths import SCHEMES, simulate
from spdelaw.processes.semilinear import Semilinear
from spdelaw.processes.spde import SpectralSPDE

# ---------- ``spdelaw dataset``: copy real data that come with the package


DATASET_EXAMPLES = """**Example**

spdelaw dataset equatorial-pacific --out sst.nc

spdelaw dataset station-tmax --out stations.csv
"""

DatasetName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help=f"One of {', '.join(datasets.NAMES)}.",
        autocompletion=lambda incomplete: [n for n in datasets.NAMES if n.startswith(incomplete)],
    ),
]


def dataset_command(
    *,
    name: DatasetName,
    out: options.OutFile,
    force: options.Force = False,
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


# ---------- ``spdelaw simulate``: write paths of an equation of the catalogue


SIMULATE_EXAMPLES = """**Examples**

spdelaw simulate heat --paths 1000 --out heat.nc

spdelaw simulate ornstein-uhlenbeck --modes 8 --times 0,0.1,0.5,2 --out ou.nc

spdelaw simulate allen-cahn --modes 15 --paths 10 --out fronts.nc

spdelaw simulate heat --paths 100000 --observation-std 0.05 --out big.zarr
"""

#: All equations by name.
ALL_EQUATIONS: dict[str, Any] = {**EQUATIONS, **SEMILINEAR}
#: Default last time and steps of linear (False) and semilinear (True) equations.
DEFAULT_TIMES = {False: (1.0, 200), True: (10.0, 100)}

EquationName = Annotated[
    str,
    typer.Argument(
        metavar="EQUATION",
        help=f"One of {', '.join(ALL_EQUATIONS)}.",
        autocompletion=lambda incomplete: [n for n in ALL_EQUATIONS if n.startswith(incomplete)],
    ),
]


def simulate_command(
    *,
    equation: EquationName,
    out: options.OutFile,
    paths: options.Paths = 1000,
    modes: Annotated[int, typer.Option(help="Number of modes.")] = 50,
    times: Annotated[
        str | None, typer.Option(help="Times with commas, such as 0,0.1,0.5; need not be regular.")
    ] = None,
    final_time: Annotated[
        float | None, typer.Option(help="Last time; 1 by default, 10 for semilinear equations.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Regular steps; 200 by default, 100 for semilinear equations."),
    ] = None,
    points: Annotated[
        int | None, typer.Option(help="Grid points, a dim; by default the equation's own.")
    ] = None,
    scheme: Annotated[str, typer.Option(help=f"One of {', '.join(SCHEMES)}.")] = "exact",
    observation_std: Annotated[
        float, typer.Option(help="Standard deviation of white noise on every value.")
    ] = 0.0,
    noise: Annotated[bool, typer.Option("--noise", help="Also write the driving noise.")] = False,
    seed: options.Seed = 0,
    force: options.Force = False,
    output: Output,
) -> None:
    """Simulate paths of an equation of the catalogue and write them to a file.

    A .nc is made in memory; a .zarr is written batch by batch and may be larger than
    memory. The first k paths of a seed do not depend on how many follow.
    """
    start = time.perf_counter()
    check_target(out, force=force)
    law = _make_equation(equation, positive("--modes", modes))
    linear = law.linear if isinstance(law, Semilinear) else law
    n_points = linear.n_points if points is None else positive("--points", points)
    usual = DEFAULT_TIMES[isinstance(law, Semilinear)]
    n_times = _count_times(
        times, final_time, usual[1] if steps is None and times is None else steps
    )
    grid = law.domain.grid(n_points)
    check_free_space(
        out, _result_bytes(positive("--paths", paths), n_times, len(grid), modes, noise)
    )
    settings = {
        "times": _times(times, usual[0] if final_time is None else final_time, n_times),
        "grid": grid,
        "seed": seed, "scheme": scheme, "observation_std": observation_std, "return_noise": noise,
    }  # fmt: skip
    with output.progress("simulating") as progress:
        write_to = _write_in_batches if out.suffix == ".zarr" else _write_in_memory
        made = write_to(law, paths, out, settings | {"progress": progress})
    _report(output, equation, made, out, settings, time.perf_counter() - start)


def _write_in_memory(
    law: SpectralSPDE | Semilinear, paths: int, out: Path, settings: dict[str, Any]
) -> Any:
    made = simulate(law, paths, **settings)
    write(made, out)
    return made


def _write_in_batches(
    law: SpectralSPDE | Semilinear, paths: int, out: Path, settings: dict[str, Any]
) -> Any:
    show = settings["progress"]
    with replace_store(out) as new, deferred_interrupts() as check:

        def progress(done: int, total: int) -> None:
            check()
            if show is not None:
                show(done, total)

        store = new / "store.zarr"
        made = simulate(law, paths, out=store, **settings | {"progress": progress})
        for entry in store.iterdir():
            entry.rename(new / entry.name)
        store.rmdir()
    return made


def _make_equation(name: str, modes: int) -> SpectralSPDE | Semilinear:
    if name not in ALL_EQUATIONS:
        near = difflib.get_close_matches(name, ALL_EQUATIONS, 1)
        expected = f"one of {', '.join(ALL_EQUATIONS)}"
        fix = f"did you mean {near[0]}?" if near else "choose one of them"
        raise EquationError("equation", expected=expected, got=repr(name), fix=fix)
    make: Callable[..., SpectralSPDE | Semilinear] = ALL_EQUATIONS[name]
    return make(n_modes=modes)


def _count_times(times: str | None, final_time: float | None, steps: int | None) -> int:
    """Number of times, before the times or fields take any memory."""
    if times is None:
        return 1 + positive("--steps", steps or 0)
    if final_time is not None or steps is not None:
        expected = "either --times, or --final-time and --steps"
        raise InputError("--times", expected=expected, got="both", fix="leave one of them out")
    return len(numbers("--times", times))


def _times(times: str | None, final_time: float, n_times: int) -> Any:
    if times is not None:
        return numbers("--times", times)
    return np.linspace(0.0, positive_number("--final-time", final_time), n_times)


def _result_bytes(paths: int, times: int, points: int, modes: int, noise: bool) -> int:
    return 8 * paths * times * (points + (points + modes if noise else 0))


def _report(
    output: Output, name: str, made: Any, out: Path, settings: dict[str, Any], seconds: float
) -> None:
    field = made["field"] if isinstance(made, xr.Dataset) else made
    size = file_size(out)
    output.facts(
        f"{field.attrs['title']}",
        {
            "shape": shape(field.sizes),
            "scheme": f"{settings['scheme']}, seed {settings['seed']}",
            "file": f"{out} ({human_size(size)})",
            "time": f"{seconds:.1f} s",
        },
    )
    output.document(
        command="simulate", equation=name, shape=dict(field.sizes),
        variables=_variables(made) if isinstance(made, xr.Dataset) else [field.name],
        scheme=settings["scheme"], seed=settings["seed"],
        observation_std=settings["observation_std"], file=str(out), bytes=size, seconds=seconds,
    )  # fmt: skip


def _variables(made: xr.Dataset) -> list[str]:
    """Names in a fixed order; a store lists them in that of the file system."""
    order = ("field", "noise_increment", "noise_field")
    return [name for name in order if name in made]
