"""The oracle of the chaos model: coordinates, tail and observed values in one joint Gaussian."""

import numpy as np
from tests.statespace._brute_force import log_density

from spdelaw.chaos.propagators import CosineBasis, tail_covariance, unit_response


def factor_of(p):
    return np.diag(np.sqrt(p.noise))


def columns(p, ages, model):
    """Map from all coordinates to all states, (T N, D): loops, no structure used.

    Order of the coordinates: initial states by mode where they are random, then (k, l).
    """
    b, n = factor_of(p), len(p.drift)
    psi = unit_response(CosineBasis(model.horizon), ages, p.drift, model.n_time)
    parts = []
    if p.initial_kind != "deterministic":
        for m in range(n):
            c = np.zeros((len(ages), n))
            c[:, m] = np.sqrt(p.initial_covariance[m]) * np.exp(-p.drift[m] * ages)
            parts.append(c.ravel())
    for k in range(model.n_time):
        for l in range(len(b)):
            parts.append(np.stack([b[l, m] * psi[:, k, m] for m in range(n)], axis=1).ravel())
    return np.stack(parts, axis=1)


def tail(p, ages, model):
    """Covariance of the remainder over all states, (T N, T N)."""
    n, t = len(p.drift), len(ages)
    if model.tail == "dropped":
        return np.zeros((t * n, t * n))
    basis = CosineBasis(model.horizon)
    whole = tail_covariance(basis, ages, p.drift, factor_of(p), model.n_time)
    return whole.transpose(1, 0, 3, 2).reshape(t * n, t * n)


def parts(p, y, t, phi, model):
    """Centred observed values, their map from the coordinates, and their covariance."""
    ages = t - t[0]
    there = ~np.isnan(y.ravel())
    observe = np.kron(np.eye(len(t)), phi)[there]
    mean = (np.exp(-np.outer(ages, p.drift)) * p.initial_mean).ravel()
    f = observe @ columns(p, ages, model)
    noise = float(p.observation_variance) * np.eye(there.sum())
    covariance = f @ f.T + observe @ tail(p, ages, model) @ observe.T + noise
    return y.ravel()[there] - observe @ mean, f, covariance


def log_likelihood(p, y, t, phi, model):
    error, _, covariance = parts(p, y, t, phi, model)
    return log_density(error, np.zeros(len(error)), covariance)


def posterior(p, y, t, phi, model):
    """Mean (D,) and covariance (D, D) of the standard normal coordinates."""
    error, f, covariance = parts(p, y, t, phi, model)
    gain = np.linalg.solve(covariance, f).T
    return gain @ error, np.eye(f.shape[1]) - gain @ f
