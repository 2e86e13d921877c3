"""PATHS: fields simulated from an equation."""

from spdelaw.simulate._schemes import SCHEMES
from spdelaw.simulate._simulate import simulate

__all__ = ["SCHEMES", "simulate"]
