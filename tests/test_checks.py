"""Shared checks: what passes comes back as a plain value, what does not names the argument."""

import numpy as np
import pytest

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
