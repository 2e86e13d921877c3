"""The shell of the paper: ``python -m paper demo`` and ``python -m paper reproduce``."""

from __future__ import annotations

from typing import Any

from spdelaw.cli.entry import run

#: First sentence of the help of each command, and its module.
COMMANDS = {
    "demo": "Simulate the two equations of the paper, learn their laws back, and draw it all.",
    "reproduce": "Run the paper's comparison again: five baselines, the engines, the limits.",
}
MODULES = {"demo": "paper.demonstration", "reproduce": "paper.reproduction.command"}


def load_app() -> Any:
    """The shell; a command is imported when it is called."""
    from spdelaw.cli.shell import load_command, make_app

    return make_app(
        "python -m paper",
        COMMANDS,
        lambda name: load_command(name, MODULES[name]),
        help="Reproduce the paper, or see a demonstration.",
        add_completion=False,
    )


if __name__ == "__main__":
    run("python -m paper", load_app)
