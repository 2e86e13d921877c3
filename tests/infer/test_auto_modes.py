"""How many modes: the ladder, and criteria that are good enough to compare."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spdelaw as sl
from spdelaw.data.observed import observe
from spdelaw.infer.engines import candidates as auto_modes
from spdelaw.infer.engines.candidates import likeliest_total


@given(least=st.integers(1, 5), beyond=st.integers(0, 40), summit=st.integers(1, 45))
def test_the_summit_is_found(least, beyond, summit):
    most = least + beyond
    found = likeliest_total(lambda n: -float((n - summit) ** 2), least, most)
    assert found == min(max(summit, least), most)


def test_at_the_end_of_the_ladder_one_neighbour_is_looked_at():
    asked: list[int] = []
    likeliest_total(lambda n: asked.append(n) or float(n), 1, 32)
    assert asked == [1, 5, 9, 13, 19, 28, 32, 31]


def test_criteria_of_rough_searches_are_those_of_full_ones(monkeypatch):
    """To a tenth of a nat, whatever law the search went on from."""
    times = np.linspace(0.0, 1.0, 21)
    fields = sl.simulate(sl.catalogue.heat(4), 6, times, seed=3, observation_std=0.1)
    observed = observe(fields, sl.Interval(0, np.pi))
    rough, known = {}, {}

    def both(observed, collapsed, laws):
        rough[collapsed.n_modes] = bic(observed, collapsed, laws)
        with monkeypatch.context() as patch:
            patch.setattr(auto_modes, "estimate", lambda posterior, rough: full(posterior))
            known[collapsed.n_modes] = bic(observed, collapsed, {})
        return rough[collapsed.n_modes]

    bic, full = auto_modes._bic, auto_modes.estimate
    monkeypatch.setattr(auto_modes, "_bic", both)
    chosen, _ = auto_modes.choose_modes(observed)
    assert chosen == min(known, key=known.get)
    near = [n for n in known if known[n] < known[chosen] + 20.0]
    assert [rough[n] for n in near] == pytest.approx([known[n] for n in near], abs=0.2)
