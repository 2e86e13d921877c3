"""PATHS: fields simulated from an equation."""

from spdelaw.simulation._paths import SCHEMES
from spdelaw.simulation._simulate import simulate

__all__ = ["SCHEMES", "simulate"]
