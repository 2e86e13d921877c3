"""Write the reference of the shell from the docstrings that also make its help.

The line ``<!-- commands -->`` of a page becomes a table of all commands, and a section for each
of them with its arguments, options and examples.
"""

from spdelaw.cli import shell

MARK = "<!-- commands -->"


def on_page_markdown(markdown, **_):
    """MkDocs event: the page is Markdown."""
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown


def reference() -> str:
    """The sections of all commands."""
    overview = [f"| [`{name}`](#{name}) | {text} |" for name, text in shell.COMMANDS.items()]
    table = "\n".join(["| command | purpose |", "| --- | --- |", *overview])
    return "\n\n".join([table, *map(section, shell.COMMANDS)])


def section(name: str) -> str:
    """Help, arguments, options by group, and examples of one command."""
    command = shell.load_command(name)
    visible = [p for p in command.params if not getattr(p, "hidden", False)]
    arguments = [p for p in visible if p.param_type_name == "argument"]
    groups: dict[str, list] = {}
    for option in visible:
        if option.param_type_name == "option" and "--help" not in option.opts:
            groups.setdefault(option.rich_help_panel or "Options", []).append(option)
    usage = " ".join(["spdelaw", name, *(str(p.metavar) for p in arguments), "[OPTIONS]"])
    examples = (command.epilog or "").removeprefix("**Examples**").split("\n\n")
    parts = [f"## {name}", command.help, f"```text\n{usage}\n```"]
    if arguments:
        rows = [f"| `{p.metavar}` | {_cell(p.help)} |" for p in arguments]
        parts.append(_table("argument", rows))
    for title, options in groups.items():
        rows = [f"| {_names(p)} | {_cell(p.help)}{_default(p)} |" for p in options]
        parts += [f"**{title}**", _table("option", rows)]
    parts.append("```text\n" + "\n".join(filter(None, examples)) + "\n```")
    return "\n\n".join(parts)


def _table(head: str, rows: list[str]) -> str:
    return "\n".join([f"| {head} | meaning |", "| --- | --- |", *rows])


def _names(option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return names + (" (repeatable)" if option.multiple else "")


def _default(option) -> str:
    return (
        f" Default: {_cell(option.show_default)}." if isinstance(option.show_default, str) else ""
    )


def _cell(text: object) -> str:
    return " ".join(str(text or "").split()).replace("|", "\\|")
