"""Options that belong together: one argument of a command, many in the shell."""

import inspect
from typing import Annotated, NamedTuple

from spdelaw.cli._grouped import Without, ungrouped


class Pair(NamedTuple):
    one: Annotated[int, "first"] = 1
    two: str | None = None


def test_a_group_is_spread_and_gathered_again():
    got = []

    def command(*, file: str, pair: Pair) -> None:
        """What it does."""
        got.append((file, pair))

    flat = ungrouped(command)
    parameters = inspect.signature(flat).parameters
    assert list(parameters) == ["file", "one", "two"]
    assert parameters["one"].default == 1
    assert parameters["one"].annotation == Annotated[int, "first"]
    assert flat.__doc__ == "What it does."
    flat(file="a.nc", one=3, two=None)
    assert got == [("a.nc", Pair(3, None))]


def test_a_command_may_leave_options_of_a_group_out():
    got = []

    def command(*, pair: Annotated[Pair, Without("one")]) -> None:
        got.append(pair)

    flat = ungrouped(command)
    assert list(inspect.signature(flat).parameters) == ["two"]
    flat(two="b")
    assert got == [Pair(1, "b")]
