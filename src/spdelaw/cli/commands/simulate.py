"""``spdelaw dataset`` and ``simulate``: write fields to a file."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np

from spdelaw import datasets
from spdelaw.checks import one_of
from spdelaw.cli.entry import deferred_interrupts
from spdelaw.cli.options import (
    DatasetName,
    EquationName,
    NewFields,
    Numbers,
    PositiveFloat,
    PositiveInt,
)
from spdelaw.cli.output import (
    Output,
    check_size,
    check_target,
    file_size,
    file_text,
    report_written,
    shape,
)
from spdelaw.data.io.files import read_dataset, write
from spdelaw.data.io.safe_files import replace_file
from spdelaw.data.io.zarr import replace_store
from spdelaw.errors import EquationError, InputError
from spdelaw.processes.catalogue import EQUATIONS, SEMILINEAR
from spdelaw.processes.paths import simulate
from spdelaw.processes.semilinear import Semilinear
from spdelaw.processes.spde import SpectralSPDE

# ---------- ``spdelaw dataset``: copy real data that come with the package


def dataset_command(name: DatasetName, out: Path, output: Output, force: bool = False) -> None:
    """Copy a data set that comes with the package into a NetCDF file or a table.

    Options:
        name: One of equatorial-pacific, pacific-sst, station-tmax.
        out: File to write: .nc for fields, .csv or .csv.gz for a table.

    Examples:
        spdelaw dataset equatorial-pacific --out sst.nc
        spdelaw dataset station-tmax --out stations.csv
    """
    source = datasets.file_of(one_of("NAME", name, tuple(datasets.NAMES)))
    check_target("--out", out, (".nc",) if source.suffix == ".nc" else (".csv", ".csv.gz"), force)
    unpack = source.suffix == ".gz" and out.suffix != ".gz"
    with replace_file(out) as new, new.open("wb") as file:
        content = source.read_bytes()
        file.write(gzip.decompress(content) if unpack else content)
    about, sizes = datasets.about(name), _sizes(source)
    output.facts(name, {**about, "shape": shape(sizes), "file": file_text(out)})
    output.document(name=name, **about, shape=sizes, file=str(out), bytes=file_size(out))


def _sizes(source: Path) -> dict[str, int]:
    if source.suffix == ".nc":
        return {str(dim): int(n) for dim, n in read_dataset(source).sizes.items()}
    return {"rows": gzip.decompress(source.read_bytes()).count(b"\n") - 1}


# ---------- ``spdelaw simulate``: write paths of an equation of the catalogue


#: Default last time and steps of linear (False) and semilinear (True) equations.
DEFAULT_TIMES = {False: (1.0, 200), True: (10.0, 100)}
#: Names in a fixed order; a store lists them in that of the file system.
VARIABLES = ("field", "noise_increment", "noise_field")


def simulate_command(
    equation: EquationName,
    out: NewFields,
    output: Output,
    paths: PositiveInt = 1000,
    modes: PositiveInt = 50,
    times: Numbers | None = None,
    final_time: PositiveFloat | None = None,
    steps: PositiveInt | None = None,
    points: PositiveInt | None = None,
    scheme: str = "exact",
    observation_std: float = 0.0,
    noise: bool = False,
    seed: int = 0,
) -> None:
    """Simulate paths of an equation of the catalogue and write them to a file.

    A .nc file is made in memory. A .zarr directory is written batch by batch and may be larger
    than memory. The first k paths of a seed do not depend on how many follow.

    Options:
        equation: One of heat, ornstein-uhlenbeck, fractional-heat, damped-heat, neumann-heat,
            periodic-heat, square-heat, disk-heat, sphere-heat, plane-ornstein-uhlenbeck,
            advection-diffusion, rotating-sphere, allen-cahn, nagumo, fisher-kpp, burgers, kpz,
            allen-cahn-2d, fitzhugh-nagumo, gray-scott, geometric-heat, parabolic-anderson,
            square-root-heat.
        modes: Number of modes of the equation.
        times: Times, separated by commas, such as 0,0.1,0.5; they need not be regular.
        final_time: Last time; 1 by default, 10 for semilinear equations.
        steps: Number of regular steps; 200 by default, 100 for semilinear equations.
        points: Number of grid points along each dimension; by default that of the equation.
        scheme: Time stepping: exact (no time-step error) or semi_implicit (that of the paper).
        observation_std: Standard deviation of white noise that is added to every value.
        noise: Also write the driving noise of the equation.

    Examples:
        spdelaw simulate heat --paths 1000 --out heat.nc
        spdelaw simulate ornstein-uhlenbeck --modes 8 --times 0,0.1,0.5,2 --out ou.nc
        spdelaw simulate allen-cahn --modes 15 --paths 10 --out fronts.nc
        spdelaw simulate heat --paths 100000 --observation-std 0.05 --out big.zarr
    """
    law = _make_equation(equation, modes)
    linear = law.linear if isinstance(law, Semilinear) else law
    last, n_steps = DEFAULT_TIMES[isinstance(law, Semilinear)]
    if times is not None and (final_time is not None or steps is not None):
        expected = "either --times, or --final-time and --steps"
        raise InputError("--times", expected=expected, got="both", fix="leave one of them out")
    n_times = 1 + (steps or n_steps) if times is None else len(times)
    grid = law.domain.grid(points or linear.n_points)
    n_values = len(grid) + (len(grid) + modes if noise else 0)
    check_size(out, 8 * paths * n_times * n_values)
    settings: dict[str, Any] = {
        "times": np.linspace(0.0, final_time or last, n_times) if times is None else times,
        "grid": grid,
        "seed": seed,
        "scheme": scheme,
        "observation_std": observation_std,
        "return_noise": noise,
    }
    with output.progress("simulating") as settings["progress"]:
        if out.suffix == ".zarr":
            made = _write_in_batches(law, paths, out, settings)
        else:
            made = simulate(law, paths, **settings)
            write(made, out)
    made = made[[name for name in VARIABLES if name in made]] if noise else made
    title = (made["field"] if noise else made).attrs["title"]
    facts = {"scheme": f"{scheme}, seed {seed}"}
    report_written(
        output, title, made, out, facts, equation=equation, scheme=scheme, seed=seed,
        observation_std=observation_std,
    )  # fmt: skip


def _make_equation(name: str, modes: int) -> SpectralSPDE | Semilinear:
    equations: dict[str, Any] = {**EQUATIONS, **SEMILINEAR}
    return equations[one_of("equation", name, tuple(equations), EquationError)](n_modes=modes)


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
