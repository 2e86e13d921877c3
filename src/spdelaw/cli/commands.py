"""Options of the commands that have many: one record each, which the command receives.

Options that are fields of `Model`, `Preparation` and the engines are read from their source.
Nothing here imports NumPy or xarray: `spdelaw.cli.shell` loads the rest when a command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

from spdelaw.cli import options
from spdelaw.cli.options import (
    ENGINE,
    MODEL,
    OUTPUT,
    PREPARATION,
    UNCERTAINTY,
    Config,
    DaskWorkers,
    DomainOptions,
    FieldsOf,
    Given,
    Table,
    option,
)
from spdelaw.cli.output import Output

HINDCAST = "Forecasts of the past"

# ---------- Groups that are the fields of classes


MODEL_CLASS = ("infer/model.py", "Model")
#: Where the shell takes a name or a file and Python an array.
MODEL_NOTES = {
    "observation_noise": "The standard deviation is a number, or the name of a variable with one "
    "per value.",
    "forcing": "Pass a file with the dimensions time and space.",
    "mean": "A known field is read from a file.",
}
ModelOptions = Annotated[
    Given,
    FieldsOf(
        MODEL_CLASS,
        panel=MODEL,
        leave_out=("priors",),
        notes=MODEL_NOTES,
        defaults={"drift": "diagonal; parametric with --terms"},
    ),
]
#: Fields that are options of their own: the file's variable, and names that are guessed.
NOT_PREPARED = ("variable", "rename")
PREPARATION_CLASS = ("data/prepare.py", "Preparation")
PreparationOptions = Annotated[
    Given, FieldsOf(PREPARATION_CLASS, panel=PREPARATION, leave_out=NOT_PREPARED)
]
Along = Annotated[
    str | None,
    option(PREPARATION, "Dimension of the file that becomes the spatial axis; guessed by default."),
]
FillModel = Annotated[
    Given,
    FieldsOf(MODEL_CLASS, panel=MODEL, only=("drift",), defaults={"drift": "several are compared"}),
]
SkillModel = Annotated[
    Given,
    FieldsOf(
        MODEL_CLASS,
        panel=MODEL,
        only=("drift", "noise", "initial", "nuisance", "rest"),
        defaults={
            "drift": "diagonal and, for EOFs, dense are compared",
            "noise": "that of the drift",
            "initial": "stationary for EOFs, else auto",
            "nuisance": "0 for EOFs, else auto",
            "rest": "auto",
        },
    ),
]
Terms = Annotated[
    Given,
    FieldsOf(
        ("infer/semilinear/engine.py", "SemilinearEngine"),
        panel=MODEL,
        only=("terms",),
        defaults={"terms": ""},
        notes={
            "terms": "For several fields write 'u: u, u: v, v: u'; --modes is then their total."
        },
    ),
]
EngineOptions = Annotated[
    Given,
    FieldsOf(
        ("infer/engines/exact.py", "Exact"),
        ("infer/engines/chaos.py", "Chaos"),
        ("amortized/engine.py", "Amortized"),
        ("amortized/structured.py", "AmortizedConfig"),
        ("infer/semilinear/engine.py", "SemilinearEngine"),
        panel=ENGINE,
        only=(
            "threads", "profile", "n_time", "order", "tail", "preset", "epochs", "checkpoint",
            "tensorboard", "method", "scheme",
        ),
        users=("exact", "chaos", "amortized", "amortized", "that of --terms"),
        defaults={"epochs": "640; 30 with --preset structured"},
    ),
]  # fmt: skip


# ---------- The records, each with examples and the options that the help shows first


class Described(NamedTuple):
    """Options of a command.

    Attributes:
        record: what the command receives; its docstring is the help.
        examples: end of the help.
        first: options that the help shows first.
    """

    record: Any
    examples: str
    first: tuple[str, ...]


class Fit(NamedTuple):
    """Learn the law of the fields in a file: spectra, initial state, noise, with intervals.

    Fields may have gaps (NaN), noise, irregular times or different times for each path; a single
    path is enough. Variable, dimensions, domain, boundary and unit of time are guessed from the
    file where options do not state them, and the guesses are printed; --dry-run prints them and
    stops. The law is a directory; an interrupted fit leaves none behind.
    """

    file: options.InFile
    table: Table
    domain: DomainOptions
    model: ModelOptions
    terms: Terms
    preparation: PreparationOptions
    settings: EngineOptions
    output: Output
    out: Annotated[
        Path | None, option(OUTPUT, "Law to write, such as heat.law.", "--out", "-o")
    ] = None
    dry_run: options.DryRun = False
    variable: options.Variable = None
    config: Config = None
    modes: Annotated[
        str, option(MODEL, "Number of modes to estimate, or auto to choose it by BIC.")
    ] = "auto"
    along: Along = None
    engine: Annotated[
        str,
        option(
            ENGINE, "Method of estimation: exact, chaos, amortized, or one of an installed package."
        ),
    ] = "exact"
    dask: DaskWorkers = None
    engine_option: Annotated[
        list[str] | None,
        option(
            ENGINE, "Any other option of the engine, as name=value. The option can be repeated."
        ),
    ] = None
    level: options.Level = 0.95
    bootstrap: Annotated[
        int,
        option(
            UNCERTAINTY,
            "Number of replicates of a parametric bootstrap; 0 uses the Fisher information.",
        ),
    ] = 0
    seed: options.Seed = 0
    force: options.Force = False


FIT_EXAMPLES = """**Examples**

spdelaw fit heat.nc --domain interval --modes 8 --out heat.law

spdelaw fit sst.zarr --domain interval --bounds 0 360 --boundary periodic --out sst.law

spdelaw fit plate.nc --domain box --sides 0,1,0,2 --boundary neumann --modes 16 --out plate.law

spdelaw fit gappy.nc --observation-noise 0.05 --drift parametric --out gappy.law

spdelaw fit ring.nc --drift dense --noise low_rank --modes 5 --out ring.law

spdelaw fit sst.nc --anomalies month --select longitude=150:270 --out sst.law

spdelaw fit sst.nc --anomalies month --dry-run

spdelaw fit rain.nc --mean constant --modes 6 --out rain.law

spdelaw fit stations.csv --time date --value tmax --station id --lon lon --lat lat --dry-run

spdelaw fit globe.nc --domain sphere --anomalies month --drift normal --out globe.law

spdelaw fit heated.nc --domain interval --forcing heater.nc --modes 8 --out heated.law

spdelaw fit storms.nc --season 365.25 4 --modes 6 --out storms.law

spdelaw fit fronts.nc --terms u,u^3 --modes 16 --out fronts.law

spdelaw fit heat.nc --config fit.yaml --modes 6 --out heat.law

spdelaw fit big.zarr --domain interval --modes 8 --dask local:4 --out big.law

spdelaw fit heat.nc --engine chaos --n-time 16 --tail dropped --modes 8 --out paper.law
"""
FIT_FIRST = (
    "file", "out", "force", "dry_run", "variable", "domain", "modes", "anomalies", "drift", "noise",
    "initial", "mean", "observation_noise", "engine", "config",
)  # fmt: skip


class Discover(NamedTuple):
    """Learn which terms the fields in a file obey, and their law with these terms.

    Every subset of the library is a candidate, the linear law included. The table compares the
    best candidates by likelihood and BIC, and shows how often resampled records choose each of
    them. Fields may have gaps, noise and different times for each path, as for fit.
    """

    file: options.InFile
    domain: DomainOptions
    model: Annotated[Given, FieldsOf(MODEL_CLASS, panel=MODEL, only=("observation_noise", "fixed"))]
    preparation: Annotated[
        Given,
        FieldsOf(
            PREPARATION_CLASS,
            panel=PREPARATION,
            leave_out=(*NOT_PREPARED, "anomalies", "detrend", "standardise", "area_weights"),
        ),
    ]
    output: Output
    out: Annotated[
        Path | None,
        option(
            OUTPUT, "Law with the chosen terms to write; none is written by default.", "--out", "-o"
        ),
    ] = None
    library: Annotated[
        str | None,
        option(
            MODEL,
            "Terms to choose from, separated by commas; by default 1,u,u^2,u^3 and products "
            "of first derivatives where the domain has them.",
        ),
    ] = None
    modes: Annotated[str, option(MODEL, "Number of modes of the law, or auto to choose it.")] = (
        "auto"
    )
    noise: Annotated[
        str, option(MODEL, "Covariance of the noise: diagonal or parametric (scale n^-exponent).")
    ] = "diagonal"
    variable: options.Variable = None
    along: Along = None
    level: options.Level = 0.95
    bootstrap: Annotated[
        int,
        option(
            UNCERTAINTY, "Number of resampled records that show how certain the choice of terms is."
        ),
    ] = 200
    seed: options.Seed = 0
    config: Config = None
    force: options.Force = False


DISCOVER_EXAMPLES = """**Examples**

spdelaw discover fronts.nc --modes 16 --out fronts.law

spdelaw discover fronts.nc --modes 16 --library u,u^2,u^3 --json

spdelaw discover flow.nc --modes 16 --library "u,u u_x,u_x^2" --out flow.law
"""
DISCOVER_FIRST = (
    "file", "out", "force", "variable", "domain", "modes", "library", "observation_noise", "noise",
    "fixed", "config",
)  # fmt: skip


class Fill(NamedTuple):
    """Fill the gaps of a record: mean and standard deviation of each missing value.

    The model is chosen by cross-validation: values are held out in the same patterns as the real
    gaps. The best model is fitted again to all values and fills the gaps. Observed values do not
    change, and grid cells without any data, such as land, stay empty. An interrupted run leaves no
    file behind.
    """

    file: options.InFile
    table: Table
    domain: DomainOptions
    model: FillModel
    preparation: PreparationOptions
    output: Output
    out: Annotated[Path | None, option(OUTPUT, "File to write: .nc or .zarr.", "--out", "-o")] = (
        None
    )
    dry_run: options.DryRun = False
    variable: options.Variable = None
    modes: Annotated[
        str, option(MODEL, "Number of modes, or auto to choose it by cross-validation.")
    ] = "auto"
    basis: Annotated[
        str | None,
        option(
            MODEL,
            "Modes to use: domain (eigenfunctions of the domain) or patterns (EOFs of the "
            "data); by default both are compared.",
        ),
    ] = None
    rest: Annotated[
        str,
        option(
            MODEL,
            "Model of the residual outside the modes: white, memory (correlated in time at "
            "each point), local (interpolated from close values), shared (regression on other "
            "points of the same time), or auto (chosen by cross-validation).",
        ),
    ] = "auto"
    along: Along = None
    smooth: Annotated[
        bool, option(OUTPUT, "Replace observed values by the estimated field too.", "--smooth")
    ] = False
    everywhere: Annotated[
        bool, option(OUTPUT, "Also fill grid cells that have no data at any time.", "--everywhere")
    ] = False
    seconds: Annotated[
        float, option(MODEL, "Time limit: start no candidate that would exceed it; 0 for no limit.")
    ] = 300.0
    seed: options.Seed = 0
    force: options.Force = False


FILL_EXAMPLES = """**Examples**

spdelaw fill sst.nc --anomalies month --out filled.nc

spdelaw fill sst.nc --anomalies dayofyear --select lat=-20:20 --out filled.nc

spdelaw fill stations.csv --time date --value tmax --station id --lon lon --lat lat --out full.nc

spdelaw fill gappy.nc --modes 8 --drift diagonal --basis domain --rest white --out filled.nc

spdelaw fill sst.nc --anomalies month --dry-run
"""
FILL_FIRST = (
    "file", "out", "force", "dry_run", "variable", "domain", "modes", "anomalies", "drift", "basis",
    "rest", "smooth", "everywhere", "seconds",
)  # fmt: skip


class Skill(NamedTuple):
    """Score forecasts of the past beside climatology, persistence, its decay and a LIM.

    Each forecast uses earlier times only: law, climatology and EOFs are fitted again, --refits
    times in all. --domain eof uses EOFs of the data as modes. RMSE, CRPS, log score and coverage
    have intervals from a bootstrap over blocks of forecasts.
    """

    file: options.InFile
    table: Table
    domain: DomainOptions
    model: SkillModel
    preparation: PreparationOptions
    output: Output
    out: Annotated[
        Path | None, option(OUTPUT, "Forecasts to write: .nc or .zarr.", "--out", "-o")
    ] = None
    figure: Annotated[
        Path | None, option(OUTPUT, "Figure of the scores to write, such as skill.png.")
    ] = None
    variable: options.Variable = None
    config: Config = None
    leads: Annotated[
        str, option(HINDCAST, "Numbers of steps to forecast ahead, separated by commas.")
    ] = "1,3,6,12"
    origins: Annotated[
        str,
        option(
            HINDCAST,
            "Training data before each forecast: expanding (all earlier times) or rolling (a "
            "window of constant length).",
        ),
    ] = "expanding"
    first: Annotated[
        float,
        option(
            HINDCAST, "Times before the first forecast, as a number or as a share of all times."
        ),
    ] = 0.6
    refits: Annotated[
        int, option(HINDCAST, "Number of times that law and reference methods are fitted.")
    ] = 4
    most_origins: Annotated[
        int, option(HINDCAST, "Largest number of forecasts, spread evenly over the record.")
    ] = 100
    modes: Annotated[
        str, option(MODEL, "Number of modes, several to choose from, separated by commas, or auto.")
    ] = "auto"
    along: Along = None
    level: options.Level = 0.95
    seed: options.Seed = 0
    force: options.Force = False


SKILL_EXAMPLES = """**Examples**

spdelaw skill sst.nc --anomalies month --modes 6 --leads 1,3,6,12

spdelaw skill sst.nc --domain eof --anomalies month --modes 2,4,8 --drift dense --noise dense

spdelaw skill tmax.csv --time date --value tmax --lon lon --lat lat --anomalies dayofyear

spdelaw skill heat.nc --modes 4 --leads 1,5 --out forecasts.nc --figure skill.png
"""
SKILL_FIRST = (
    "file", "out", "force", "figure", "variable", "domain", "modes", "anomalies", "leads", "first",
    "refits", "drift", "noise", "config",
)  # fmt: skip

RECORDS = {
    "fit": Described(Fit, FIT_EXAMPLES, FIT_FIRST),
    "discover": Described(Discover, DISCOVER_EXAMPLES, DISCOVER_FIRST),
    "fill": Described(Fill, FILL_EXAMPLES, FILL_FIRST),
    "skill": Described(Skill, SKILL_EXAMPLES, SKILL_FIRST),
}
