"""Wiener chaos: multi-indices, time bases, propagators, and the posterior of its coordinates."""

from spdelaw.chaos.bases import CosineBasis, HaarBasis
from spdelaw.chaos.indices import MultiIndex, TruncationSet, first_order_set, hermite_chaos
from spdelaw.chaos.propagators import (
    chaos_coordinates,
    expand,
    first_order,
    latent_dimension,
    propagate,
    tail_covariance,
    zero_order,
)

__all__ = [
    "CosineBasis",
    "HaarBasis",
    "MultiIndex",
    "TruncationSet",
    "chaos_coordinates",
    "expand",
    "first_order",
    "first_order_set",
    "hermite_chaos",
    "latent_dimension",
    "propagate",
    "tail_covariance",
    "zero_order",
]
