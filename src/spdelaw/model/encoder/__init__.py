"""Encoder networks: from an observed path to the posterior of its chaos coordinates.

The only part of the model that needs torch; `spdelaw.model` does not import it.
"""

from spdelaw.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise MissingExtraError("engine='amortized'", "neural") from _error

from spdelaw.model.encoder._attention import MultiTimeAttention, TimeEmbedding
from spdelaw.model.encoder._encoder import Encoded, Encoder
from spdelaw.model.encoder._gru import FinalStateGRU

__all__ = ["Encoded", "Encoder", "FinalStateGRU", "MultiTimeAttention", "TimeEmbedding"]
