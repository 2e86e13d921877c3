"""Learning on batches of paths with an encoder: the paper's network, or the exact posterior."""

from spdelaw.amortized.engine import (
    Amortized,
    amortized_posterior,
    amortized_reconstruct,
    sample_decoder,
)

__all__ = ["Amortized", "amortized_posterior", "amortized_reconstruct", "sample_decoder"]
