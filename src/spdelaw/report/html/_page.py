"""The page itself: template, style, script and data in one file.

The plotting library is inside as gzip in base64, two fifths of its size; browsers unpack it.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any

from spdelaw.report.html._figure import Figure
from spdelaw.report.html._section import Section, Table
from spdelaw.report.html._words import Answer


def render(title: str, answers: Sequence[Answer], sections: Sequence[Section]) -> str:
    """HTML with everything inline: no request leaves the file."""
    figures = [part for s in sections for part in s.parts if isinstance(part, Figure)]
    parts = {
        "TITLE": escape(title),
        "NAVIGATION": "\n".join(
            f'<a href="#{section.name}">{escape(section.title)}</a>' for section in sections
        ),
        "SUMMARY": "\n".join(_answer(answer) for answer in answers),
        "SECTIONS": "\n".join(_section(section) for section in sections),
        "STYLE": _asset("page.css"),
        "FIGURES": _json([figure.document() for figure in figures]),
        "VERSION": _plotly_version(),
        "PLOTLY": _plotly(),
        "SCRIPT": _asset("page.js"),
    }
    page = _asset("page.html")
    # One pass over the template, so that text of the user's is never searched for marks.
    pieces = page.split("%%")
    return "".join(parts[p] if i % 2 else p for i, p in enumerate(pieces))


def _asset(name: str) -> str:
    return resources.files("spdelaw.report.html").joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    # Without a time stamp, so that the same report twice is the same file.
    packed = gzip.compress(get_plotlyjs().encode("utf-8"), compresslevel=9, mtime=0)
    return base64.b64encode(packed).decode("ascii")


def _plotly_version() -> str:
    from plotly.offline import get_plotlyjs_version

    return str(get_plotlyjs_version())


def _json(value: Any) -> str:
    """JSON that no text in it can break out of."""
    text = json.dumps(_plain(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _answer(answer: Answer) -> str:
    sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in answer.sentences)
    return (
        f'<div class="answer {answer.mood}"><h2>{escape(answer.question)}</h2>'
        f'<p class="short">{escape(answer.short)}</p>{sentences}</div>'
    )


def _section(section: Section) -> str:
    parts = "\n".join(
        _figure(part) if isinstance(part, Figure) else _table(part) for part in section.parts
    )
    return (
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2>'
        f"<p>{escape(section.lead)}</p>\n{parts}</section>"
    )


def _figure(figure: Figure) -> str:
    caption = escape(figure.caption)
    return (
        f'<figure id="figure-{figure.name}">'
        f'<div class="controls" id="controls-{figure.name}"></div>'
        f'<div class="plot" id="plot-{figure.name}" role="img" aria-label="{caption}" '
        f'style="height:{figure.height}px"></div><figcaption>{caption}</figcaption></figure>'
    )


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    header = f"<thead><tr>{head}</tr></thead>" if any(table.header) else ""
    rows = "".join(_row(row, len(table.header)) for row in table.rows)
    kind = "" if any(table.header) else ' class="facts"'
    body = f'<div class="scroll"><table{kind}>{header}<tbody>{rows}</tbody></table></div>'
    body += f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    if table.folded:
        return f"<details><summary>{escape(table.caption)}</summary>{body}</details>"
    return f"<h3>{escape(table.caption)}</h3>{body}"


def _row(cells: Sequence[str], width: int) -> str:
    if len(cells) == 1:
        heading = f'<th scope="rowgroup" colspan="{width}">{escape(cells[0])}</th>'
        return f'<tr class="group">{heading}</tr>'
    rest = "".join(f"<td>{escape(cell)}</td>" for cell in cells[1:])
    return f'<tr><th scope="row">{escape(cells[0])}</th>{rest}</tr>'
