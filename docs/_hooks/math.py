"""Turn the formulas of a page into MathML when the site is built.

Readers need no script and no network: browsers draw MathML themselves. The Markdown
extension ``pymdownx.arithmatex`` finds the formulas, also in docstrings, and leaves code alone.
"""

import html
import re

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
UNKNOWN = re.compile(r"<m[a-z]+>(\\[A-Za-z]+)</m[a-z]+>")


def to_mathml(latex: str, display: str) -> str:
    """MathML of one formula; a command that cannot be converted is an error, not text."""
    source = html.unescape(latex).strip()
    try:
        mathml = convert(source, display=display)
    except Exception as error:
        raise PluginError(f"formula {source!r}: {type(error).__name__} {error}") from error
    if unknown := UNKNOWN.search(mathml):
        raise PluginError(f"formula {source!r}: latex2mathml does not know {unknown[1]}")
    return mathml


def on_page_content(content, **_):
    """MkDocs event: the page is HTML, formulas are still LaTeX."""
    content = INLINE.sub(lambda found: to_mathml(found[1], "inline"), content)
    return BLOCK.sub(
        lambda found: f'<div class="formula">{to_mathml(found[1], "block")}</div>', content
    )
