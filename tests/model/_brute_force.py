"""The oracle: the joint Gaussian of all observed values, written down in full."""

import numpy as np
from scipy import stats


def mode_mean(p, t):
    return np.exp(-np.outer(t - t[0], p.eigenvalues)) * p.initial_mean


def mode_covariance(p, t):
    """Cov(c_n(t), c_n(s)) for each mode; (T, T, N)."""
    age = t - t[0]
    early = np.minimum(age[:, None], age[None])[..., None]
    gap = np.abs(age[:, None] - age[None])[..., None]
    lam, q = p.eigenvalues, p.noise_variance
    v = np.exp(-2 * lam * early) * p.initial_variance
    v = v + q * early * np.where(
        lam * early < 1e-12,
        1.0,
        -np.expm1(-2 * lam * early) / np.where(lam * early == 0, 1, 2 * lam * early),
    )
    return np.exp(-lam * gap) * v


def joint(p, t, phi):
    """Mean (T M,) and covariance (T M, T M) of the noisy field."""
    n_times, n_points = len(t), len(phi)
    mean = (mode_mean(p, t) @ phi.T).ravel()
    c = np.einsum("tsn,in,jn->tisj", mode_covariance(p, t), phi, phi)
    noise = np.broadcast_to(p.observation_variance, n_points)
    c = c.reshape(n_times * n_points, -1) + np.diag(np.tile(noise, n_times))
    return mean, c


def log_likelihood(p, y, t, phi):
    """Log density of one path y (T, M) with NaN for missing."""
    mean, c = joint(p, t, phi)
    seen = ~np.isnan(y.ravel())
    return stats.multivariate_normal.logpdf(
        y.ravel()[seen], mean[seen], c[np.ix_(seen, seen)], allow_singular=False
    )


def smoothed(p, y, t, phi):
    """Mean (T N,) and covariance (T N, T N) of the states given one path."""
    n_times, n = len(t), len(p.eigenvalues)
    prior = np.einsum("tsn,nm->tnsm", mode_covariance(p, t), np.eye(n)).reshape(n_times * n, -1)
    observe = np.kron(np.eye(n_times), phi)
    seen = ~np.isnan(y.ravel())
    h = observe[seen]
    noise = np.tile(np.broadcast_to(p.observation_variance, len(phi)), n_times)[seen]
    f = h @ prior @ h.T + np.diag(noise)
    gain = np.linalg.solve(f, h @ prior).T
    m = mode_mean(p, t).ravel()
    return m + gain @ (y.ravel()[seen] - h @ m), prior - gain @ h @ prior
