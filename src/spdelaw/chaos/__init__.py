"""Wiener chaos: multi-indices, time bases, propagators, and the posterior of its coordinates."""

from spdelaw.chaos.higher_order import augment as augment
from spdelaw.chaos.higher_order import order_moments as order_moments
from spdelaw.chaos.higher_order import propagate_chaos as propagate_chaos
from spdelaw.chaos.higher_order import second_moments as second_moments
from spdelaw.chaos.higher_order import truncation_floor as truncation_floor
from spdelaw.chaos.indices import IndexSet as IndexSet
from spdelaw.chaos.indices import total_degree_set as total_degree_set
from spdelaw.chaos.indices import weighted_set as weighted_set
from spdelaw.chaos.nonlinear import Expansion as Expansion
from spdelaw.chaos.nonlinear import HermiteReaction as HermiteReaction
from spdelaw.chaos.nonlinear import chaos_equation as chaos_equation
from spdelaw.chaos.nonlinear import expand_equation as expand_equation
from spdelaw.chaos.nonlinear import growth_between_wells as growth_between_wells
from spdelaw.chaos.nonlinear import hermite_products as hermite_products
from spdelaw.chaos.nonlinear import laplace_posterior as laplace_posterior
from spdelaw.chaos.propagators import CosineBasis as CosineBasis
from spdelaw.chaos.propagators import HaarBasis as HaarBasis
from spdelaw.chaos.propagators import chaos_coordinates as chaos_coordinates
from spdelaw.chaos.propagators import expand as expand
from spdelaw.chaos.propagators import first_order as first_order
from spdelaw.chaos.propagators import latent_dimension as latent_dimension
from spdelaw.chaos.propagators import propagate as propagate
from spdelaw.chaos.propagators import tail_covariance as tail_covariance
from spdelaw.chaos.propagators import zero_order as zero_order
