"""Section: several laws of the same data side by side."""

from __future__ import annotations

import numpy as np
import xarray as xr

from spdelaw.law import Law
from spdelaw.report.html._material import TIERS, Material
from spdelaw.report.html._section import Section, Table

HEADER = (
    *("law", "engine", "modes", "parameters", "log-likelihood per path", "fit (s)"),
    *(f"CRPS, {tier}" for tier in TIERS),
    *(f"inside, {tier}" for tier in TIERS),
    "model",
)


def section(material: Material) -> Section | None:
    """Table of the laws; None for one."""
    if len(material.laws) < 2:
        return None
    likelihoods = material.likelihoods
    kinds = [str(found.attrs["of"]) for found in likelihoods.values()]
    rows = [
        _row(material, name, law, likelihoods[name], len(set(kinds)) > 1)
        for name, law in material.laws.items()
    ]
    lead = (
        "The log-likelihood is that of these data under the exact model with each law's numbers, "
        f"the log density of their {kinds[0]}, so engines are compared on one scale: higher is "
        "better, and a difference of one is worth one nat per path. "
        if len(set(kinds)) == 1
        else "The log-likelihoods are densities of different numbers, which stand beside them, and "
        "cannot be compared. "
    )
    lead += "Lower CRPS is better; 'inside' should be close to the level."
    return Section(
        "engines", "Laws compared", lead, (Table("The laws on these data", HEADER, rows),)
    )


def _row(
    material: Material, name: str, law: Law, likelihood: xr.DataArray, with_kind: bool
) -> list[str]:
    card = material.cards[name]
    seconds = law.info.get("seconds", {})
    scores = [card.tiers[tier] for tier in TIERS]
    return [
        name,
        law.info.engine or "?",
        str(law.n_modes),
        str(law.info.get("n_law_parameters", law.info.get("n_parameters", "?"))),
        f"{float(likelihood.mean()):.2f}" + (f" ({likelihood.attrs['of']})" if with_kind else ""),
        f"{float(np.sum(list(seconds.values()))):.2f}",
        *(f"{score.crps:.4g}" for score in scores),
        *(f"{100 * score.coverage:.1f} %" for score in scores),
        "fits" if card.check.fits else "does not fit",
    ]
