"""Equations, their dynamics, and simulated paths of them."""

from spdelaw.processes import catalogue as catalogue
from spdelaw.processes import operators as operators
from spdelaw.processes.forcing import Forcing as Forcing
from spdelaw.processes.forcing import Season as Season
from spdelaw.processes.linear import Dynamics as Dynamics
from spdelaw.processes.linear import Linear as Linear
from spdelaw.processes.linear import Step as Step
from spdelaw.processes.paths import simulate as simulate
from spdelaw.processes.semilinear import Reacting as Reacting
from spdelaw.processes.semilinear import Semilinear as Semilinear
from spdelaw.processes.spde import SpectralSPDE as SpectralSPDE
from spdelaw.processes.specification import Gaussian as Gaussian
from spdelaw.processes.specification import InitialState as InitialState
from spdelaw.processes.specification import Matern as Matern
from spdelaw.processes.specification import OperatorFormula as OperatorFormula
from spdelaw.processes.specification import PowerLaw as PowerLaw
from spdelaw.processes.specification import White as White
