"""Learning on batches of paths with an encoder: the paper's network, or the exact posterior.

``preset="paper"`` and ``"literal"`` need torch, ``preset="structured"`` does not.
"""

from spdelaw.infer.amortized._config import AmortizedConfig, StructuredConfig, make_config
from spdelaw.infer.amortized._job import Job
from spdelaw.infer.amortized._reconstruct import amortized_posterior, amortized_reconstruct
from spdelaw.infer.amortized._sample_decoder import sample_decoder
from spdelaw.infer.amortized._structured import fit_structured
from spdelaw.train import Progress, TrainingInterrupted

__all__ = [
    "AmortizedConfig",
    "Job",
    "Progress",
    "StructuredConfig",
    "TrainingInterrupted",
    "amortized_posterior",
    "amortized_reconstruct",
    "fit_structured",
    "make_config",
    "sample_decoder",
]
