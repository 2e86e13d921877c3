"""The coefficients given the parameters, and the likelihood of what was observed."""

from spdelaw.statespace.chain import StateSpace as StateSpace
from spdelaw.statespace.statistics import Statistics as Statistics
