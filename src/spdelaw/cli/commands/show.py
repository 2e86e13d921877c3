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
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.box import Box
from spdelaw.domains.hermite import Line
from spdelaw.domains.interval import Interval
from spdelaw.law.io import load
from spdelaw.law.law import Law
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting

# ---------- Tables and facts of a law


#: Heads of columns that are letters of the equation.
COLUMNS = {"eigenvalue": "lambda", "noise_variance": "q"}
#: Smaller numbers are zero by symmetry, unless their interval says otherwise.
ROUNDING = 1e-12


def show_law(output: Output, title: str, law: Law, most: int | None = None) -> None:
    """Tables of drift, noise and terms: spectra, or eigenmodes and variances of coupled modes."""
    table = law.parameters
    if "drift" in table:
        modes = law.eigenmodes()
        columns = {"e-folding time": modes.e_folding_time.values, "period": modes.period.values}
        _show_estimates(output, title, "eigenmode", columns, law, most)
        names = {"own decay": "drift", "noise variance": "noise_covariance"}
        columns = {head: np.einsum("nns->ns", table[name].values) for head, name in names.items()}
        title = "Diagonals of drift and noise; --json has the matrices"
        _show_estimates(output, title, "mode", columns, law, most)
    else:
        show_modes(output, title, law, initial=False, most=most)
    if "coefficient" in table:
        show_terms(output, law)


def show_modes(
    output: Output, title: str, law: Law, *, initial: bool, most: int | None = None
) -> None:
    """Table of the parameters that each mode has: those of the initial state, or all others."""
    names = [str(n) for n, t in law.parameters.data_vars.items() if t.dims == ("mode", "statistic")]
    columns = {
        COLUMNS.get(name, name.replace("_", " ")): law.parameters[name].values
        for name in names
        if name.startswith("initial") == initial
    }
    _show_estimates(output, title, "mode", columns, law, most)


def show_terms(output: Output, law: Law) -> None:
    """Table of the terms beyond the linear drift."""
    columns = {"coefficient": law.parameters["coefficient"].values}
    names = [str(name) for name in law.parameters["term"].values]
    _show_estimates(output, "Terms of the drift", "term", columns, law, names=names)


def _show_estimates(
    output: Output,
    title: str,
    what: str,
    columns: dict[str, np.ndarray],
    law: Law,
    most: int | None = None,
    names: list[str] | None = None,
) -> None:
    """Table with a row per mode or term, and two columns, estimate and interval, per parameter."""
    interval = f"{100 * law.parameters.attrs['interval_level']:g} % interval"
    header = [what, *(head for name in columns for head in (name, interval))]
    n_rows = max(map(len, columns.values()), default=0)
    names = names or [str(i + 1) for i in range(n_rows)]
    rows = [
        [name, *(cell for values in columns.values() for cell in _cells(values[i]))]
        for i, name in enumerate(names[:most])
    ]
    output.table(title, header, rows)
    if len(rows) < n_rows:
        output.line(f"  ... {n_rows - len(rows)} more {what}s: spdelaw show lists all.\n")


def _cells(values: np.ndarray) -> tuple[str, str]:
    """Estimate and interval as text."""
    estimate, stderr, lower, upper = values
    if not np.isfinite(estimate):
        return "none", ""
    may_be_zero = stderr == 0 or lower <= 0 <= upper
    shown = "0" if may_be_zero and abs(estimate) <= ROUNDING else f"{estimate:.4g}"
    return shown, "known" if stderr == 0 else f"[{lower:.4g}, {upper:.4g}]"


def scalar_facts(law: Law) -> dict[str, str]:
    """Parameters that are single numbers, as text."""
    table = law.parameters
    scalars = {str(n).replace("_", " "): table[n] for n in table.data_vars if table[n].ndim == 1}
    facts = {name: " ".join(_cells(values.values)) for name, values in scalars.items()}
    if "point" in table.sizes:
        std = table["observation_std"].sel(statistic="estimate").values
        facts["observation std"] = f"{std.min():.4g} to {std.max():.4g}, one per point"
    elif "observation std" in facts and float(scalars["observation std"][0]) == 0:
        facts["observation std"] = "0 (no observation noise)"
    return facts


def fit_facts(law: Law) -> dict[str, str]:
    """Provenance of the law and of its fit."""
    info = law.info
    convergence, of = info.convergence or {}, info.log_likelihood_of
    spectra = f"dynamics {law.dynamics.name}"
    if isinstance(law.dynamics, Linear):
        spectra = f"drift {info.drift}, noise {info.noise}"
    elif isinstance(law.dynamics, Reacting) and law.dynamics.amplitude is not None:
        spectra += f", noise {law.dynamics.state_noise_kind.replace('_', ' ')}"
    numbers = "" if of is None else f" of {of['count']} {of['kind']}"
    sizes = {"path": info.n_paths, "time": info.n_times, "point": info.n_points}
    return {
        "domain": domain_name(law.domain),
        "engine": f"{info.engine}, route {info.route}",
        "data": shape({name: n for name, n in sizes.items() if n is not None}),
        "initial state": law.initial.kind,
        **_mean_facts(law),
        "spectra": f"{spectra}, {info.n_nuisance or 0} nuisance modes",
        **scalar_facts(law),
        **_unit_facts(law),
        **_time_dependence_facts(law),
        "log-likelihood": f"{info.log_likelihood:.8g}{numbers} ({info.n_parameters} parameters)",
        "convergence": f"{convergence.get('evaluations')} evaluations, "
        f"remaining gain {convergence.get('remaining_gain', float('nan')):.1e}",
        "fitting": f"{sum((info.seconds or {}).values()):.2f} s",
    }


def _mean_facts(law: Law) -> dict[str, str]:
    """The mean of the model, and how far it is from zero where the data decided."""
    decided = law.info.get("decisions", {}).get("mean", {})
    if law.info.mean is None or not decided:
        return {}
    z, limit = decided.get("largest_z_of_mean"), decided.get("mean_from_z")
    if z is None:
        return {"mean": law.info.mean}
    return {"mean": f"{law.info.mean} (largest |z| of a mode {z:.2g}, dropped below {limit:.1f})"}


def _unit_facts(law: Law) -> dict[str, str]:
    """Units of the parameters, where the data have units."""
    units = {name: one.attrs.get("units") for name, one in law.parameters.data_vars.items()}
    words = {COLUMNS.get(str(k), str(k).replace("_", " ")): v for k, v in units.items() if v}
    return {"units": ", ".join(f"{k} {v}" for k, v in words.items())} if words else {}


def _time_dependence_facts(law: Law) -> dict[str, str]:
    """Forcing, residual with memory and seasons, where there are any."""
    facts = {}
    if law.forcing is not None:
        t = law.forcing.times
        facts["forcing"] = f"known from {t[0]:g} to {t[-1]:g}"
    if law.residual_memory is not None:
        unit = str((law.info.time or {}).get("units", "")).split(" since ")[0]
        facts["residual"] = law.residual_memory.in_words(unit)
    season = getattr(law.dynamics, "season", None)
    if season is not None:
        weights = ", ".join(f"{w:.3g}" for w in season.weights)
        facts["noise by season"] = f"{weights}, relative; period {season.period:g}"
    return facts


def with_source(law: Law, options: DataOptions, fields: xr.DataArray | None) -> Law:
    """Law with the file and, where the fields are in memory, the fingerprint it was fitted to."""
    data = {"file": str(options.file)}
    data |= {} if fields is None else {"fingerprint": fingerprint(fields)}
    return law.with_info(data=data)


def domain_name(domain: AbstractDomain | str) -> str:
    """A domain as people write it."""
    if isinstance(domain, str):
        return "EOFs of the data"
    if isinstance(domain, Interval):
        return f"[{domain.a:.6g}, {domain.b:.6g}], {domain.boundary}"
    if isinstance(domain, Box):
        words = ", ".join(dict.fromkeys(map(str, domain.boundary)))
        return f"{' × '.join(f'[{a:.6g}, {b:.6g}]' for a, b in domain.sides)}, {words}"
    return "the weighted line" if isinstance(domain, Line) else str(domain)


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
        "domain": f"{domain_name(domain)} ({chosen.source})",
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
    show_law(output, f"{law}: {learned.n_modes} modes on {domain_name(learned.domain)}", learned)
    if learned.parameters.attrs.get("initial_state") != "stationary":
        show_modes(output, "Initial state", learned, initial=True)
    facts = fit_facts(learned) | {"version": f"spdelaw {learned.info.get('version', '?')}"}
    output.facts("", facts | {"size": human_size(file_size(law))})
    show_notes(output, learned)
    output.line("cite: " + learned.citation().replace("\n", "\n      "))
    output.document(file=str(law), law=law_document(learned), citation=learned.citation())
