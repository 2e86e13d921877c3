"""The law with its uncertainty, and what follows from it."""

from spdelaw.law.derived import relative_l2, rmse
from spdelaw.law.io import load
from spdelaw.law.law import Law, register_accessor
from spdelaw.law.likelihood import Numbers
from spdelaw.law.parameters import Quantity, parameters_dataset
from spdelaw.law.prediction import chaos_posterior, sample_chaos
from spdelaw.law.provenance import Provenance

__all__ = [
    "Law",
    "Numbers",
    "Provenance",
    "Quantity",
    "chaos_posterior",
    "load",
    "parameters_dataset",
    "register_accessor",
    "relative_l2",
    "rmse",
    "sample_chaos",
]
