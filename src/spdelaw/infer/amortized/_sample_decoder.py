"""Paths of the truncated decoder: what the paper calls samples of the learned model.

``X(t, x) = sum_n [z0_n e^(-lambda_n t) + sqrt(q_n) sum_{k<=K} psi_k(t; lambda_n) xi_{k,n}] h_n(x)
+ sigma(x) e(t, x)`` with ``xi, e ~ N(0, 1)``: smooth sums of K functions of time, and white noise
in the place of what they cannot carry. `Law.sample` draws the process with the same lambda and q
without the truncation, rough in time and without observation noise: another law wherever the
truncation biased the numbers.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from spdelaw.chaos import CosineBasis, expand, propagate
from spdelaw.checks import whole
from spdelaw.errors import InputError
from spdelaw.law import Law


def sample_decoder(
    law: Law, n_paths: int = 1, *, seed: int = 0, observation_noise: bool = True
) -> xr.DataArray:
    """Unconditional draws of a truncated model, at the times and points of its fit.

    Args:
        law: of the paper's learner, or of ``engine="chaos"`` with ``tail="dropped"``.
        n_paths: number of paths.
        seed: of the chaos coordinates and of the noise.
        observation_noise: whether the observation variance is part of a sample, as in the paper.

    Returns:
        Fields with dims (path, time, x). The initial state is the learned mean of ``z0``.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=40, seed=0)
        >>> law = sl.fit(data, sl.Interval(0, np.pi), 2, engine="chaos", tail="dropped", n_time=8)
        >>> sample_decoder(law, 3).shape
        (3, 201, 101)
    """
    whole("n_paths", n_paths, 1)
    n_time, rng = _functions_of_time(law), np.random.default_rng(seed)
    linear, age = law.linear, law.times - law.times[0]
    basis, n = CosineBasis(float(age[-1])), linear.n_modes
    curves = propagate(basis, age, linear.drift, np.sqrt(linear.noise), n_time)
    c = expand(curves, law.initial.mean, rng.standard_normal((n_paths, n_time, n)))
    values = c @ law.domain.eigenfunctions(law.points, n).T
    if observation_noise:
        variance = law.observation_variance + law.unresolved_variance
        values = values + np.sqrt(variance) * rng.standard_normal(values.shape)
    places = law.domain.places(law.points)
    coords = {"path": np.arange(n_paths), "time": law.times, **places.coords}
    dims = ("path", "time", *places.dims)
    return xr.DataArray(places.unflatten(values), dims=dims, coords=coords, name="field")


def _functions_of_time(law: Law) -> int:
    """K, or an error where the law was not learned with a truncated model."""
    info = law.info
    if info.get("preset") in ("paper", "literal"):
        return int(info["config"]["n_time"])
    if info.get("tail") == "dropped":
        return int(info["n_time"])
    expected = "one of a truncated model: the paper's learner, or a dropped tail"
    got = f"engine {info.get('engine')!r} without a truncation"
    raise InputError("law", expected=expected, got=got, fix="use law.sample")
