"""Estimation: from observed fields to a law."""

from spdelaw.infer.discovery import Discovery, discover
from spdelaw.infer.engines.chaos import Chaos
from spdelaw.infer.engines.exact import Exact
from spdelaw.infer.engines.registry import Engine, engine_names
from spdelaw.infer.many import Learner, fit_many
from spdelaw.infer.model import LowRank, Model
from spdelaw.infer.objective import LogNormal, Normal
from spdelaw.infer.pipeline import fit, update

__all__ = [
    "Chaos",
    "Discovery",
    "Engine",
    "Exact",
    "Learner",
    "LogNormal",
    "LowRank",
    "Model",
    "Normal",
    "discover",
    "engine_names",
    "fit",
    "fit_many",
    "update",
]
