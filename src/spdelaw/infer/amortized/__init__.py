"""Learning on batches of paths with an encoder: the paper's network, or the exact posterior.

``preset="paper"`` needs torch, ``preset="structured"`` does not.
"""

from spdelaw.infer.amortized._config import AmortizedConfig, StructuredConfig, make_config
from spdelaw.infer.amortized._engine import fit_amortized
from spdelaw.infer.amortized._reconstruct import amortized_reconstruct
from spdelaw.train import Progress, TrainingInterrupted

__all__ = [
    "AmortizedConfig",
    "Progress",
    "StructuredConfig",
    "TrainingInterrupted",
    "amortized_reconstruct",
    "fit_amortized",
    "make_config",
]
