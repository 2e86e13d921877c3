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
    "call",
    [
        lambda: checks.whole("x", True, 0),
        lambda: checks.whole("x", 2.0, 0),
        lambda: checks.whole("x", 0, 1),
        lambda: checks.positive("x", 0),
        lambda: checks.positive("x", np.nan),
        lambda: checks.positive("x", np.inf),
        lambda: checks.positive("x", "1"),
        lambda: checks.probability("x", 1),
        lambda: checks.probability("x", True),
        lambda: checks.probability("x", None),
        lambda: checks.one_of("x", "c", ("a", "b")),
        lambda: checks.one_of("x", ["a"], ("a", "b")),
        lambda: checks.instance("x", 1, str, "pass text"),
    ],
)
def test_bad_values_name_the_argument(call):
    with pytest.raises(InputError, match=r"^x: expected .* got .* Fix: pass"):
        call()
