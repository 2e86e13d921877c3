"""MODES: multi-indices, Hermite polynomials, time bases, propagators and what they leave out."""

from spdelaw.chaos.coordinates import chaos_coordinates
from spdelaw.chaos.expansion import expand
from spdelaw.chaos.exponential import decay_mean
from spdelaw.chaos.hermite import hermite_chaos
from spdelaw.chaos.multi_index import MultiIndex, TruncationSet, first_order_set
from spdelaw.chaos.propagators import (
    Propagators,
    first_order,
    latent_dimension,
    propagate,
    unit_response,
    zero_order,
)
from spdelaw.chaos.rk4 import decode_states, rk4_responses, rk4_states
from spdelaw.chaos.tail import noise_covariance, tail_covariance
from spdelaw.chaos.time_basis import (
    TIME_BASES,
    CosineBasis,
    HaarBasis,
    TimeBasis,
    time_basis_from_dict,
)

__all__ = [
    "TIME_BASES",
    "CosineBasis",
    "HaarBasis",
    "MultiIndex",
    "Propagators",
    "TimeBasis",
    "TruncationSet",
    "chaos_coordinates",
    "decay_mean",
    "decode_states",
    "expand",
    "first_order",
    "first_order_set",
    "hermite_chaos",
    "latent_dimension",
    "noise_covariance",
    "propagate",
    "rk4_responses",
    "rk4_states",
    "tail_covariance",
    "time_basis_from_dict",
    "unit_response",
    "zero_order",
]
