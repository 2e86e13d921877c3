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
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.box import Box
from spdelaw.domains.fields import Fields
from spdelaw.domains.hermite import Line
from spdelaw.domains.interval import Interval
from spdelaw.law.law import Law
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting
from spdelaw.report.data import TIERS, ReportData
from spdelaw.report.plots import Table

#: Letters of parameters in headings.
LETTERS = {"eigenvalue": "λ", "noise_variance": "q"}
#: Smaller numbers are zero by symmetry, unless their interval says otherwise.
ROUNDING = 1e-12


# ---------- Parameters, with intervals, for the page and for the shell


def cells(values: np.ndarray) -> tuple[str, str]:
    """Estimate and interval as text."""
    estimate, stderr, lower, upper = values
    if not np.isfinite(estimate):
        return "none", ""
    may_be_zero = stderr == 0 or lower <= 0 <= upper
    shown = "0" if may_be_zero and abs(estimate) <= ROUNDING else f"{estimate:.4g}"
    if stderr == 0:
        return shown, "fixed"
    is_bounded = np.isfinite(lower) and np.isfinite(upper)
    return shown, f"[{lower:.4g}, {upper:.4g}]" if is_bounded else "not determined"


def _estimates(law: Law, caption: str, rows: Any, columns: Mapping[str, Any], **how: Any) -> Table:
    """Rows by name with an estimate and an interval in each column of values (n, 4).

    The first of the ``rows`` is the head of the column of names.
    """
    unit, *names = rows
    header = [unit, *(text for head in columns for text in (head, _level(law)))]
    body = [
        [name, *(text for values in columns.values() for text in cells(values[i]))]
        for i, name in enumerate(names if columns else ())
    ]
    return Table(caption, header, body, **how)


def _level(law: Law) -> str:
    return f"{100 * float(law.parameters.attrs['interval_level']):g} % interval"


def letter(name: Any) -> str:
    """Head of the column of a parameter."""
    return LETTERS.get(str(name), str(name).replace("_", " "))


def mode_names(law: Law) -> list[str]:
    """Modes by number; of several fields by name and number, which take turns."""
    if not isinstance(law.domain, Fields):
        return [str(n + 1) for n in range(law.n_modes)]
    names = law.domain.names
    return [f"{names[k % len(names)]} {k // len(names) + 1}" for k in range(law.n_modes)]


def mode_table(law: Law, initial: bool = False) -> Table:
    """Parameters of each mode: those of the initial state, or all others."""
    columns = {
        letter(name): table.values
        for name, table in law.parameters.items()
        if table.dims == ("mode", "statistic") and str(name).startswith("initial") == initial
    }
    if "drift" in law.parameters and not initial:
        names = {"own decay": "drift", "noise variance": "noise_covariance"}
        columns |= {k: np.einsum("nns->ns", law.parameters[n].values) for k, n in names.items()}
    caption = "Initial state" if initial else "Parameters of each mode"
    return _estimates(law, caption, ["mode", *mode_names(law)], columns, folded=True)


def eigenmode_table(law: Law) -> Table:
    """Times of the eigenmodes of a drift that couples modes; without rows for others."""
    modes = law.eigenmodes() if "drift" in law.parameters else {}
    columns = {name.replace("_f", "-f").replace("_", " "): modes[name].values
               for name in ("e_folding_time", "period") if name in modes}  # fmt: skip
    n = max(map(len, columns.values()), default=0)
    rows = ["eigenmode", *(str(i + 1) for i in range(n))]
    note = "An eigenmode without a period does not oscillate."
    return _estimates(law, "Eigenmodes of the drift", rows, columns, note=note)


def scalar_table(law: Law) -> Table:
    """Parameters that belong to no mode."""
    table = law.parameters
    rows = [[str(name).replace("_", " "), *cells(values.values)]
            for name, values in table.items() if values.dims == ("statistic",)]  # fmt: skip
    for k, values in enumerate(table["season"].values if "season" in table else ()):
        rows.append([f"noise in season {k + 1}, relative", *cells(values)])
    if "point" in table.sizes:
        std = table["observation_std"].sel(statistic="estimate").values
        rows.append(
            ["observation std", f"{std.min():.4g} to {std.max():.4g}", "one for each point"]
        )
    return Table("Other parameters", ("parameter", "estimate", _level(law)), rows)


def term_table(law: Law) -> Table:
    """Coefficients of the terms of a semilinear law; without rows for others."""
    table, robust = law.parameters.get("coefficient"), law.info.get("robust_errors", {})
    rows = []
    for name in () if table is None else map(str, table["term"].values):
        values = table.sel(term=name).values
        error = "fixed" if values[1] == 0 else f"{values[1]:.3g}"
        rows.append([name, *cells(values), error, f"{robust[name]:.3g}" if name in robust else ""])
    header = ("term", "coefficient", _level(law), "standard error", "robust error")
    note = (
        "The robust error is also valid if the model is slightly wrong; prefer it where it is much "
        "larger. The coefficients depend on the number of modes."
    )
    return Table("Terms of the drift", header, rows, note=note)


def candidate_table(law: Law) -> Table:
    """Sets of terms that `spdelaw.discover` compared; without rows where there are none."""
    rows = []
    for row in law.info.get("discovery", {}).get("candidates", []):
        log_likelihood = row["log_likelihood"]
        shown = "not fitted" if log_likelihood is None else f"{log_likelihood:.2f}"
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
    source = law.info.data or {}
    learned_from = f"{source.get('file', '?')}, SHA-256 {source.get('fingerprint', '?')}"
    return {
        "file": data.source.get(f"law {name}", "passed in memory"),
        "learned from": learned_from if source else "",
        "prepared by": "; ".join(law.info.preparation or []),
        **law_facts(law),
        "version": f"spdelaw {law.info.version or '?'}",
    }


# ---------- Facts about a law, for the page and for the shell


def law_facts(law: Law) -> dict[str, str]:
    """What a law assumes, and how it was fitted."""
    info = law.info
    convergence, of = info.convergence or {}, info.log_likelihood_of
    spectra = f"dynamics {law.dynamics.name}"
    if isinstance(law.dynamics, Linear):
        spectra = f"drift {info.drift}, noise {info.noise}"
    elif isinstance(law.dynamics, Reacting) and law.dynamics.amplitude is not None:
        spectra += f", noise {law.dynamics.state_noise_kind.replace('_', ' ')}"
    numbers = "" if of is None else f" of {of['count']} {of['kind']}"
    sizes = {"path": info.n_paths, "time": info.n_times, "point": info.n_points}
    facts = {
        "domain": domain_text(law.domain),
        "engine": f"{info.engine}, route {info.route or '–'}",
        "data": " × ".join(f"{n} {dim}" for dim, n in sizes.items() if n is not None),
        "initial state": law.initial.kind,
        "mean": _mean_fact(law),
        "spectra": f"{spectra}, {info.n_nuisance or 0} nuisance modes",
    }
    units = {letter(k): v.attrs.get("units") for k, v in law.parameters.items()}
    facts["units"] = ", ".join(f"{k} {unit}" for k, unit in units.items() if unit)
    if law.forcing is not None:
        t = law.forcing.times
        facts["forcing"] = f"known from {t[0]:g} to {t[-1]:g}"
    if law.residual_memory is not None:
        unit = str((info.time or {}).get("units", "")).split(" since ")[0]
        facts["residual"] = law.residual_memory.in_words(unit)
    season = getattr(law.dynamics, "season", None)
    if season is not None:
        facts["season"] = f"{len(season.weights)} parts of the period {season.period:g}"
    facts |= {
        "log-likelihood": f"{info.log_likelihood:.8g}{numbers} ({info.n_parameters} parameters)",
        "convergence": f"{convergence.get('evaluations')} evaluations, "
        f"remaining gain {convergence.get('remaining_gain', float('nan')):.1e}",
        "fitting": f"{sum((info.seconds or {}).values()):.2f} s",
    }
    return {name: fact for name, fact in facts.items() if fact}


def _mean_fact(law: Law) -> str:
    """The mean of the model, and how far it is from zero where the data decided."""
    decided = law.info.get("decisions", {}).get("mean", {})
    if law.info.mean is None or not decided:
        return ""
    z, limit = decided.get("largest_z_of_mean"), decided.get("mean_from_z")
    z_text = "" if z is None else f" (largest |z| of a mode {z:.2g}, dropped below {limit:.1f})"
    return f"{law.info.mean}{z_text}"


def domain_text(domain: AbstractDomain | str) -> str:
    """A domain as people write it."""
    if isinstance(domain, str):
        return "EOFs of the data"
    if isinstance(domain, Fields):
        return f"{domain_text(domain.domain)}, for each of {' and '.join(domain.names)}"
    if isinstance(domain, Interval):
        return f"[{domain.a:.6g}, {domain.b:.6g}], {domain.boundary}"
    if isinstance(domain, Box):
        words = ", ".join(dict.fromkeys(map(str, domain.boundary)))
        return f"{' × '.join(f'[{a:.6g}, {b:.6g}]' for a, b in domain.sides)}, {words}"
    return "the weighted line" if isinstance(domain, Line) else str(domain)
