"""Memory kept for the time of a training."""

import sys

import numpy as np
import pytest

from spdelaw.amortized import training as training_module
from spdelaw.amortized.training import reused_memory

resource = pytest.importorskip("resource", reason="page faults are counted on Unix")

PAGE, ROUNDS = 4096, 20


def faults(n_bytes):
    """Page faults of large pieces, taken, written and given back in turn."""
    np.ones(n_bytes // 8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(ROUNDS):
        np.ones(n_bytes // 8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_pages_are_touched_once():
    if training_module._glibc() is None:
        pytest.skip("not glibc")
    size = 64 * 2**20  # more than glibc keeps of its own accord
    outside = faults(size)
    with reused_memory():
        inside = faults(size)
    after = faults(size)
    if outside < ROUNDS * 16:
        pytest.skip("this system maps memory without page faults that can be counted")
    assert inside < outside / 10
    assert after > outside / 10  # given back again


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert training_module._glibc() is None
    with reused_memory():
        np.ones(10)
