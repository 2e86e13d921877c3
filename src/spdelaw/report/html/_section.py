"""A section of the page: words, tables and figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from spdelaw.report.html._figure import Figure


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of text below a header; the first column names the row.

    Attributes:
        caption: what the table says.
        header: names of the columns.
        rows: cells of text; a row of one cell is a heading over those that follow.
        folded: hidden until it is opened.
        note: how to read it, shown below.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: bool = False
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Section:
    """One heading of the page.

    Attributes:
        name: anchor.
        title: heading.
        lead: sentences above the figures.
        parts: figures and tables in order.
    """

    name: str
    title: str
    lead: str
    parts: tuple[Figure | Table, ...] = ()
