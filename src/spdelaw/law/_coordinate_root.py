"""Root of the covariance of a law's coordinates, whose units lie far apart."""

from __future__ import annotations

import numpy as np

Array = np.ndarray

#: Standard errors of coordinates lie far apart from this ratio on.
FAR_APART = 1e6


def coordinate_root(covariance: Array) -> Array:
    """Columns R with ``R R'`` the covariance, by way of correlations where units lie far apart.

    Eigenvectors of the covariance itself lose logarithms of rates beside initial means of 1e12.

    Example:
        >>> import numpy as np
        >>> from spdelaw.law import coordinate_root
        >>> covariance = np.diag([1e24, 0.01]) + np.array([[0.0, 1e10], [1e10, 0.0]])
        >>> r = coordinate_root(covariance)
        >>> bool(np.allclose(r @ r.T, covariance, rtol=1e-12, atol=0.0))
        True
    """
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    known = scale[scale > 0]
    is_far = known.max(initial=0.0) > FAR_APART * known.min(initial=np.inf)
    unit = np.where(scale > 0, scale, 1.0) if is_far else np.ones(len(scale))
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    return np.asarray(unit[:, None] * vectors * np.sqrt(np.maximum(values, 0.0)))
