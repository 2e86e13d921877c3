"""The paper's learner: an encoder trained with the evidence lower bound. Needs torch."""

from spdelaw.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise MissingExtraError("engine='amortized'", "neural") from _error

from spdelaw.infer.amortized._config import AmortizedConfig, make_config
from spdelaw.infer.amortized._engine import fit_amortized
from spdelaw.infer.amortized._progress import Progress
from spdelaw.infer.amortized._reconstruct import amortized_reconstruct
from spdelaw.infer.amortized._train import TrainingInterrupted

__all__ = [
    "AmortizedConfig",
    "Progress",
    "TrainingInterrupted",
    "amortized_reconstruct",
    "fit_amortized",
    "make_config",
]
