"""How many words and pages the documentation has, and where it uses words that are not plain.

    python -m benchmarks.words            # tables in Markdown
    python -m benchmarks.words --lines    # and each line with such a phrase

A page is a file ``docs/*.md`` other than the contributing guide, the changelog and the reference
of the shell; its words are those that ``wc -w`` counts, code and tables included. Phrases are
counted in the prose of pages (not in code), and in the strings, docstrings and comments of
``src``, ``benchmarks`` and ``paper``.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Pages that repeat a file or are generated.
NOT_COUNTED = ("changelog.md", "contributing.md", "shell.md")
MOST_PAGES, MOST_WORDS = 26, 24_000
#: What a reader stumbles over, and a pattern that finds it.
PHRASES = {
    "is said": r"\b(?:is|are|was|were|be|been) said\b",
    "is named": r"\b(?:is|are|was|were|be|been) named\b",
    "is told": r"\b(?:is|are|was|were|be|been) told\b",
    "left over": r"\b(?:left|leaves?|leaving) over\b",
    "the rest": r"\bthe rest\b",
    "door": r"\bdoors?\b",
    "whoever, nobody": r"\b(?:whoever|nobody)\b",
    "needs no word": r"\b(?:needs?|without) (?:no|a) words?\b",
    "in words": r"\bin words\b",
    "mend": r"\bmend(?:s|ed|ing)?\b",
    "learned anew": r"\banew\b",
    "alike": r"\balike\b",
    "beside": r"\bbeside\b",
    "does not exist for": r"\bnot exist for\b",
    "means nothing": r"\bmeans? nothing\b",
    "asked for": r"\b(?:is|are|was|were) asked\b",
    "foresee, foretell": r"\b(?:foresee|foretell|foretold)s?\b",
}
FENCE = re.compile(r"^```.*?^```\s*$", re.DOTALL | re.MULTILINE)


def main() -> int:
    """Print the tables; exit 1 if there are too many pages or words."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--lines", action="store_true", help="print each line with a phrase")
    lines = parser.parse_args().lines
    pages = {page: len(page.read_text("utf-8").split()) for page in counted_pages()}
    print("| page | words |\n| --- | ---: |")
    for page, words in pages.items():
        print(f"| {page.name} | {words:,} |")
    print(f"| {len(pages)} pages of at most {MOST_PAGES} | {sum(pages.values()):,} |")
    print(f"| most | {MOST_WORDS:,} |\n")
    groups = {"docs": [*prose()]} | {
        name: [*texts(name)] for name in ("src", "benchmarks", "paper")
    }
    print("| phrase |", " | ".join(groups), "|\n| --- |" + " ---: |" * len(groups))
    for name, pattern in PHRASES.items():
        hits = {group: found(pattern, texts) for group, texts in groups.items()}
        print(f"| {name} |", " | ".join(str(len(rows)) for rows in hits.values()), "|")
        if lines:
            print(*(row for rows in hits.values() for row in rows), sep="\n")
    return int(len(pages) > MOST_PAGES or sum(pages.values()) > MOST_WORDS)


def counted_pages() -> list[Path]:
    """The pages whose words count."""
    return [page for page in sorted(ROOT.glob("docs/*.md")) if page.name not in NOT_COUNTED]


def prose() -> Iterator[tuple[str, str]]:
    """Pairs of a place and a line without code, of all pages and the files next to them."""
    files = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
    for page in [*sorted(ROOT.glob("docs/*.md")), *(ROOT / name for name in files)]:
        text = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), page.read_text("utf-8"))
        for number, line in enumerate(text.splitlines(), 1):
            yield f"{page.name}:{number}", re.sub(r"`[^`]*`", "", line)


def texts(folder: str) -> Iterator[tuple[str, str]]:
    """Pairs of a position and a string, docstring or comment of the modules and templates."""
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", None)}
    for file in sorted({*(ROOT / folder).rglob("*.py")} - {Path(__file__)}):  # which lists them
        source = io.StringIO(file.read_text("utf-8")).readline
        for token in tokenize.generate_tokens(source):
            if token.type in kinds:
                for offset, line in enumerate(token.string.splitlines()):
                    yield f"{file.relative_to(ROOT)}:{token.start[0] + offset}", line
    for file in sorted((ROOT / folder).rglob("*.html")):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            yield f"{file.relative_to(ROOT)}:{number}", line


def found(pattern: str, rows: list[tuple[str, str]]) -> list[str]:
    """The rows in which a pattern occurs, once for each time."""
    counts = Counter(
        {row: len(re.findall(pattern, row[1], re.IGNORECASE)) for row in dict.fromkeys(rows)}
    )
    return [f"    {at}: {line.strip()}" for (at, line), n in counts.items() for _ in range(n)]


if __name__ == "__main__":
    sys.exit(main())
