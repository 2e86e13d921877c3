"""RESULT: the law with its uncertainty, and what follows from it."""

from spdelaw.law._law import Law, coordinates_dataset, load
from spdelaw.law._parameters_table import Quantity, parameters_dataset

__all__ = ["Law", "Quantity", "coordinates_dataset", "load", "parameters_dataset"]
