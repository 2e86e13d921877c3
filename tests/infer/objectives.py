"""A bare function in place of a log-posterior, for tests of the search alone."""

from types import SimpleNamespace

import numpy as np


def as_posterior(objective, scale, seconds=0.0):
    """What `maximise` asks of a log-posterior, with a curvature that has to be differenced."""
    return SimpleNamespace(
        at=lambda x: (*objective(x), None),
        scale=scale,
        n_plain=len(scale),
        seconds=seconds,
        owners=lambda: None,
        initial_information=lambda x: np.zeros((0, 0)),
        exact_information=lambda x: None,
        expected_information=lambda x: None,
    )
