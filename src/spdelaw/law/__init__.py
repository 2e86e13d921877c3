"""RESULT: the law with its uncertainty, and what follows from it."""

from spdelaw.law._accessor import register_accessor
from spdelaw.law._chaos import chaos_posterior
from spdelaw.law._distance import relative_l2, rmse
from spdelaw.law._document import coordinates_dataset
from spdelaw.law._law import Law
from spdelaw.law._load import load
from spdelaw.law._parameters_table import Quantity, parameters_dataset
from spdelaw.law._user_units import next_times, to_user, wanted_times

__all__ = [
    "Law",
    "Quantity",
    "chaos_posterior",
    "coordinates_dataset",
    "load",
    "next_times",
    "parameters_dataset",
    "register_accessor",
    "relative_l2",
    "rmse",
    "to_user",
    "wanted_times",
]
