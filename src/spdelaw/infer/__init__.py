"""LEARN: parameters from data."""

from spdelaw.infer._amortized_engine import Amortized
from spdelaw.infer._chaos_engine import Chaos
from spdelaw.infer._discovery import Discovery, discover
from spdelaw.infer._engine import Engine, engine_names
from spdelaw.infer._exact import Exact
from spdelaw.infer._fit import fit
from spdelaw.infer._fit_many import fit_many
from spdelaw.infer._learner import Learner
from spdelaw.infer._model import (
    DRIFTS,
    INITIALS,
    MEANS,
    NOISES,
    OBSERVATION_NOISES,
    RESTS,
    WORDS,
    LowRank,
    Model,
)
from spdelaw.infer._passes import principal_components
from spdelaw.infer._priors import LogNormal, Normal
from spdelaw.infer._update import update

__all__ = [
    "DRIFTS",
    "INITIALS",
    "MEANS",
    "NOISES",
    "OBSERVATION_NOISES",
    "RESTS",
    "WORDS",
    "Amortized",
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
    "principal_components",
    "update",
]
