"""Learning on batches of paths with an encoder: the paper's network, or the exact posterior.

``preset="paper"`` and ``"literal"`` need torch, ``preset="structured"`` does not.
"""

from spdelaw.infer.amortized._config import AmortizedConfig, StructuredConfig, make_config
from spdelaw.infer.amortized._engine import fit_amortized
from spdelaw.infer.amortized._reconstruct import amortized_posterior, amortized_reconstruct
from spdelaw.infer.amortized._sample_decoder import sample_decoder
from spdelaw.train import Progress, TrainingInterrupted

__all__ = [
    "AmortizedConfig",
    "Progress",
    "StructuredConfig",
    "TrainingInterrupted",
    "amortized_posterior",
    "amortized_reconstruct",
    "fit_amortized",
    "make_config",
    "sample_decoder",
]
