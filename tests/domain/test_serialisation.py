"""Domains from descriptions that are wrong."""

import pytest

from spdelaw.domain import from_dict
from spdelaw.errors import DomainError


@pytest.mark.parametrize(
    "description",
    [{}, {"name": "torus"}, {"name": "interval", "radius": 1}, {"name": "interval", "a": 2.0}],
)
def test_bad_descriptions(description):
    with pytest.raises(DomainError, match="expected"):
        from_dict(description)
