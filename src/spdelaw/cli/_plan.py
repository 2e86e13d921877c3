"""``--dry-run``: what a fit would see and assume, without fitting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spdelaw.cli._domain import Chosen
from spdelaw.cli._law_file import domain_name
from spdelaw.cli._output import Output, shape
from spdelaw.cli._source import Source, shown_time
from spdelaw.data import hints, step_of


def show_plan(
    output: Output, file: Path, source: Source, chosen: Chosen, n_modes: int | str
) -> None:
    """Guesses, preparation, shape of the prepared data, domain, and what looks unintended."""
    how, fields = source.preparation, source.fields
    affine = how is not None and how.is_affine
    done = how.in_words() if how is not None else []
    values = np.asarray(fields.values)
    known = values[np.isfinite(values)]
    sizes = {str(d): int(n) for d, n in fields.sizes.items()}
    missing = 1.0 - known.size / values.size
    notes = hints(fields, affine)
    clock = dict(fields["time"].attrs)
    output.facts(f"{file}: what a fit would see", {
        "variable": f"{fields.name}" + _units(fields.attrs),
        "prepared by": "; ".join(done) or "nothing",
        "shape": shape(sizes),
        "time": time_in_words(fields["time"].values, clock),
        "values": f"mean {known.mean():.4g}, standard deviation {known.std():.4g}",
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
