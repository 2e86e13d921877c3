"""Section: several laws of the same data side by side."""

from __future__ import annotations

import numpy as np

from spdelaw.law import Law
from spdelaw.report.html._material import TIERS, Material
from spdelaw.report.html._section import Section, Table

HEADER = (
    "law", "engine", "modes", "parameters", "log-likelihood per path", "fit (s)",
    *(f"CRPS, {tier}" for tier in TIERS), *(f"inside, {tier}" for tier in TIERS), "model",
)  # fmt: skip


def section(material: Material) -> Section | None:
    """Table of the laws; None for one."""
    if len(material.laws) < 2:
        return None
    rows = [_row(material, name, law) for name, law in material.laws.items()]
    lead = (
        "The log-likelihood is that of these data under the exact model with each law's numbers, "
        "so engines are compared on one scale: higher is better, and a difference of one is worth "
        "one nat per path. Lower CRPS is better; 'inside' should be close to the level."
    )
    return Section(
        "engines", "Laws compared", lead, (Table("The laws on these data", HEADER, rows),)
    )


def _row(material: Material, name: str, law: Law) -> list[str]:
    card = material.cards[name]
    likelihood = float(law.log_likelihood(material.fields).mean())
    seconds = law.info.get("seconds", {})
    scores = [card.tiers[tier] for tier in TIERS]
    return [
        name, str(law.info.get("engine", "?")), str(law.n_modes),
        str(law.info.get("n_law_parameters", law.info.get("n_parameters", "?"))),
        f"{likelihood:.2f}",
        f"{float(np.sum(list(seconds.values()))):.2f}" if isinstance(seconds, dict) else "–",
        *(f"{score.crps:.4g}" for score in scores),
        *(f"{100 * score.coverage:.1f} %" for score in scores),
        "fits" if card.check.fits else "does not fit",
    ]  # fmt: skip
