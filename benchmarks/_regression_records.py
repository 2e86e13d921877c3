"""What `benchmarks.regression` keeps of results: few numbers of large arrays, and texts.

A record is a flat dict from names to lists of numbers, texts or lists of texts. The prefix of a
name decides how it is compared: "fit:" by the rule of fits, "figure:" to single precision,
"search:" to what a search by likelihood determines, and anything else to 1e-10.
"""

from __future__ import annotations

import base64
import contextlib
import html.parser
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import _timing  # noqa: F401  (sets the number of threads before NumPy loads)

import numpy as np  # isort: skip
import xarray as xr  # isort: skip

import spdelaw as sl  # isort: skip

Array = np.ndarray
Flat = dict[str, list[float] | list[str] | str]

#: Numbers kept of a large array, with two means over all of it.
KEPT = 6
#: Times that are kept of a result, the first and the last.
ENDS = [0, -1]
#: Entries of documents that differ from run to run or from machine to machine, or that are as
#: small as rounding: they are left out.
UNSTABLE = {
    "bytes", "candidate_seconds", "convergence", "data", "decisions", "file", "fingerprint",
    "fitted in", "learned from", "made", "seconds", "version", "versions",
}  # fmt: skip
#: Heading of a column of the report that differs from run to run.
SECONDS = "fit (s)"
#: Letters kept of one text.
LONGEST = 400
#: Numbers below this are rounding of zero, and so are such numbers in texts.
ROUNDING = 1e-14
#: The same relative to the largest number of a table of parameters.
RELATIVE_ROUNDING = 1e-12
ROUNDING_IN_TEXT = re.compile(r"-?\d+(\.\d+)?e-(1[4-9]|[2-9]\d)\b")


# -- numbers and texts ---------------------------------------------------------------------


def digest(values: Any) -> list[float]:
    """All of a small array; of a large one some numbers, their root mean square and a mean.

    The mean has a weight for each place, so that no number and no order is free. What is missing
    or infinite counts as zero.
    """
    values = np.asarray(values, float)
    flat = np.where(np.isfinite(values), values, 0.0).ravel()
    if len(flat) <= KEPT + 2:
        return flat.tolist()
    some = flat[(len(flat) * (np.arange(KEPT) + 0.5) / KEPT).astype(int)]  # not the ends: often 0
    weights = np.cos(np.arange(len(flat)))
    return [*some.tolist(), float(np.sqrt(np.mean(flat**2))), float(np.mean(weights * flat))]


def array(name: str, values: Any) -> Flat:
    """Numbers, dates or texts under a name, with how many are missing where some are."""
    a = np.asarray(values)
    if a.ndim == 0 and a.dtype.kind in "f" and abs(a) < ROUNDING:
        a = np.zeros(())
    if a.dtype.kind in "OUS":
        return {name: [_text(entry) for entry in a.ravel()]}
    if a.dtype.kind in "mM":
        return {name: [str(entry) for entry in a.ravel()[ENDS].astype("M8[s]")]}
    missing = int(a.size - np.isfinite(a.astype(float)).sum())
    return {name: digest(a)} | ({f"{name} missing": [float(missing)]} if missing else {})


def dataset(name: str, data: xr.Dataset | xr.DataArray) -> Flat:
    """Values, dims, times, units and attributes as text of a labelled result."""
    if isinstance(data, xr.DataArray):
        data = data.to_dataset(name=data.name or "values")
    if "std_field" in data:  # the name was ``std`` when the net was recorded
        data = data.drop_vars("std").rename(std_field="std")
    record: Flat = {}
    for key, variable in data.data_vars.items():
        if key in UNSTABLE:
            continue
        record |= array(f"{name} {key}", variable.values)
        record[f"{name} {key} dims"] = [f"{d} {n}" for d, n in variable.sizes.items()]
    for key, coordinate in data.coords.items():
        if coordinate.dtype.kind in "MUO" and coordinate.size:
            record[f"{name} {key}"] = [str(entry) for entry in coordinate.values.ravel()[ENDS]]
    return record | document(f"{name} attrs", dict(data.attrs))


def document(name: str, value: Any) -> Flat:
    """A document of plain types, flat: one entry for each number, text or list."""
    if isinstance(value, Mapping):
        parts = (document(f"{name}.{k}", v) for k, v in value.items() if k not in UNSTABLE)
        return _merged(parts)
    if isinstance(value, bool | str | None):
        return {name: _text(value)}
    if isinstance(value, xr.Dataset | xr.DataArray):
        return dataset(name, value)
    if isinstance(value, np.ndarray | int | float | np.number):
        return array(name, value)
    entries = list(value)
    if all(isinstance(entry, str | None) for entry in entries):
        return {name: [_text(entry) for entry in entries]}
    if _is_numeric(entries):
        return array(name, np.asarray(entries, float))
    if all(isinstance(entry, Mapping) for entry in entries):
        return _merged(document(f"{name}.{k}", column) for k, column in _columns(entries).items())
    return _merged(document(f"{name}.{k}", entry) for k, entry in enumerate(entries))


def _is_numeric(entries: list[Any]) -> bool:
    """Whether lists hold numbers or None alone, as many in each."""
    if all(isinstance(entry, list) for entry in entries):
        return len({len(entry) for entry in entries}) == 1 and all(map(_is_numeric, entries))
    return all(isinstance(entry, int | float | np.number | None) for entry in entries)


def _columns(rows: list[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows of a table by column; None where a row has no entry."""
    names = [name for name in dict.fromkeys(k for row in rows for k in row) if name not in UNSTABLE]
    return {str(name): [row.get(name) for row in rows] for name in names}


def _merged(parts: Iterable[Flat]) -> Flat:
    record: Flat = {}
    for part in parts:
        record |= part
    return record


def _text(value: Any) -> str:
    """A text without version, folder and rounding of zero."""
    text = str(value).replace(sl.__version__, "VERSION").replace(str(Path.cwd()), "FOLDER")
    return ROUNDING_IN_TEXT.sub("0", text)[:LONGEST]


# -- results of the package ----------------------------------------------------------------


def fitted(law: sl.Law, label: str = "law") -> Flat:
    """Estimates, errors and intervals, the log-likelihood, and what the fit decided."""
    tables = {str(key): table.values for key, table in law.parameters.data_vars.items()}
    record: Flat = {f"fit:{label}:{key}": digest_rows(table) for key, table in tables.items()}
    record[f"fit:{label}:log_likelihood"] = [float(law.info["log_likelihood"])]
    record[f"{label} unresolved_variance"] = [float(law.unresolved_variance)]
    answers = (law.info.get("decisions") or {}).items()
    record[f"{label} decided"] = [
        *(
            f"{key}: {law.info.get(key)}"
            for key in ("engine", "route", "initial_state", "n_nuisance", "mean")
        ),
        *(f"{key}: {_answer(answer)}" for key, answer in answers),
        f"{law.n_modes} modes",
    ]
    record[f"{label} warnings"] = [_text(line) for line in law.info.get("warnings", [])]
    return record


def _answer(decision: Any) -> str:
    return str(decision.get("answer") if isinstance(decision, Mapping) else decision)


def digest_rows(table: Array) -> list[float]:
    """Rows of estimate, error, lower and upper end, all of up to twelve, else every so many.

    Numbers that are rounding relative to the largest one count as zero.
    """
    rows = np.reshape(table, (-1, table.shape[-1]))
    rows = np.where(np.isfinite(rows), rows, 0.0)
    rows = np.where(np.abs(rows) > RELATIVE_ROUNDING * np.abs(rows).max(initial=0.0), rows, 0.0)
    kept = rows if len(rows) <= 2 * KEPT else rows[:: -(-len(rows) // (2 * KEPT))]
    return kept.ravel().tolist()


def searched(record: Flat, *parts: str) -> Flat:
    """A record in which names with one of these parts belong to what a search determines."""
    return {
        f"search:{key}" if any(part in key for part in parts) else key: value
        for key, value in record.items()
    }


def predicted(law: sl.Law, data: Any, label: str = "law", *, steps: int = 3) -> Flat:
    """Likelihood, reconstruction and forecast of data."""
    ahead = law.forecast(data, steps=steps, n_samples=2, seed=5)
    return {
        **array(f"{label} log_likelihood", law.log_likelihood(data).values),
        **dataset(f"{label} reconstruct", law.reconstruct(data)),
        **dataset(f"{label} forecast", ahead),
    }


def scored(card: sl.Scorecard, label: str = "card") -> Flat:
    """Scores, p-values, verdict and advice."""
    return document(label, card.to_dict())


# -- the page ------------------------------------------------------------------------------


class _Page(html.parser.HTMLParser):
    """Texts of a page by kind, and the data of its figures."""

    KINDS = ("h1", "h2", "h3", "p", "th", "td", "figcaption", "summary")

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {kind: [] for kind in self.KINDS}
        self.rows: list[list[str]] = []
        self.figures = ""
        self._open: list[str] = []
        self._is_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_data = tag == "script" and ("id", "figures") in attrs
        if tag == "tr":
            self.rows.append([])
        if tag in self.KINDS:
            self._open.append(tag)
            self.texts[tag].append("")
            if tag in ("th", "td"):
                self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_data = False
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._is_data:
            self.figures += data
        elif self._open:
            self.texts[self._open[-1]][-1] += data
            if self._open[-1] in ("th", "td"):
                self.rows[-1][-1] += data


def page(path: Path) -> Flat:
    """Titles, texts, table cells and numbers of figures of a report."""
    reader = _Page()
    reader.feed(path.read_text(encoding="utf-8"))
    titles = [text for kind in ("h1", "h2", "h3", "summary") for text in reader.texts[kind]]
    rows = [" | ".join(cells) for cells in _without_seconds(reader.rows) if _is_stable(cells)]
    texts = [*reader.texts["p"], *reader.texts["figcaption"]]
    record: Flat = {
        "titles": [_text(text) for text in titles],
        "texts": [_text(text) for text in texts],
        "rows": [_text(row) for row in rows],
    }
    for figure in json.loads(reader.figures):
        numbers = np.concatenate([[0.0], *_numbers([figure["data"], figure["arrays"]])])
        record[f"figure:{figure['name']}"] = [float(len(numbers)), *digest(numbers)]
    return record


def _without_seconds(rows: list[list[str]]) -> Iterator[list[str]]:
    """Rows of tables without the column of seconds, where a table has one."""
    width, place = 0, -1
    for cells in rows:
        if SECONDS in cells:
            width, place = len(cells), cells.index(SECONDS)
        is_of_table = len(cells) == width and place >= 0
        if not is_of_table:
            width, place = 0, -1
        yield [*cells[:place], *cells[place + 1 :]] if is_of_table else cells


def _is_stable(cells: list[str]) -> bool:
    """Whether a row has neither versions nor times nor fingerprints."""
    words = " ".join(cells)
    return cells[0] not in UNSTABLE and "SHA-256" not in words and "version" not in words


def _numbers(value: Any) -> Iterator[Array]:
    """All numbers of a figure in order, packed ones too."""
    if isinstance(value, Mapping) and "bdata" in value:
        yield np.frombuffer(base64.b64decode(value["bdata"]), f"<{value['dtype']}").astype(float)
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _numbers(entry)
    elif isinstance(value, list):
        plain = [entry for entry in value if isinstance(entry, int | float)]
        yield np.asarray(plain, float)
        for entry in value:
            if isinstance(entry, Mapping | list):
                yield from _numbers(entry)


# -- the shell -----------------------------------------------------------------------------


def shell(line: str) -> dict[str, Any]:
    """JSON document of a command, run in this process."""
    from spdelaw.cli.entry import main

    output, errors = io.StringIO(), io.StringIO()
    words = ["spdelaw", *line.split(), "--json"]
    with (
        mock.patch.object(sys, "argv", words),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
        contextlib.suppress(SystemExit),
    ):
        main()
    return json.loads(output.getvalue())
