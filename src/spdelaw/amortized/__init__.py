"""Learning on batches of paths with an encoder: the paper's network, or the exact posterior."""

from spdelaw.amortized.engine import Amortized as Amortized
from spdelaw.amortized.engine import amortized_posterior as amortized_posterior
from spdelaw.amortized.engine import amortized_reconstruct as amortized_reconstruct
from spdelaw.amortized.engine import sample_decoder as sample_decoder
