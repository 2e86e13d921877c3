"""Shared checks: what passes comes back as a plain value, what does not names the argument."""

import inspect
from collections.abc import Callable
from typing import Annotated

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw import checks
from spdelaw.errors import InputError


def test_good_values_come_back():
    assert checks.whole("n", np.int64(3), 1) == 3
    assert checks.positive("dt", np.float64(0.5)) == 0.5
    assert checks.probability("level", 0.9) == 0.9
    assert checks.one_of("word", "b", ("a", "b")) == "b"
    assert checks.instance("thing", "text", str, "pass text") == "text"


@pytest.mark.parametrize(
    ("check", "arguments"),
    [
        *((checks.whole, arguments) for arguments in ((True, 0), (2.0, 0), (0, 1))),
        *((checks.positive, (value,)) for value in (0, np.nan, np.inf, "1")),
        *((checks.probability, (value,)) for value in (1, True, None)),
        *((checks.one_of, (value, ("a", "b"))) for value in ("c", ["a"])),
        (checks.instance, (1, str, "pass text")),
    ],
)
def test_bad_values_name_the_argument(check, arguments):
    with pytest.raises(InputError, match=r"^x: expected .* got .* Fix: pass"):
        check("x", *arguments)


def test_counts_are_refused_in_plain_words():
    words = {0: "a non-negative integer", 1: "a positive integer", 3: "an integer of at least 3"}
    for least, word in words.items():
        with pytest.raises(InputError, match=f"expected {word}, got -1"):
            checks.whole("n", -1, least)


def test_numbers_are_an_array_or_a_nan():
    np.testing.assert_array_equal(checks.numbers([1, 2.5]), [1.0, 2.5])
    for wrong in ("text", [[1.0], [2.0, 3.0]], object()):
        np.testing.assert_array_equal(checks.numbers(wrong), np.array(np.nan), strict=True)


def test_an_object_from_its_settings():
    kinds = {"fraction": dict}
    assert checks.from_settings("thing", kinds, {"name": "fraction", "a": 1}) == {"a": 1}
    with pytest.raises(InputError, match=r"expected one of \['fraction'\], got 'other'"):
        checks.from_settings("thing", kinds, {"name": "other"})
    with pytest.raises(InputError, match="the settings of whole"):
        checks.from_settings("thing", {"whole": int}, {"name": "whole", "size": 2})


# ---------- Arguments of public functions


def public_functions():
    """Functions and methods with an argument that an annotation describes."""
    places = [(place, place.__all__) for place in (sl, sl.report, sl.catalogue, sl.datasets)]
    places += [(place, vars(place)) for place in (sl.Law, sl.report.LawPlots)]
    for place, names in places:
        for name in [name for name in names if not name.startswith("_")]:
            function = getattr(place, name)
            if inspect.isfunction(function) and function.__module__.startswith("spdelaw."):
                hints = {k: v for k, v in function.__annotations__.items() if k != "return"}
                if {*hints.values()} - {"Any"}:
                    yield f"{place.__name__}.{name}", function


def test_public_functions_check_their_arguments():
    functions = dict(public_functions())
    assert len(functions) > 50
    assert [name for name, one in functions.items() if not hasattr(one, "__wrapped__")] == []


@checks.checked()
def drawn(
    n_paths: int, *fields: xr.DataArray, level: float = 0.95, rate: float = 2.0,
    size: tuple[float, float] = (1.0, 2.0), n_modes: str | list[int] = "auto",
    scale: Annotated[float, checks.POSITIVE] = 1.0, law: "Law | None" = None,  # noqa: F821
    report: Callable[[int, int], None] | None = None, **columns: str,
):  # fmt: skip
    return n_paths


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"n_paths": 0}, "n_paths: expected a positive integer, got 0. Fix: pass n_paths=1"),
        ({"n_paths": 10**30}, "up to 1e\\+09"),
        ({"n_paths": 10**5000}, "up to 1e\\+09, got an int"),
        ({"level": 1.0}, "level: expected a probability .* Fix: pass level=0.95"),
        ({"rate": 10**400}, "rate: expected a finite number, got int"),
        ({"rate": np.nan}, "rate: expected a finite number"),
        ({"size": (1.0, "a")}, "size: expected \\(a finite number, a finite number\\)"),
        ({"size": (1.0,)}, "size: expected"),
        ({"n_modes": [1, 0]}, "n_modes: expected text or several, each a positive integer"),
        ({"scale": 0.0}, "scale: expected a finite number above 0"),
        ({"law": 1}, "law: expected a Law or None, got 1. Fix: pass what sl.fit"),
        ({"report": lambda done: done}, "report: expected a function of 2 arguments or None"),
        ({"report": 10**5000}, "report: expected a function of 2 arguments or None, got an int"),
        ({"lon": 3}, "lon: expected text, got 3"),
        ({"lon": "a\0b"}, "lon: expected text"),
    ],
)
def test_wrong_arguments_are_named_with_what_was_expected(words, message):
    with pytest.raises(InputError, match=message):
        drawn(**{"n_paths": 1} | words)


@pytest.mark.parametrize("report", [print, lambda *done: done, [].append, dict.fromkeys])
def test_functions_that_take_the_arguments_are_accepted(report):
    assert checks.rule_of(Callable[[int], None])(report) == ""


def test_each_of_several_positional_arguments_is_checked():
    fields = xr.DataArray(0.0)
    assert drawn(1, fields, fields, level=0.5, size=[1, 2], n_modes=np.array([3]), lon="x") == 1
    with pytest.raises(sl.errors.DataError, match="fields: expected a DataArray, got"):
        drawn(1, fields, [])
    with pytest.raises(TypeError, match="n_paths"):  # Python names what is missing
        drawn()


def test_a_range_in_the_signature_comes_before_that_of_the_name():
    """A level is a probability elsewhere."""
    assert sl.catalogue.square_root_heat(3, level=2.0).terms["1"] == 2.0
    with pytest.raises(InputError, match="level: expected a finite number above 0"):
        sl.catalogue.square_root_heat(3, level=-1.0)
