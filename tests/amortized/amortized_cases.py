"""Small problems for the amortized engine."""

from functools import cache

import numpy as np
import torch
import xarray as xr

import spdelaw as sl
from spdelaw.amortized.neural import new_model
from spdelaw.amortized.structured import make_config
from spdelaw.amortized.vae import ChaosVAE, Paths, as_paths
from spdelaw.data.observed import observe

torch.set_num_threads(1)

EQUATION = sl.catalogue.heat(n_modes=3)
DOMAIN = EQUATION.domain
TIMES = np.linspace(0.0, 1.0, 21)
GRID = np.linspace(0.0, np.pi, 12)[1:-1]
SMALL = {
    "preset": "literal", "epochs": 6, "batch_size": 20,
    "n_hidden": 16, "n_embedding": 8, "n_reference": 6, "n_time": 4,
}  # fmt: skip


@cache
def fields(n_paths: int = 60, seed: int = 0) -> xr.DataArray:
    return sl.simulate(EQUATION, n_paths, TIMES, GRID, seed=seed)


def with_gaps(share: float = 0.3, n_paths: int = 60) -> xr.DataArray:
    whole = fields(n_paths)
    hidden = np.random.default_rng(7).random(whole.shape) < share
    return whole.where(~hidden)


def own_times(n_paths: int = 12) -> xr.DataArray:
    """Each path at 9 random times of its own."""
    rng = np.random.default_rng(3)
    whole = fields(n_paths)
    which = np.sort([np.r_[0, 1 + rng.permutation(20)[:8]] for _ in range(n_paths)], axis=1)
    values = np.take_along_axis(whole.values, which[..., None], axis=1)
    return xr.DataArray(
        values, dims=("path", "time", "x"),
        coords={"x": GRID, "path_time": (("path", "time"), TIMES[which])},
    )  # fmt: skip


def paths_of(data: xr.DataArray) -> Paths:
    observed = observe(data, DOMAIN)
    return as_paths(observed, observed.origin, float(np.nanmax(observed.times)) - observed.origin)


def model_of(seed: int = 0, **settings: object) -> ChaosVAE:
    """Model with spectra that are not the start, so that no mode is like another."""
    config = make_config(**(SMALL | settings))
    model = new_model(DOMAIN.eigenfunctions(GRID, 3), config, seed)
    with torch.no_grad():
        model.dynamics.log_eigenvalues.copy_(torch.tensor([0.0, 1.0, 2.0]))
        diagonal = model.dynamics.log_factor.diagonal()
        diagonal.copy_(torch.tensor([0.0, -0.5, -1.0])[: len(diagonal)])
        logs = torch.linspace(-2.0, -1.0, len(GRID))
        if model.is_log:
            model.log_variance.copy_(logs)
        else:
            model.root_std.copy_(torch.exp(logs / 4.0))
    return model


def noise_of(n_paths: int, seed: int = 0, n_time: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    initial = torch.randn(n_paths, 3, generator=generator)
    return initial, torch.randn(n_paths, n_time, 3, generator=generator)
