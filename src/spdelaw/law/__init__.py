"""The law with its uncertainty, and what follows from it."""

from spdelaw.law.derived import relative_l2 as relative_l2
from spdelaw.law.derived import rmse as rmse
from spdelaw.law.io import load as load
from spdelaw.law.law import Law as Law
from spdelaw.law.law import register_accessor as register_accessor
from spdelaw.law.likelihood import Numbers as Numbers
from spdelaw.law.parameters import Quantity as Quantity
from spdelaw.law.parameters import parameters_dataset as parameters_dataset
from spdelaw.law.prediction import chaos_posterior as chaos_posterior
from spdelaw.law.prediction import sample_chaos as sample_chaos
from spdelaw.law.provenance import Provenance as Provenance
