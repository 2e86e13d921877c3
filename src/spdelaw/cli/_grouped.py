"""Options that belong together, as one argument of a command.

A command that asks for a NamedTuple whose fields are annotated options has these options in the
shell, and gets the tuple. So a group is written once, with its help and its defaults.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

Parameter = inspect.Parameter


class Without:
    """Fields of a group that a command does not offer: ``Annotated[Wanted, Without("x")]``."""

    def __init__(self, *names: str) -> None:
        self.names = names


def ungrouped(command: Callable[..., None]) -> Callable[..., None]:
    """The same command with every option as an argument of its own, as typer wants it."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    flat: list[Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        group = getattr(hint, "__origin__", hint)
        if not hasattr(group, "_fields"):
            flat.append(parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY))
            continue
        left_out = {n for m in getattr(hint, "__metadata__", ()) for n in m.names}
        options = get_type_hints(group, include_extras=True)
        names = [name for name in group._fields if name not in left_out]
        groups[parameter.name] = (group, names)
        flat += [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=group._field_defaults[name],
                annotation=options[name],
            )
            for name in names
        ]

    def run(**given: Any) -> None:
        for name, (group, fields) in groups.items():
            given[name] = group(**{field: given.pop(field) for field in fields})
        command(**given)

    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run
