"""Tables for notebooks: the same facts as the text, with no styles from elsewhere."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spdelaw.domain._base import AbstractDomain

#: Modes of a domain or an equation that a notebook shows.
MOST_MODES = 6
#: Plain look of a table, the same in light and dark notebooks.
CELL = "padding:2px 10px;text-align:right"


def table_html(
    title: str, facts: list[str], header: list[str], rows: list[list[str]], notes: list[str]
) -> str:
    """Title, lines of text, a table and more lines.

    Example:
        >>> table_html("A law", ["2 paths"], ["mode"], [["1"]], [])[:39]
        '<div><strong>A law</strong><div>2 paths'
    """

    def row(cells: list[str], tag: str) -> str:
        inside = "".join(f'<{tag} style="{CELL}">{html.escape(c)}</{tag}>' for c in cells)
        return f"<tr>{inside}</tr>"

    def lines(found: list[str]) -> str:
        return "".join(f"<div>{html.escape(line)}</div>" for line in found)

    body = "".join(row(cells, "td") for cells in rows)
    return (
        f"<div><strong>{html.escape(title)}</strong>{lines(facts)}"
        f"<table><thead>{row(header, 'th')}</thead><tbody>{body}</tbody></table>"
        f"{lines(notes)}</div>"
    )


def domain_html(domain: AbstractDomain) -> str:
    """Coordinates, size, and the first eigenvalues of the reference operator."""
    n = min(MOST_MODES, domain.most_modes or MOST_MODES)
    facts = [f"coordinates {', '.join(domain.dims)}; size {domain.volume:.6g}"]
    modes = [str(i + 1) for i in range(n)]
    values = [f"{mu:.6g}" for mu in domain.eigenvalues(n)]
    rows = [["eigenvalue", *values]]
    more = f"{domain.most_modes} modes in all" if domain.most_modes else "as many modes as you like"
    return table_html(str(domain), facts, ["mode", *modes], rows, [more])
