"""Provenance of laws, data and software, enough to make the report again."""

from __future__ import annotations

import datetime
import platform

import numpy as np

from spdelaw._version import __version__
from spdelaw.law.law import Law
from spdelaw.processes.linear import Linear
from spdelaw.report.data import ReportData
from spdelaw.report.plots import Section, Table


def provenance_section(material: ReportData) -> Section:
    """Data, laws and software."""
    lead = "All numbers and figures of this page come from these data and laws."
    parts = (
        Table("Data", ("", ""), _data(material)),
        *(Table(f"Law: {name}", ("", ""), _law(material, name)) for name in material.laws),
        Table("Software", ("", ""), _software()),
        Table(
            "Please cite", ("", ""), [["", line] for line in material.law.citation().splitlines()]
        ),
    )
    return Section("provenance", "Provenance", lead, parts)


def _data(material: ReportData) -> list[list[str]]:
    d = material.description
    rows = [
        ["file", material.source.get("data", "passed in memory")],
        ["shape", " × ".join(f"{n} {dim}" for dim, n in d["sizes"].items())],
        ["missing", f"{100 * d['missing']['fraction']:.3g} %"],
        ["values", _value_summary(d["values"])],
        ["SHA-256 of the content", d["fingerprint"]],
    ]
    used = material.fields.sizes["path"]
    if used < d["sizes"]["path"]:
        rows.insert(2, ["used here", f"the first {used} paths"])
    shown = material.fields.sizes["time"]
    if shown < d["sizes"]["time"]:
        rows.insert(2, ["figures", f"the first {shown} times; scores and checks use all times"])
    return rows


def _value_summary(values: dict[str, float | None]) -> str:
    return ", ".join(f"{name} {v:.4g}" for name, v in values.items() if v is not None)


def _law(material: ReportData, name: str) -> list[list[str]]:
    law = material.laws[name]
    info = law.info
    model = f"dynamics {law.dynamics.name}"
    if isinstance(law.dynamics, Linear):
        model = f"drift {info.drift}, noise {info.noise}"
    rows = {
        "file": material.source.get(f"law {name}", "passed in memory"),
        "learned from": "",
        "domain": str(law.domain),
        "prepared by": "; ".join(info.preparation or []),
        "engine": f"{info.engine}, route {info.route or '–'}",
        "model": f"{model}, initial state {law.initial.kind}, {info.get('n_nuisance', 0)} "
        "nuisance modes",
        "log-likelihood": f"{info.log_likelihood:.8g}{_likelihood_kind(law)} with "
        f"{info.n_parameters} parameters",
        "fitted in": f"{sum((info.seconds or {}).values()):.2f} s, spdelaw {info.version or '?'}",
    }
    if info.data is not None:
        file, digest = (info.data.get(key, "?") for key in ("file", "fingerprint"))
        rows["learned from"] = f"{file}, SHA-256 {digest}"
    return [[key, text] for key, text in rows.items() if text]


def _likelihood_kind(law: Law) -> str:
    """The numbers that the log-likelihood is a density of, in words."""
    of = law.info.log_likelihood_of
    return "" if of is None else f" of {of['count']} {of['kind']}"


def _software() -> list[list[str]]:
    import plotly
    import scipy
    import xarray

    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    versions = (
        f"spdelaw {__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}, xarray {xarray.__version__}, plotly {plotly.__version__}"
    )
    return [["versions", versions], ["made", now]]
