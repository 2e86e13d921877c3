"""The oracle: the joint Gaussian of states and observed values, written down in full.

Of any linear law: diagonal operators or matrices, with seasons and a forcing. Matrix exponentials,
stationary covariances and quadrature: not the ways of the package.
"""

import itertools

import numpy as np
from scipy import linalg, stats


def matrix(a):
    return np.diag(a) if np.ndim(a) == 1 else np.asarray(a)


def state_moments(p, t):
    """Mean (T N,) and covariance (T N, T N) of all states."""
    drift, n = matrix(p.drift), len(p.initial_mean)
    covariance, spread = [matrix(p.initial_covariance)], matrix(p.initial_covariance)
    for start, end in itertools.pairwise(t):
        for low, high, weight in pieces(p.season, start, end):
            spread = carried(p, spread, high - low, weight)
        covariance.append(spread)
    out = np.empty((len(t), n, len(t), n))
    for i in range(len(t)):
        for j in range(i + 1):
            out[i, :, j] = linalg.expm(-(t[i] - t[j]) * drift) @ covariance[j]
            out[j, :, i] = out[i, :, j].T
    decayed = np.array([linalg.expm(-(s - t[0]) * drift) @ p.initial_mean for s in t])
    return (decayed + response(p, t)).ravel(), out.reshape(len(t) * n, -1)


def carried(p, spread, h, weight):
    """Covariance after a step; ``Omega = P - F P F'`` with the stationary P."""
    f = linalg.expm(-h * matrix(p.drift))
    stationary = linalg.solve_continuous_lyapunov(matrix(p.drift), weight * matrix(p.noise))
    return f @ (spread - stationary) @ f.T + stationary


def pieces(season, start, end):
    """Pieces of a step with noise of constant strength."""
    if season is None:
        return [(start, end, 1.0)]
    h = season.period / season.n_parts
    edges = season.origin + h * np.arange(
        np.floor((start - season.origin) / h), np.ceil((end - season.origin) / h) + 1
    )
    cuts = np.unique(np.clip(edges, start, end))
    middles = 0.5 * (cuts[1:] + cuts[:-1])
    weights = season.at(middles)
    return list(zip(cuts[:-1], cuts[1:], weights, strict=True))


def response(p, t):
    """Mean that the forcing drives from the origin on, by quadrature of short pieces; (T, N)."""
    if p.forcing is None:
        return np.zeros((len(t), len(p.initial_mean)))
    knots = p.forcing.times[(p.forcing.times > p.origin) & (p.forcing.times < t[-1])]
    ends = np.union1d(np.union1d(knots, np.arange(p.origin, t[-1], 0.25)), t[t >= p.origin])
    f, drift = p.forcing.on_modes(len(p.initial_mean)).T, matrix(p.drift)
    nodes, weights = np.polynomial.legendre.leggauss(16)
    m = {p.origin: np.zeros(len(f))}
    for start, end in itertools.pairwise(ends):
        h = end - start
        s = start + 0.5 * h * (1 + nodes)
        force = [np.interp(s, p.forcing.times, x) for x in f]
        decay = linalg.expm(-(end - np.append(s, start))[:, None, None] * drift)
        m[end] = decay[-1] @ m[start]
        m[end] += 0.5 * h * np.einsum("s,snm,ms->n", weights, decay[:-1], force)
    return np.array([m[s] for s in t])


def mode_mean(p, t):
    """E c_n(t); (T, N)."""
    return state_moments(p, t)[0].reshape(len(t), -1)


def mode_covariance(p, t):
    """Cov(c_n(t), c_n(s)) for each mode; (T, T, N)."""
    n = len(p.initial_mean)
    return np.einsum("tnsn->tsn", state_covariance(p, t).reshape(len(t), n, len(t), n))


def state_covariance(p, t):
    """Cov of all states in the order (time, mode); (T N, T N)."""
    return state_moments(p, t)[1]


def joint(p, t, phi):
    """Mean (T M,) and covariance (T M, T M) of the noisy field."""
    mean, covariance = state_moments(p, t)
    observe = np.kron(np.eye(len(t)), phi)
    noise = np.tile(np.broadcast_to(p.observation_variance, len(phi)), len(t))
    return observe @ mean, observe @ covariance @ observe.T + np.diag(noise)


def log_density(x, mean, covariance):
    """Log density of N(mean, covariance), by a Cholesky factor."""
    root = np.linalg.cholesky(covariance)
    z = np.linalg.solve(root, x - mean)
    logs = 2 * np.log(np.diag(root)).sum()
    return -0.5 * (len(x) * np.log(2 * np.pi) + logs + z @ z)


def log_likelihood(p, y, t, phi):
    """Log density of one path y (T, M) with NaN for missing."""
    mean, c = joint(p, t, phi)
    there = ~np.isnan(y.ravel())
    return log_density(y.ravel()[there], mean[there], c[np.ix_(there, there)])


def state_log_density(p, c, t):
    """Log density of noise-free states c (T, N), given the first one if it is no variable."""
    mean, covariance = state_moments(p, t)
    at = slice(c.shape[1] if p.initial_kind == "deterministic" else 0, None)
    return log_density(c.ravel()[at], mean[at], covariance[at, at])


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
    there = ~np.isnan(y.ravel())
    h = observe[there]
    noise = np.tile(np.broadcast_to(p.observation_variance, len(phi)), n_times)[there]
    f = h @ prior @ h.T + np.diag(noise)
    gain = np.linalg.solve(f, h @ prior).T
    m = mode_mean(p, t).ravel()
    return m + gain @ (y.ravel()[there] - h @ m), prior - gain @ h @ prior


def innovations(p, y, t, phi):
    """Whitened errors of the row-wise estimates given all rows before; (T, N)."""
    n = phi.shape[1]
    out = np.full((len(t), n), np.nan)
    for i in range(1 if p.initial_kind == "deterministic" else 0, len(t)):
        there = ~np.isnan(y[i])
        gram = phi[there].T @ phi[there]
        if np.linalg.matrix_rank(gram) < n:
            continue
        past = y.copy()
        past[i:] = np.nan
        mean, covariance = smoothed(p, past, t, phi)
        at = slice(i * n, (i + 1) * n)
        error = np.linalg.solve(gram, phi[there].T @ y[i, there]) - mean[at]
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
