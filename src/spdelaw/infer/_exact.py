"""The exact engine: maximum likelihood of the untruncated law.

Complete, noise-free data on a common grid need one pass for their sufficient statistics.
Everything else goes through the filter. Which way was taken, and why, is in ``law.info``.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from spdelaw.checks import whole
from spdelaw.domain import AbstractDomain
from spdelaw.infer._assemble import assemble
from spdelaw.infer._engine import Engine
from spdelaw.infer._estimate import Fit
from spdelaw.infer._filter_route import by_filter
from spdelaw.infer._model import WORDS, Model
from spdelaw.infer._observed import Observed
from spdelaw.infer._per_point import fit_per_point
from spdelaw.infer._statistics_route import by_statistics
from spdelaw.infer._watch import watched
from spdelaw.law import Law


@dataclasses.dataclass(frozen=True)
class Exact(Engine):
    """Maximum of the likelihood itself, without truncation or sampling.

    Args:
        threads: for data with gaps.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=40, seed=0)
        >>> sl.fit(data, sl.Interval(0, np.pi), 2, engine=sl.Exact(threads=2)).info["engine"]
        'exact'
    """

    threads: int = 1
    name = "exact"
    honours = frozenset(WORDS)
    in_blocks = True

    def __post_init__(self) -> None:
        """Check the options."""
        whole("threads", self.threads, 1)

    def learn(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model, **run: Any
    ) -> Law:
        """Law by whichever way the data allow."""
        with watched(run["progress"]):
            found = maximum_likelihood(observed, n_modes, model, self.threads)
            return assemble(found, observed, model, run["level"])


def maximum_likelihood(observed: Observed, n_modes: int, model: Model, threads: int) -> Fit:
    """Maximum-likelihood estimate by whichever way the data allow."""
    if model.noise_word == "per_point":
        return fit_per_point(observed, n_modes, model, threads)
    if observed.place.remote:
        threads = 1  # the workers are the threads
    # Sums over steps of equal length forget when the steps were: nothing for noise with seasons.
    is_timeless, quiet = model.season is None, None
    if is_timeless and not np.any(model.known_variance) and model.noise_word != "estimate":
        quiet, is_all = by_statistics(observed, n_modes, model)
        if quiet is not None and is_all:
            return quiet
    return by_filter(observed, n_modes, model, threads=threads, quiet=quiet)
