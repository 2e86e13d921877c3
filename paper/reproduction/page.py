"""The comparison as one HTML file, made of records only: answers, figures, tables, every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paper.regimes import TITLES
from paper.reproduction.figures import bars, laws, modes, moments, truths
from paper.reproduction.tables import TASKS, Row, Sheet, answers, name_of, sheets, spread, tables
from spdelaw.data.io.safe_files import replace_file
from spdelaw.report.page import render
from spdelaw.report.plots import Figure, Section, Table, axis, layout, log_axis, packed, panel_title

Record = dict[str, Any]
Traces = list[dict[str, Any]]

#: Role of colour and symbol, by entry; the truth has the colour of text.
LOOK = {
    "exact": ("@data", "circle"),
    "chaos-modelled": ("@fourth", "square"),
    "chaos-dropped": ("@third", "triangle-up"),
    "amortized-paper": ("@law", "triangle-down"),
    "amortized-rescaled": ("@muted", "triangle-right"),
    "amortized-literal": ("@muted", "triangle-left"),
    "amortized-structured": ("@second", "diamond"),
}
OTHER = ("@muted", "cross")
#: Panels side by side, as shares of the width.
SIDES = ((0.0, 0.44), (0.56, 1.0))
#: Heights in pixels of a system in the figure of errors, and of the space between two tasks.
LINE, GAP = 26, 58


def write_page(out: Path, records: list[Record], command: str) -> Path:
    """Write ``report.html`` into a folder: answers, figures, tables and every run.

    Args:
        out: folder, which exists.
        records: records of one profile, from `read_records`.
        command: command that made them.
    """
    regimes = tables(records)
    sections = [_regime(regime, rows, records) for regime, rows in regimes.items()]
    profile = f", profile {records[0]['profile']}" if records else ""
    title = f"The paper's comparison, run again{profile}"
    page = render(title, answers(regimes), [*sections, _runs(records, command)])
    target = out / "report.html"
    with replace_file(target) as new:
        new.write_text(page, encoding="utf-8")
    return target


def _regime(regime: str, rows: list[Row], records: list[Record]) -> Section:
    lead = (
        "The error of a system depends on the information that it has on a test path. The tasks "
        "are therefore kept apart, each with its limits: the floor of all systems with this "
        "decoder, and for a path of which only the start is known the exact mean, which has the "
        "least squared error, and the best constant path for the relative error."
    )
    errors, *others = (_table(sheet) for sheet in sheets(rows))
    figures = law_figures(regime, [r for r in records if r["regime"] == regime])
    parts: list[Figure | Table] = [errors_figure(regime, rows), errors, *figures, *others]
    return Section(f"regime-{regime}", TITLES[regime], lead, tuple(parts))


def _table(sheet: Sheet) -> Table:
    lines: list[list[str]] = []
    for heading, group in sheet.groups.items():
        lines += [[f"A system that {heading}"]] if heading else []
        lines += [
            [line[0], *(cell.replace(" ", "\N{NO-BREAK SPACE}") for cell in line[1:])]
            for line in group
        ]
    return Table(sheet.title, sheet.header, lines, note=sheet.note)


def _runs(records: list[Record], command: str) -> Section:
    lead = (
        "Every number of this page is from one of these runs; each has a record in JSON with its "
        "whole configuration. A number at the end of a name is that of the network's "
        "initialisation, all on one data set, or of the data set where there is no network."
    )
    header = ("run", "epochs", "best epoch", "training", "seconds", "finished")
    lines = [
        [r["name"], _whole(r.get("epochs")), _whole(r.get("best_epoch")), _training(r),
         spread([r["seconds"]], 1) if r.get("seconds") is not None else "", r["finished"]]
        for r in records
    ]  # fmt: skip
    versions: dict[str, list[str]] = {}
    for record in records:
        text = ", ".join(f"{name} {value}" for name, value in record["versions"].items())
        versions.setdefault(text, []).append(record["name"])
    facts = [["command", command]]
    facts += [[f"{len(names)} runs made with", text] for text, names in versions.items()]
    parts = (Table("Software", ("", ""), facts), Table("Every run", header, lines, folded=True))
    return Section("runs", "Provenance", lead, parts)


def _whole(value: int | None) -> str:
    return "" if value is None else str(value)


def _training(record: Record) -> str:
    if record["shortened"]:
        return ", ".join(record["shortened"])
    if record.get("epochs") is None:
        return "none"
    return "ended early, by its rule" if record.get("stopped_early") else "in full"


# ------------------------------------------------------------------ errors


def errors_figure(regime: str, rows: list[Row]) -> Figure:
    """Relative error of every system, one panel a task, with what the paper prints."""
    tasks = [task for task in TASKS if any(row["task"] == task for row in rows)]
    counts = [sum(row["task"] == task for row in rows) for task in tasks]
    height = LINE * sum(counts) + GAP * (len(tasks) - 1)
    traces: Traces = []
    axes: dict[str, Any] = {}
    titles, top = [], 1.0
    for i, (task, count) in enumerate(zip(tasks, counts, strict=True)):
        suffix = str(i + 1) if i else ""
        bottom = top - LINE * count / height
        last = i == len(tasks) - 1
        axes[f"xaxis{suffix}"] = axis(
            "relative L2 error" if last else "",
            anchor=f"y{suffix}",
            rangemode="tozero",
            **({} if i == 0 else {"matches": "x"}),
        )
        axes[f"yaxis{suffix}"] = axis(
            domain=[max(0.0, bottom), top], anchor=f"x{suffix}", autorange="reversed",
            type="category", tickfont={"size": 12},
        )  # fmt: skip
        titles.append(panel_title(f"A system that {TASKS[task]}", 0.0, top))
        shown = [row for row in rows if row["task"] == task]
        traces += _errors(shown, f"x{suffix}", f"y{suffix}", legend=task == "predict")
        top = bottom - GAP / height
    settings = layout(**axes, annotations=titles, margin={"l": 8, "r": 24, "t": 66, "b": 52})
    settings["legend"] |= {"yref": "container", "y": 1.0, "yanchor": "top"}
    caption = (
        "Mean over runs with its standard deviation; diamonds are the numbers printed in the "
        "paper. Systems are comparable within a panel only, where they have the same information."
    )
    return Figure(f"errors-{regime}", caption, traces, settings, height + 110)


def _errors(rows: list[Row], x: str, y: str, legend: bool) -> Traces:
    common = {
        "type": "scatter", "mode": "markers", "xaxis": x, "yaxis": y, "showlegend": legend,
        "cliponaxis": False,
    }  # fmt: skip
    groups = {
        "a limit": [row for row in rows if row["kind"] == "reference"],
        "here": [row for row in rows if row["kind"] != "reference"],
    }
    looks = {
        "a limit": {"color": "@ink", "symbol": "line-ns-open", "size": 16},
        "here": {"color": "@law", "symbol": "circle", "size": 9},
    }
    traces = [
        {**common, "name": name, "marker": looks[name], **_points(group)}
        for name, group in groups.items()
    ]
    printed = [row for row in rows if row["paper_relative_l2"]]
    values = [row["paper_relative_l2"] for row in printed]
    paper = {"color": "@data", "symbol": "diamond-open", "size": 10, "line": {"width": 2}}
    traces.append({
        **common, "name": "printed in the paper", "marker": paper,
        "x": [mean for mean, _ in values], "y": [name_of(row) for row in printed],
        "error_x": _bar([std for _, std in values]),
        "hovertemplate": "%{y}, paper: %{x:.4f}<extra></extra>",
    })  # fmt: skip
    return traces


def _points(rows: list[Row]) -> dict[str, Any]:
    errors = [row["relative_l2"] for row in rows]
    return {
        "x": [float(np.mean(e)) for e in errors],
        "y": [name_of(row) for row in rows],
        "error_x": _bar([float(np.std(e, ddof=1)) if len(e) > 1 else 0.0 for e in errors]),
        "hovertemplate": "%{y}: %{x:.4f}<extra></extra>",
    }


def _bar(std: list[float]) -> dict[str, Any]:
    return {"type": "data", "array": std, "thickness": 1.6, "width": 3}


# ------------------------------------------------------------------ laws


def law_figures(regime: str, records: list[Record]) -> list[Figure]:
    """The paper's four law figures, two and two; none where no system has a law."""
    if not any(True for _ in laws(records, "eigenvalues")):
        return []
    return [
        _pair(
            f"moments-{regime}", records, ("averaged_variance", "spatially averaged variance"),
            ("energy_at_end", "energy E cₙ(T)² at the last time"),
            "Variance over time and energy of the modes at the last time, of each learned law and "
            "of the law that made the data. Bands and bars are standard deviations over runs.",
        ),
        _pair(
            f"spectra-{regime}", records, ("eigenvalues", "eigenvalue λₙ"),
            ("noise_variance", "noise variance qₙ"),
            "Eigenvalues and noise variances. The scheme that made the data bends the equation "
            "(dotted) into another law (dashed): an estimate should be on the dashed line. A value "
            "more than 30 times beyond it is drawn at that distance.",
        ),
    ]  # fmt: skip


def _pair(
    name: str, records: list[Record], left: tuple[str, str], right: tuple[str, str], caption: str
) -> Figure:
    traces: Traces = []
    axes: dict[str, Any] = {}
    for suffix, (curve, _), side in zip(("", "2"), (left, right), SIDES, strict=True):
        where = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}", "showlegend": not suffix}
        draw = _over_time if curve == "averaged_variance" else _by_mode
        drawn = draw(records, curve, where)
        over = {"domain": list(side), "anchor": f"y{suffix}"}
        if draw is _over_time:
            axes[f"xaxis{suffix}"] = axis("time", **over)
            axes[f"yaxis{suffix}"] = axis(rangemode="tozero", anchor=f"x{suffix}")
        else:
            shown = np.concatenate([trace["y"] for trace in drawn])
            axes[f"xaxis{suffix}"] = axis("mode n", dtick=1, **over)
            axes[f"yaxis{suffix}"] = log_axis(shown, anchor=f"x{suffix}")
        traces += drawn
    titles = [panel_title(text, x) for (_, text), (x, _) in zip((left, right), SIDES, strict=True)]
    settings = layout(**axes, annotations=titles, margin={"l": 64, "r": 24, "t": 96, "b": 52})
    settings["legend"] |= {"y": 1.1}
    return Figure(name, caption, traces, settings, 460)


def _over_time(records: list[Record], curve: str, where: dict[str, Any]) -> Traces:
    common = {"type": "scatter", "mode": "lines", **where}
    traces: Traces = []
    for entry, group, label in laws(records, curve):
        colour, _ = LOOK.get(entry, OTHER)
        mean, std = moments(group, curve)
        time = group[0]["curves"]["time"]
        edge = {**common, "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False, "x": time}
        line = {"color": colour, "width": 2}
        traces += [
            {**edge, "y": packed(mean - std)},
            {**edge, "y": packed(mean + std), "fill": "tonexty", "fillcolor": "@neutralband"},
            {**common, "x": time, "y": packed(mean), "name": label, "line": line,
             "legendgroup": entry, "hovertemplate": "%{x:.3g}: %{y:.4g}"},
        ]  # fmt: skip
    if truth := truths(records):
        traces.append({
            **common, "x": truth[0]["curves"]["time"], "y": packed(moments(truth, curve)[0]),
            **_made("law of the data", "@ink", "dash"),
        })  # fmt: skip
    return traces


def _by_mode(records: list[Record], curve: str, where: dict[str, Any]) -> Traces:
    traces: Traces = []
    groups = list(laws(records, curve))
    for i, (entry, group, label) in enumerate(groups):
        colour, symbol = LOOK.get(entry, OTHER)
        mean, (below, above) = bars(records, group, curve)
        at = modes(mean) + 0.1 * (i - 0.5 * (len(groups) - 1))
        traces.append({
            "type": "scatter", "mode": "markers", **where, "name": label, "legendgroup": entry,
            "x": at.tolist(), "y": mean.tolist(),
            "marker": {"color": colour, "symbol": symbol, "size": 7},
            "error_y": {**_bar(above.tolist()), "symmetric": False, "arrayminus": below.tolist()},
            "hovertemplate": "mode %{x:.0f}: %{y:.4g}",
        })  # fmt: skip
    if truth := truths(records):
        mean = moments(truth, curve)[0]
        lines = {"law of the data": (mean.tolist(), "@ink", "dash")}
        if exact := truth[0]["curves"].get(f"equation_{curve}"):
            lines["equation"] = (exact, "@muted", "dot")
        for name, (y, colour, dash) in lines.items():
            line = {"type": "scatter", "mode": "lines", "x": modes(mean).tolist(), "y": y}
            traces.append({**line, **where, **_made(name, colour, dash)})
    return traces


def _made(name: str, colour: str, dash: str) -> dict[str, Any]:
    return {
        "name": name,
        "legendgroup": name,
        "line": {"color": colour, "width": 1.6, "dash": dash},
        "hovertemplate": f"{name}: %{{y:.4g}}",
    }
