"""A law in a few lines of plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from spdelaw.law._law import Law


def describe(law: Law) -> str:
    """Head line, one line a mode with intervals, observation noise, warnings."""
    p = law.parameters
    lines = [
        f"Law of {law.n_modes} modes on {law.domain}",
        f"  engine {law.info['engine']}, {law.info['n_paths']} paths, "
        f"log-likelihood {law.info['log_likelihood']:.6g}",
        *(_coupled_lines(law) if "drift" in p else _lines(law)),
    ]
    if p.observation_std.ndim == 1:
        lines.append(f"  observation noise {_interval(p.observation_std.values)}")
    if "season" in p:
        w = ", ".join(_interval(row) for row in p.season.values)
        lines.append(f"  noise by season, relative: {w}")
    lines += [f"  note: {note}" for note in law.info.get("warnings", [])]
    return "\n".join(lines)


def _lines(law: Law) -> list[str]:
    """One line a mode."""
    p, level = law.parameters, law.parameters.attrs["interval_level"]
    lines = [
        f"  {'mode':>4}  {'eigenvalue':>28}  {'noise variance':>30}   {100 * level:g} % intervals",
    ]
    for n in range(min(law.n_modes, 12)):
        row = p.isel(mode=n)
        lines.append(
            f"  {n + 1:>4}  {_interval(row.eigenvalue.values):>28}  "
            f"{_interval(row.noise_variance.values):>30}"
        )
    if law.n_modes > 12:
        lines.append(f"   ... {law.n_modes - 12} more modes in .parameters")
    return lines


def _coupled_lines(law: Law) -> list[str]:
    """One line an eigenmode of the drift: how long it lives and how fast it turns."""
    level = 100 * law.parameters.attrs["interval_level"]
    table = law.eigenmodes()
    lines = [
        f"  modes coupled: drift {law.info.get('drift')}, noise {law.info.get('noise')}; matrices "
        "in .parameters",
        f"  {'eigenmode':>9}  {'e-folding time':>28}  {'period':>30}   {level:g} % intervals",
    ]
    for n in range(min(table.sizes["eigenmode"], 12)):
        row = table.isel(eigenmode=n)
        period = row.period.values
        turns = _interval(period) if np.isfinite(period[0]) else "none"
        lines.append(f"  {n + 1:>9}  {_interval(row.e_folding_time.values):>28}  {turns:>30}")
    if table.sizes["eigenmode"] > 12:
        lines.append(f"   ... {table.sizes['eigenmode'] - 12} more in .eigenmodes()")
    return lines


def _interval(values: np.ndarray) -> str:
    estimate, _, lower, upper = values
    return f"{estimate:.4g} [{lower:.4g}, {upper:.4g}]"
