"""The exact engine: maximum likelihood of the untruncated law.

Complete, noise-free data on a common grid need one pass for their sufficient statistics.
Everything else goes through the filter. Which way was taken, and why, is in ``law.info``.
"""

from __future__ import annotations

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.infer._filter_route import by_filter
from spdelaw.infer._fitted import Fitted
from spdelaw.infer._observed import Observed
from spdelaw.infer._settings import Settings
from spdelaw.infer._statistics_route import by_statistics


def estimate(
    observed: Observed, domain: AbstractDomain, n_modes: int, settings: Settings
) -> Fitted:
    """Maximum-likelihood estimate by whichever way the data allow."""
    # Sums over steps of equal length forget when the steps were: nothing for noise with seasons.
    timeless = settings.season is None
    if timeless and not np.any(settings.known_variance) and settings.noise_word != "estimate":
        fitted = by_statistics(observed, domain, n_modes, settings)
        if fitted is not None:
            return fitted
    return by_filter(observed, domain, n_modes, settings)
