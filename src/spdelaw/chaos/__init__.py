"""Wiener chaos: multi-indices, time bases, propagators, and the posterior of its coordinates."""

from spdelaw.chaos.bases import CosineBasis, HaarBasis
from spdelaw.chaos.higher_order import (
    augment,
    order_moments,
    propagate_chaos,
    push_moments,
    push_states,
    second_moments,
    truncation_floor,
    window_propagators,
)
from spdelaw.chaos.indices import (
    IndexSet,
    MultiIndex,
    TruncationSet,
    first_order_set,
    hermite_chaos,
    total_degree_set,
    weighted_set,
)
from spdelaw.chaos.laplace import Expansion, chaos_equation, expand_equation, laplace_posterior
from spdelaw.chaos.products import HermiteReaction, growth_between_wells, hermite_products
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
    "Expansion",
    "HaarBasis",
    "HermiteReaction",
    "IndexSet",
    "MultiIndex",
    "TruncationSet",
    "augment",
    "chaos_coordinates",
    "chaos_equation",
    "expand",
    "expand_equation",
    "first_order",
    "first_order_set",
    "growth_between_wells",
    "hermite_chaos",
    "hermite_products",
    "laplace_posterior",
    "latent_dimension",
    "order_moments",
    "propagate",
    "propagate_chaos",
    "push_moments",
    "push_states",
    "second_moments",
    "tail_covariance",
    "total_degree_set",
    "truncation_floor",
    "weighted_set",
    "window_propagators",
    "zero_order",
]
