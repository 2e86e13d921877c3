"""A linear state space as flat numbers, so that a test can move each of them by name."""

from typing import Any, NamedTuple

import numpy as np

from spdelaw.chaos import posterior as chaos_module
from spdelaw.processes.linear import Linear
from spdelaw.processes.specification import InitialState
from spdelaw.statespace import filter as filter_module
from spdelaw.statespace import likelihood as likelihood_module
from spdelaw.statespace import statistics as statistics_module
from spdelaw.statespace.chain import StateSpace


class Numbers(NamedTuple):
    drift: np.ndarray
    noise: np.ndarray
    initial_mean: np.ndarray
    initial_covariance: np.ndarray
    observation_variance: np.ndarray
    initial_kind: str = "deterministic"
    season: Any = None
    forcing: Any = None
    origin: float = 0.0

    @property
    def n_modes(self) -> int:
        return len(self.initial_mean)

    @property
    def state_space(self) -> StateSpace:
        dynamics = Linear(self.drift, self.noise, self.season, self.forcing, self.origin)
        initial = InitialState(self.initial_kind, self.initial_mean, self.initial_covariance)
        return StateSpace(dynamics, initial, np.asarray(self.observation_variance))


def evaluate_likelihood(collapsed, p, **options):
    return likelihood_module.evaluate_likelihood(collapsed, p.state_space, **options)


def evaluate_statistics(statistics, p):
    return statistics_module.evaluate_statistics(statistics, p.state_space)


def white_noise_z(statistics, p, gram):
    return statistics_module.white_noise_z(statistics, p.state_space, gram)


def smooth_states(block, p):
    return filter_module.smooth_states(block, p.state_space)


def sample_states(block, p, n, generator):
    return filter_module.sample_states(block, p.state_space, n, generator)


def innovations(block, p):
    return filter_module.innovations(block, p.state_space).error


def component_innovations(block, p, values, basis):
    return filter_module.component_innovations(block, p.state_space, values, basis)[0]


def evaluate_chaos(collapsed, p, chaos, **options):
    return chaos_module.evaluate_chaos(collapsed, p.state_space, chaos, **options)


def chaos_latents(collapsed, p, chaos):
    return chaos_module.chaos_latents(collapsed, p.state_space, chaos)
