"""Load, show and describe a law for a command; show the plan of a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.cli.inputs import ChosenDomain, Source, shown_time
from spdelaw.cli.output import Output, shape
from spdelaw.data.clock import step_of
from spdelaw.data.quality import hints
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.hermite import Line
from spdelaw.domains.interval import Interval
from spdelaw.errors import FileError
from spdelaw.law.io import load
from spdelaw.law.law import Law
from spdelaw.processes.linear import Linear

# ---------- Load, show and describe a law


#: Variables over modes, in the order of the table, with the heads of their columns.
COLUMNS = {
    "eigenvalue": "lambda",
    "noise_variance": "q",
    "mean": "mean",
    "initial_mean": "initial mean",
    "initial_variance": "initial variance",
}
#: Smaller numbers are zero by symmetry, unless their interval says otherwise.
ROUNDING = 1e-12


def load_law(path: Path) -> Law:
    """Load a law; a file or a wrong name raises `FileError` with its fix."""
    if path.is_file():
        fix = f"fit it first: spdelaw fit {path} --out {path.stem}.law"
        raise FileError(str(path), expected="a law, which is a directory", got="a file", fix=fix)
    if not path.exists():
        fix = f"check the name; the folder is {path.absolute().parent}"
        raise FileError(str(path), expected="a law", got="nothing of this name", fix=fix)
    return load(path)


def show_parameters(
    output: Output, title: str, law: Law, names: tuple[str, ...], most: int | None = None
) -> None:
    """Table of the modes: estimates with their intervals."""
    table, level = law.parameters, law.parameters.attrs["interval_level"]
    names = tuple(n for n in names if n in table)
    percent = f"{100 * level:g} %"
    heads = {n: COLUMNS.get(n, n.replace("_", " ")) for n in names}
    header = ["mode", *(h for n in names for h in (heads[n], f"{percent} interval"))]
    shown = min(law.n_modes, most or law.n_modes)
    rows = [
        [str(i + 1), *(cell for n in names for cell in _cells(table[n].isel(mode=i)))]
        for i in range(shown)
    ]
    output.table(title, header, rows)
    if shown < law.n_modes:
        output.line(f"  ... {law.n_modes - shown} more modes: spdelaw show lists all.\n")


def show_dynamics(output: Output, title: str, law: Law, most: int | None = None) -> None:
    """Table of drift and noise: spectra, or eigenmodes and variances of coupled modes."""
    if "drift" not in law.parameters:
        table = law.parameters.data_vars.items()
        names = tuple(str(n) for n, t in table if t.dims == ("mode", "statistic"))
        dynamics_names = tuple(n for n in names if not n.startswith("initial"))
        show_parameters(output, title, law, dynamics_names, most)
        show_terms(output, law)
        return
    modes, percent = law.eigenmodes(), f"{100 * law.parameters.attrs['interval_level']:g} %"
    header = ["eigenmode", "e-folding time", f"{percent} interval", "period", f"{percent} interval"]
    rows = []
    for i in range(min(modes.sizes["eigenmode"], most or law.n_modes)):
        row = modes.isel(eigenmode=i)
        turns = bool(row.frequency[0] > 0)
        period = _cells(row.period) if turns else ("none", "")
        rows.append([str(i + 1), *_cells(row.e_folding_time), *period])
    output.table(title, header, rows)
    decay, variance = (
        np.einsum("nns->ns", law.parameters[name].values) for name in ("drift", "noise_covariance")
    )
    header = ["mode", "own decay", f"{percent} interval", "noise variance", f"{percent} interval"]
    rows = [
        [str(i + 1), *_estimate_cells(decay[i]), *_estimate_cells(variance[i])]
        for i in range(min(law.n_modes, most or law.n_modes))
    ]
    output.table("Diagonals of drift and noise; --json has the matrices", header, rows)


def show_terms(output: Output, law: Law) -> None:
    """Table of the terms beyond the linear drift, where there are any."""
    if "coefficient" not in law.parameters:
        return
    table, percent = law.parameters, f"{100 * law.parameters.attrs['interval_level']:g} %"
    rows = [
        [str(name), *_cells(table["coefficient"].sel(term=name))] for name in table["term"].values
    ]
    output.table("Terms of the drift", ["term", "coefficient", f"{percent} interval"], rows)


def scalar_facts(law: Law) -> dict[str, str]:
    """Parameters that are single numbers, in words."""
    table = law.parameters
    scalars = {str(n).replace("_", " "): table[n] for n in table.data_vars if table[n].ndim == 1}
    facts = {name: _with_interval(values) for name, values in scalars.items()}
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
    return {"mean": f"{law.info.mean} (largest |z| of a mode {z:.1f}, dropped below {limit:.1f})"}


def _time_dependence_facts(law: Law) -> dict[str, str]:
    """Forcing and seasons, where there are any."""
    facts = {}
    if law.forcing is not None:
        t = law.forcing.times
        facts["forcing"] = f"known from {t[0]:g} to {t[-1]:g}"
    season = getattr(law.dynamics, "season", None)
    if law.rest is not None:
        facts["rest"] = law.rest.in_words(
            str((law.info.time or {}).get("units", "")).split(" since ")[0]
        )
    if season is not None:
        weights = ", ".join(f"{w:.3g}" for w in season.weights)
        facts["noise by season"] = f"{weights}, relative; period {season.period:g}"
    return facts


def domain_name(domain: AbstractDomain) -> str:
    """A domain as people write it."""
    if isinstance(domain, Interval):
        return f"[{domain.a:.6g}, {domain.b:.6g}], {domain.boundary}"
    return "the weighted line" if isinstance(domain, Line) else str(domain)


def show_notes(output: Output, law: Law) -> None:
    """Print the notes of the law, a line each."""
    for note in law.info.notes:
        output.line(f"note: {note}")


def law_document(law: Law) -> dict[str, Any]:
    """Law as plain data for --json."""
    table = law.parameters
    return {
        "domain": law.domain.to_dict(),
        "n_modes": law.n_modes,
        "level": table.attrs["interval_level"],
        "parameters": {str(n): _statistics(table[n]) for n in table.data_vars},
        **({"terms": table["term"].values} if "term" in table.sizes else {}),
        "info": dict(law.info),
    }


def _statistics(values: xr.DataArray) -> dict[str, Any]:
    return {str(s): values.sel(statistic=s).values for s in values["statistic"].values}


def _cells(values: xr.DataArray) -> tuple[str, str]:
    return _estimate_cells(values.values)


def _estimate_cells(values: np.ndarray) -> tuple[str, str]:
    estimate, stderr, lower, upper = values
    may_be_zero = stderr == 0 or lower <= 0 <= upper
    shown = "0" if may_be_zero and abs(estimate) <= ROUNDING else f"{estimate:.4g}"
    return shown, "known" if stderr == 0 else f"[{lower:.4g}, {upper:.4g}]"


def _with_interval(values: xr.DataArray) -> str:
    return " ".join(_cells(values))


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
    notes = hints(fields, affine)
    clock = dict(fields["time"].attrs)
    output.facts(f"{file}: what a fit would see", {
        "variable": f"{fields.name}" + _units(fields.attrs),
        "prepared by": "; ".join(done) or "nothing",
        "shape": shape(sizes),
        "time": time_in_words(fields["time"].values, clock),
        "values": f"mean {observed.mean():.4g}, standard deviation {observed.std():.4g}",
        "missing": f"{100 * missing:.3g} %",
        "domain": f"{domain_name(chosen.domain)} ({chosen.reason})",
        "modes": str(n_modes),
    })  # fmt: skip
    guesses = [*source.guesses, *([chosen.reason] if chosen.guessed else [])]
    for guess in guesses:
        output.line(f"guessed: {guess}")
    for note in notes:
        output.line(f"note: {note}")
    output.document(
        command="fit", dry_run=True, data=str(file), guesses=guesses, notes=notes, shape=sizes,
        missing=missing, preparation=None if how is None else how.to_dict(), prepared_by=done,
        domain=chosen.domain.to_dict(), domain_from=chosen.reason, modes=n_modes,
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


def _units(attrs: dict[Any, Any]) -> str:
    return f" [{attrs['units']}]" if "units" in attrs else ""
