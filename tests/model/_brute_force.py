"""The oracle: the joint Gaussian of states and observed values, written down in full."""

import numpy as np
from scipy import stats


def mode_mean(p, t):
    """E c_n(t); (T, N)."""
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


def state_covariance(p, t):
    """Cov of all states in the order (time, mode); (T N, T N)."""
    n = len(p.eigenvalues)
    c = np.einsum("tsn,nm->tnsm", mode_covariance(p, t), np.eye(n))
    return c.reshape(len(t) * n, len(t) * n)


def joint(p, t, phi):
    """Mean (T M,) and covariance (T M, T M) of the noisy field."""
    n_times, n_points = len(t), len(phi)
    mean = (mode_mean(p, t) @ phi.T).ravel()
    c = np.einsum("tsn,in,jn->tisj", mode_covariance(p, t), phi, phi)
    noise = np.broadcast_to(p.observation_variance, n_points)
    c = c.reshape(n_times * n_points, -1) + np.diag(np.tile(noise, n_times))
    return mean, c


def log_density(x, mean, covariance):
    """Log density of N(mean, covariance), by a Cholesky factor."""
    root = np.linalg.cholesky(covariance)
    z = np.linalg.solve(root, x - mean)
    logs = 2 * np.log(np.diag(root)).sum()
    return -0.5 * (len(x) * np.log(2 * np.pi) + logs + z @ z)


def log_likelihood(p, y, t, phi):
    """Log density of one path y (T, M) with NaN for missing."""
    mean, c = joint(p, t, phi)
    seen = ~np.isnan(y.ravel())
    return log_density(y.ravel()[seen], mean[seen], c[np.ix_(seen, seen)])


def state_log_density(p, c, t):
    """Log density of noise-free states c (T, N), given the first one if it is no variable."""
    first = 1 if p.initial_kind == "deterministic" else 0
    total, covariance, mean = 0.0, mode_covariance(p, t), mode_mean(p, t)
    for n in range(c.shape[1]):
        block = covariance[first:, first:, n]
        total += log_density(c[first:, n], mean[first:, n], block)
    return total


def estimate_log_likelihood(p, y, t, phi):
    """Log density of the least-squares estimates of all complete rows of one path."""
    rows = ~np.isnan(y).any(1)
    n = phi.shape[1]
    gram = phi.T @ phi
    estimate = np.linalg.solve(gram, phi.T @ y[rows].T).T
    at = np.repeat(rows, n)
    noise = float(p.observation_variance) * np.linalg.inv(gram)
    covariance = state_covariance(p, t)[np.ix_(at, at)] + np.kron(np.eye(rows.sum()), noise)
    return log_density(estimate.ravel(), mode_mean(p, t).ravel()[at], covariance)


def smoothed(p, y, t, phi):
    """Mean (T N,) and covariance (T N, T N) of the states given one path."""
    n_times = len(t)
    prior = state_covariance(p, t)
    observe = np.kron(np.eye(n_times), phi)
    seen = ~np.isnan(y.ravel())
    h = observe[seen]
    noise = np.tile(np.broadcast_to(p.observation_variance, len(phi)), n_times)[seen]
    f = h @ prior @ h.T + np.diag(noise)
    gain = np.linalg.solve(f, h @ prior).T
    m = mode_mean(p, t).ravel()
    return m + gain @ (y.ravel()[seen] - h @ m), prior - gain @ h @ prior


def innovations(p, y, t, phi):
    """Whitened errors of the row-wise estimates given all rows before; (T, N)."""
    n = phi.shape[1]
    out = np.full((len(t), n), np.nan)
    for i in range(1 if p.initial_kind == "deterministic" else 0, len(t)):
        seen = ~np.isnan(y[i])
        gram = phi[seen].T @ phi[seen]
        if np.linalg.matrix_rank(gram) < n:
            continue
        past = y.copy()
        past[i:] = np.nan
        mean, covariance = smoothed(p, past, t, phi)
        at = slice(i * n, (i + 1) * n)
        error = np.linalg.solve(gram, phi[seen].T @ y[i, seen]) - mean[at]
        noise = float(p.observation_variance) * np.linalg.inv(gram)
        out[i] = np.linalg.solve(np.linalg.cholesky(covariance[at, at] + noise), error)
    return out


def gaussian_kl(mean1, covariance1, mean2, covariance2):
    """KL(N1 || N2) from full matrices."""
    solve = np.linalg.solve(covariance2, covariance1)
    gap = mean2 - mean1
    logs = np.linalg.slogdet(covariance2)[1] - np.linalg.slogdet(covariance1)[1]
    return 0.5 * (np.trace(solve) - len(gap) + gap @ np.linalg.solve(covariance2, gap) + logs)


def largest_normal(n, false_alarm):
    """Bound that the largest of n standard normals in size exceeds with the given rate."""
    return stats.norm.isf(0.5 * false_alarm / n)
