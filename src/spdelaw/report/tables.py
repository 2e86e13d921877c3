"""Tables of the report: parameters, tests, scores, laws side by side, provenance."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy
import xarray as xr

from spdelaw._version import __version__
from spdelaw.law.law import Law
from spdelaw.processes.linear import Linear
from spdelaw.report.data import TIERS, ReportData
from spdelaw.report.plots import Table
from spdelaw.report.summary import mode_names

#: Letters of parameters in headings.
LETTERS = {"eigenvalue": "λ", "noise_variance": "q"}


# ---------- Parameters


def cells(values: np.ndarray) -> tuple[str, str]:
    """Estimate and interval as text."""
    estimate, stderr, lower, upper = values
    if stderr == 0:
        return f"{estimate:.4g}" if abs(estimate) > 1e-12 else "0", "fixed"
    if not (np.isfinite(lower) and np.isfinite(upper)):
        return f"{estimate:.4g}", "not determined"
    return f"{estimate:.4g}", f"{lower:.4g} to {upper:.4g}"


def _estimates(caption: str, unit: str, rows: Any, columns: Mapping[str, Any], **how: Any) -> Table:
    """Named rows with an estimate and an interval in each column of values (n, 4)."""
    header = [unit, *(text for name in columns for text in (name, "interval"))]
    body = [
        [row, *(text for values in columns.values() for text in cells(values[i]))]
        for i, row in enumerate(rows)
    ]
    return Table(caption, header, body, **how)


def mode_table(data: ReportData) -> Table:
    """Parameters of each mode."""
    by_mode = {
        LETTERS.get(str(name), str(name).replace("_", " ")): table.values
        for name, table in data.law.parameters.items()
        if table.dims == ("mode", "statistic")
    }
    rows = mode_names(data.law) if by_mode else ()
    return _estimates("Parameters of each mode", "mode", rows, by_mode, folded=True)


def eigenmode_table(data: ReportData) -> Table:
    """Times of the eigenmodes of a drift that couples modes."""
    modes = data.law.eigenmodes()
    columns = {name.replace("_f", "-f").replace("_", " "): modes[name].values
               for name in ("e_folding_time", "period")}  # fmt: skip
    numbers = [str(i + 1) for i in range(modes.sizes["eigenmode"])]
    table = _estimates("Eigenmodes of the drift", "eigenmode", numbers, columns)
    for row, period in zip(table.rows, columns["period"], strict=True):
        row[3:] = row[3:] if np.isfinite(period[0]) else ["does not oscillate", ""]  # type: ignore[index]
    return table


def scalar_table(data: ReportData) -> Table:
    """Parameters that belong to no mode."""
    table = data.law.parameters
    rows = [[str(name).replace("_", " "), *cells(values.values)]
            for name, values in table.items() if values.dims == ("statistic",)]  # fmt: skip
    for k, values in enumerate(table["season"].values if "season" in table else ()):
        rows.append([f"noise in season {k + 1}, relative", *cells(values)])
    if "point" in table.sizes:
        std = table["observation_std"].sel(statistic="estimate").values
        rows.append(
            ["observation std", f"{std.min():.4g} to {std.max():.4g}", "one for each point"]
        )
    return Table("Other parameters", ("parameter", "estimate", "interval"), rows)


def term_table(law: Law) -> Table:
    """Coefficients of the terms of a semilinear law."""
    table, robust = law.parameters["coefficient"], law.info.get("robust_errors", {})
    rows = []
    for name in map(str, table["term"].values):
        values = table.sel(term=name).values
        error = "fixed" if values[1] == 0 else f"{values[1]:.3g}"
        rows.append([name, *cells(values), error, f"{robust[name]:.3g}" if name in robust else ""])
    level = f"{100 * float(law.parameters.attrs['interval_level']):g} % interval"
    header = ("term", "coefficient", level, "standard error", "robust error")
    note = (
        "The robust error is also valid if the model is slightly wrong; prefer it where it is much "
        "larger. The coefficients depend on the number of modes."
    )
    return Table("Terms", header, rows, note=note)


def candidate_table(law: Law) -> Table:
    """Sets of terms that `spdelaw.discover` compared; without rows where there are none."""
    rows = []
    for row in law.info.get("discovery", {}).get("candidates", []):
        log_likelihood = row["log_likelihood"]
        shown = "not fitted" if log_likelihood is None else f"{log_likelihood:.1f}"
        chosen = "" if row["frequency"] is None else f"{100 * row['frequency']:.0f} %"
        rows.append([row["terms"], shown, f"{row['bic']:.1f}", chosen])
    header = ("terms", "log-likelihood", "BIC above the best", "chosen")
    note = "Last column: share of block-bootstrap samples that select the same terms."
    return Table("Candidates", header, rows, folded=True, note=note)


# ---------- Tests and scores


def test_table(data: ReportData) -> Table:
    """P-values of the tests of the innovations."""
    check = data.card.check
    tests = [str(name) for name in check.p_values.data_vars]
    rows = [
        [f"{check.unit} {int(n)}", *(_p_value(check.p_values[t].values[i]) for t in tests)]
        for i, n in enumerate(check.p_values["series"].values)
    ]
    rows += [[name, _p_value(p), *[""] * (len(tests) - 1)] for name, p in check.overall.items()]
    caption = "Tests of the innovations (p-values; judged jointly by Holm's method)"
    return Table(caption, (check.unit, *tests), rows, folded=True)


def _p_value(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def score_table(data: ReportData) -> Table:
    """Scores of the first law on held-out values."""
    rows = [
        [tier, *(f"{v:.4g}" for v in score[:3]), f"{100 * score.coverage:.1f} %"]
        for tier, score in data.card.tiers.items()
    ]
    level = f"inside {100 * data.card.level:g} % intervals"
    return Table("Scores on held-out values", ("task", "rel L2", "RMSE", "CRPS", level), rows)


def skill_table(document: Mapping[str, Any]) -> Table:
    """RMSE and CRPS of each method by lead."""
    unit = document.get("units", "")
    rows: list[list[str]] = []
    for score in ("rmse", "crps"):
        rows.append([score.upper() + (f" ({unit})" if unit else "")])
        rows += [
            [method, *(f"{row['estimate']:.3g} [{row['lower']:.3g}, {row['upper']:.3g}]"
                       for row in scores[score])]
            for method, scores in document["scores"].items()
        ]  # fmt: skip
    header = ["", *(f"lead {lead}" for lead in document["leads"])]
    return Table("Scores", header, rows, True, "; ".join(document["facts"]))


def law_table(data: ReportData) -> Table:
    """Several laws of the same data side by side."""
    header = (
        *("law", "engine", "modes", "parameters", "log-likelihood per path", "fit (s)"),
        *(f"CRPS, {tier}" for tier in TIERS), *(f"inside, {tier}" for tier in TIERS), "model",
    )  # fmt: skip
    several = len({str(values.attrs["of"]) for values in data.likelihoods.values()}) > 1
    rows = []
    for name, law in data.laws.items():
        card, likelihood = data.cards[name], data.likelihoods[name]
        of = f" ({likelihood.attrs['of']})" if several else ""
        rows.append([
            name, law.info.engine or "?", str(law.n_modes),
            str(law.info.get("n_law_parameters", law.info.get("n_parameters", "?"))),
            f"{float(likelihood.mean()):.2f}{of}",
            f"{sum((law.info.seconds or {}).values()):.2f}",
            *(f"{card.tiers[tier].crps:.4g}" for tier in TIERS),
            *(f"{100 * card.tiers[tier].coverage:.1f} %" for tier in TIERS),
            "fits" if card.check.fits else "does not fit",
        ])  # fmt: skip
    return Table("The laws on these data", header, rows)


# ---------- Provenance of laws, data and software, enough to make the report again


def provenance_tables(data: ReportData) -> list[Table]:
    """Data, laws, software and what to cite."""
    import plotly

    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    versions = (
        f"spdelaw {__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}, xarray {xr.__version__}, plotly {plotly.__version__}"
    )
    return [
        _facts("Data", _data_facts(data)),
        *(_facts(f"Law: {name}", _law_facts(data, name)) for name in data.laws),
        _facts("Software", {"versions": versions, "made": now}),
        Table("Please cite", ("", ""), [["", line] for line in data.law.citation().splitlines()]),
    ]


def _facts(caption: str, facts: Mapping[str, str]) -> Table:
    return Table(caption, ("", ""), [[key, text] for key, text in facts.items() if text])


def _data_facts(data: ReportData) -> dict[str, str]:
    d = data.description
    n_paths, n_times = (data.joint.fields.sizes[dim] for dim in ("path", "time"))
    values = (f"{name} {v:.4g}" for name, v in d["values"].items() if v is not None)
    return {
        "file": data.source.get("data", "passed in memory"),
        "shape": " × ".join(f"{n} {dim}" for dim, n in d["sizes"].items()),
        "training data": data.training,
        "used here": f"the first {n_paths} paths" if n_paths < d["sizes"]["path"] else "",
        "figures": f"the first {n_times} times; scores and checks use all times"
        if n_times < d["sizes"]["time"] else "",
        "missing": f"{100 * d['missing']['fraction']:.3g} %",
        "values": ", ".join(values),
        "SHA-256 of the content": d["fingerprint"],
    }  # fmt: skip


def _law_facts(data: ReportData, name: str) -> dict[str, str]:
    law = data.laws[name]
    info, of = law.info, law.info.log_likelihood_of
    model = f"dynamics {law.dynamics.name}"
    if isinstance(law.dynamics, Linear):
        model = f"drift {info.drift}, noise {info.noise}"
    source = info.data or {}
    learned_from = f"{source.get('file', '?')}, SHA-256 {source.get('fingerprint', '?')}"
    density = "" if of is None else f" of {of['count']} {of['kind']}"
    return {
        "file": data.source.get(f"law {name}", "passed in memory"),
        "learned from": learned_from if source else "",
        "domain": str(law.domain),
        "prepared by": "; ".join(info.preparation or []),
        "engine": f"{info.engine}, route {info.route or '–'}",
        "model": f"{model}, initial state {law.initial.kind}, {info.get('n_nuisance', 0)} "
        "nuisance modes",
        "log-likelihood": f"{info.log_likelihood:.8g}{density} with {info.n_parameters} parameters",
        "fitted in": f"{sum((info.seconds or {}).values()):.2f} s, spdelaw {info.version or '?'}",
    }
