"""What a report is made from: laws, the fields they are judged on, and their scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data import describe
from spdelaw.equation import SpectralSPDE
from spdelaw.errors import InputError
from spdelaw.evaluate import Scorecard, evaluate
from spdelaw.law import Law
from spdelaw.report.html._figure import LAW_COLOURS

Array = np.ndarray

#: Tasks that the report scores: the two that hold values out.
TIERS = ("forecast", "gaps")


@dataclasses.dataclass(frozen=True)
class Material:
    """Everything that the sections read; made once by `gather`.

    Attributes:
        laws: by the names shown; the first is the one that the report is about.
        fields: canonical fields, at most ``max_paths`` of them.
        description: of all the fields.
        cards: score of each law on the fields.
        truth: equation behind simulated fields.
        source: where laws and data come from, in the reader's words.
    """

    laws: dict[str, Law]
    fields: xr.DataArray
    description: dict[str, Any]
    cards: dict[str, Scorecard]
    truth: SpectralSPDE | None
    source: dict[str, str]
    seed: int

    @property
    def law(self) -> Law:
        """The law that the report is about."""
        return next(iter(self.laws.values()))

    @property
    def card(self) -> Scorecard:
        """Its score."""
        return next(iter(self.cards.values()))

    @property
    def dim(self) -> str:
        """The spatial dim."""
        return self.law.domain.dims[0]

    @property
    def points(self) -> Array:
        """The spatial points."""
        return self.fields[self.dim].values

    @property
    def quantity(self) -> str:
        """Name of the field, or of its anomaly, with its unit."""
        how = self.law.info.get("preparation", [])
        name = str(self.fields.name or "field").replace("_", " ")
        changed = any("anomalies" in step or "trend" in step for step in how)
        scaled = any("standardised" in step for step in how)
        unit = "standard deviations" if scaled else self.fields.attrs.get("units")
        return _with_unit(f"{name} anomaly" if changed else name, unit)

    @property
    def place(self) -> str:
        """Name of the spatial coordinate with its unit."""
        return _with_unit(self.dim, self.fields[self.dim].attrs.get("units"))


def gather(
    laws: Law | Mapping[str, Law],
    data: Any,
    truth: SpectralSPDE | None,
    source: Mapping[str, str] | None,
    max_paths: int,
    seed: int,
) -> Material:
    """Check the laws against each other and score each on the data."""
    named = {"law": laws} if isinstance(laws, Law) else dict(laws)
    _check_laws(named)
    first = next(iter(named.values()))
    everything = first.prepared(data)
    named = {name: law.bare for name, law in named.items()}
    fields = everything.isel(path=slice(max_paths)).load()
    cards = {
        name: evaluate(law, fields, _comparable(law, truth), tiers=TIERS, seed=seed)
        for name, law in named.items()
    }
    summary = describe(everything)
    return Material(named, fields, summary, cards, truth, dict(source or {}), seed)


def _comparable(law: Law, truth: SpectralSPDE | None) -> SpectralSPDE | None:
    return truth if truth is not None and truth.n_modes >= law.n_modes else None


def _check_laws(laws: dict[str, Law]) -> None:
    if not 1 <= len(laws) <= len(LAW_COLOURS) or not all(
        isinstance(law, Law) for law in laws.values()
    ):
        raise InputError(
            "laws", expected=f"one to {len(LAW_COLOURS)} laws", got=f"{len(laws)} entries",
            fix="pass law, or {'exact': law, 'chaos': other}",
        )  # fmt: skip
    several = [law.domain.dims for law in laws.values() if len(law.domain.dims) > 1]
    if several:
        raise InputError(
            "laws", expected="laws of fields with one spatial dim", got=f"dims {several[0]}",
            fix="draw maps with law.plot.field(data), judge with sl.evaluate(law, data)",
        )  # fmt: skip
    domains = {str(law.domain) for law in laws.values()}
    if len(domains) > 1:
        raise InputError(
            "laws", expected="laws on one domain", got=" and ".join(sorted(domains)),
            fix="make one report for each",
        )  # fmt: skip


def _with_unit(name: str, unit: Any) -> str:
    return f"{name} ({unit})" if isinstance(unit, str) and unit not in ("", "1") else name
