"""The exact engine: maximum likelihood of the untruncated law.

Complete, noise-free data on a common grid need one pass for their sufficient statistics.
Everything else goes through the filter. Which way was taken, and why, is in ``law.info``.

One observation variance per point is found by conditional maximisation. Given the variances, the
spectra are a maximum-likelihood problem with known noise; given the spectra, the expected squared
residual of each point is its variance in closed form,

    r_m = mean over paths and times of  (y_m - h(x_m)' E[c | y])^2 + h(x_m)' Cov(c | y) h(x_m).

Each round raises the likelihood. The points outnumber the modes, so a few rounds are enough.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from spdelaw.checks import instance, whole
from spdelaw.data import Observed
from spdelaw.domain import AbstractDomain
from spdelaw.infer._assemble import assemble
from spdelaw.infer._engine import Engine
from spdelaw.infer._estimate import Fit
from spdelaw.infer._filter_route import by_filter
from spdelaw.infer._model import WORDS, Model
from spdelaw.infer._statistics_route import by_statistics
from spdelaw.infer._watch import watched
from spdelaw.law import Law, smooth_fields

Array = np.ndarray
#: Largest change of a log variance that ends the rounds, and their number at most.
TOLERANCE, ROUNDS = 1e-3, 25
#: No variance falls below this share of the largest.
FLOOR = 1e-10


@dataclasses.dataclass(frozen=True)
class Exact(Engine):
    """Maximum of the likelihood itself, without truncation or sampling.

    Args:
        threads: for data with gaps.
        profile: intervals by profile where standard errors say too little; False saves their time
            for laws that only predict.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=40, seed=0)
        >>> sl.fit(data, sl.Interval(0, np.pi), 2, engine=sl.Exact(threads=2)).info["engine"]
        'exact'
    """

    threads: int = 1
    profile: bool = True
    name = "exact"
    honours = frozenset(WORDS)
    in_blocks = True

    def __post_init__(self) -> None:
        """Check the options."""
        whole("threads", self.threads, 1)
        instance("profile", self.profile, bool, "pass profile=False")

    def learn(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model, **run: Any
    ) -> Law:
        """Law by whichever way the data allow."""
        with watched(run["progress"]):
            found = maximum_likelihood(observed, n_modes, model, self.threads)
            return assemble(found, observed, model, run["level"], self.profile)


def maximum_likelihood(observed: Observed, n_modes: int, model: Model, threads: int) -> Fit:
    """Maximum-likelihood estimate by whichever way the data allow."""
    if model.noise_word == "per_point":
        return fit_per_point(observed, n_modes, model, threads)
    if observed.place.remote:
        threads = 1  # the workers are the threads
    # Sums over steps of equal length forget when the steps were: nothing for noise with seasons.
    is_timeless = model.season is None
    quiet: Fit | None = None
    if is_timeless and not np.any(model.known_variance) and model.noise_word != "estimate":
        quiet, is_all = by_statistics(observed, n_modes, model)
        if quiet is not None and is_all:
            return quiet
    return by_filter(observed, n_modes, model, threads=threads, quiet=quiet)


# -- one observation variance per point -----------------------------------------------------------


def fit_per_point(observed: Observed, n_modes: int, model: Model, threads: int) -> Fit:
    """Estimate with a variance of its own for each point.

    The standard errors of the spectra are those given the variances; these rest on all paths
    and times of their point and add next to nothing.
    """
    observed = observed.in_memory()  # every round smooths all fields

    def given(noise: object, polish: bool) -> Fit:
        known = dataclasses.replace(model, observation_noise=noise)
        return by_filter(observed, n_modes, known, threads=threads, polish=polish)

    found = given("estimate", False)
    own = found.estimate  # whether there is a mean is decided once, and where paths start then
    if own.mean is None:
        model = dataclasses.replace(model, mean="zero")
    else:
        model = dataclasses.replace(model, mean="constant", initial=own.state_space.initial.kind)
    shared = float(found.estimate.state_space.observation_variance)
    variance = np.full(len(observed.points), shared)
    for _ in range(ROUNDS):
        new = _expected_residual(observed, found, variance)
        change = np.abs(np.log(new / variance)).max()
        variance = new
        if change < TOLERANCE:
            break
        found = given(np.sqrt(variance), False)
    counts = np.maximum((~np.isnan(observed.values)).sum((0, 1)), 1)
    error = np.sqrt(variance / (2.0 * counts))
    found = given(np.sqrt(variance), True)
    return dataclasses.replace(found, point_variance=variance, point_error=error)


def _expected_residual(observed: Observed, found: Fit, variance: Array) -> Array:
    unit = found.estimate.state_space.with_noise(1.0)
    basis, values = observed.basis(unit.n_modes), observed.values
    moments = smooth_fields(values, observed.times, basis, unit, basis, 1.0 / variance)
    square = np.nanmean((values - moments.mean) ** 2 + moments.variance, axis=(0, 1))
    return np.maximum(square, FLOOR * square.max())
