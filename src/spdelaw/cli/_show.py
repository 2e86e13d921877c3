"""``spdelaw show``: what a law says."""

from __future__ import annotations

from spdelaw.cli import _options
from spdelaw.cli._law_file import (
    COLUMNS,
    domain_name,
    fit_facts,
    law_document,
    load_law,
    show_dynamics,
    show_notes,
    show_parameters,
)
from spdelaw.cli._output import Output, file_size, human_size

EXAMPLES = """**Examples**

spdelaw show heat.law

spdelaw show heat.law --json
"""


def command(*, law: _options.LawArgument, output: Output) -> None:
    """Show a law: every parameter with its interval, how it was found, what to cite."""
    learned = load_law(law)
    title = f"{law}: {learned.n_modes} modes on {domain_name(learned.domain)}"
    show_dynamics(output, title, learned)
    initial = tuple(n for n in COLUMNS if n.startswith("initial"))
    if learned.parameters.attrs.get("initial_state") != "stationary":
        show_parameters(output, "Initial state", learned, initial)
    facts = fit_facts(learned) | {"version": f"spdelaw {learned.info.get('version', '?')}"}
    output.facts("", facts | {"size": human_size(file_size(law))})
    show_notes(output, learned)
    output.line("cite: " + learned.citation().replace("\n", "\n      "))
    output.document(
        command="show", file=str(law), law=law_document(learned), citation=learned.citation()
    )
