"""Wiener chaos: multi-indices, time bases, propagators, and the posterior of its coordinates."""

from spdelaw.chaos.higher_order import (
    augment,
    order_moments,
    propagate_chaos,
    second_moments,
    truncation_floor,
)
from spdelaw.chaos.indices import (
    IndexSet,
    total_degree_set,
    weighted_set,
)
from spdelaw.chaos.nonlinear import (
    Expansion,
    HermiteReaction,
    chaos_equation,
    expand_equation,
    growth_between_wells,
    hermite_products,
    laplace_posterior,
)
from spdelaw.chaos.propagators import (
    CosineBasis,
    HaarBasis,
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
    "augment",
    "chaos_coordinates",
    "chaos_equation",
    "expand",
    "expand_equation",
    "first_order",
    "growth_between_wells",
    "hermite_products",
    "laplace_posterior",
    "latent_dimension",
    "order_moments",
    "propagate",
    "propagate_chaos",
    "second_moments",
    "tail_covariance",
    "total_degree_set",
    "truncation_floor",
    "weighted_set",
    "zero_order",
]
