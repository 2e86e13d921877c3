"""Likelihood-ratio tests where one law is another with some of its freedom taken away.

    2 (log p_larger - log p_smaller)  ~  chi^2 with as many degrees as parameters differ,

for laws of the same numbers with the same domain, modes, nuisance modes, start and noise of
observation, whose drift and noise are special cases of the larger one's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.law import Law

#: Words of the model, each a special case of those after it. A pair of modes that turns shares its
#: decay, so that "diagonal" is no case of "normal".
DRIFTS = ("parametric", "diagonal", "dense")
NOISES = ("parametric", "diagonal", "low_rank", "dense")


class NestedTest(NamedTuple):
    """Test of a smaller law against a larger one; both by their number."""

    smaller: int
    larger: int
    statistic: float
    degrees: int
    p_value: float


def nested_tests(laws: list[Law]) -> list[NestedTest]:
    """All pairs of laws of which one is a special case of the other."""
    pairs = [(i, j) for i in range(len(laws)) for j in range(len(laws)) if i != j]
    return [_test(i, j, laws[i], laws[j]) for i, j in pairs if is_nested(laws[i], laws[j])]


def _test(i: int, j: int, smaller: Law, larger: Law) -> NestedTest:
    gain = 2.0 * (larger.info.log_likelihood - smaller.info.log_likelihood)
    degrees = int(larger.info["n_parameters"] - smaller.info["n_parameters"])
    p = float(scipy.special.chdtrc(degrees, max(gain, 0.0)))
    return NestedTest(i, j, gain, degrees, p)


def is_nested(smaller: Law, larger: Law) -> bool:
    """Whether the first law is a special case of the second, with fewer parameters."""
    a, b = smaller.info, larger.info
    same = (
        smaller.domain == larger.domain
        and smaller.n_modes == larger.n_modes
        and (a.n_nuisance or 0) == (b.n_nuisance or 0)
        and smaller.initial.kind == larger.initial.kind
        and a.engine == b.engine == "exact"
        and _noise_of_values(smaller) == _noise_of_values(larger)
        and smaller.dynamics.name == larger.dynamics.name
    )
    if not same or a.n_parameters is None or b.n_parameters is None:
        return False
    turns = a.drift == "normal" and b.drift in ("normal", "dense")
    drift = turns or _before(a.drift, b.drift, DRIFTS)
    within = drift and _before(a.noise, b.noise, NOISES)
    return within and a.n_parameters < b.n_parameters


def _before(small: str | None, large: str | None, order: tuple[str, ...]) -> bool:
    return small in order and large in order and order.index(small) <= order.index(large)


def _noise_of_values(law: Law) -> tuple[bool, int]:
    """Whether there is noise of observation, and whether it is one number or one per point."""
    return bool(np.any(law.observation_variance)), law.observation_variance.ndim
