"""Reconstruction by the network: what it sees in a path, decoded again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from spdelaw.data import Observed, observe
from spdelaw.domain import from_dict as domain_from_dict
from spdelaw.errors import DataError
from spdelaw.infer.amortized._chaos_vae import ChaosVAE
from spdelaw.infer.amortized._config import AmortizedConfig
from spdelaw.infer.amortized._elbo import mean_errors, path_errors
from spdelaw.infer.amortized._paths import Paths, as_paths
from spdelaw.train import read_checkpoint
from spdelaw.train.torch_run import load_weights


@torch.no_grad()
def neural_reconstruct(folder: Path, data: Any, **adapter: Any) -> xr.Dataset:
    """Field of the encoder's posterior: ``mean`` and ``std``; see `amortized_reconstruct`."""
    model, observed, batches = _opened(folder, data, adapter)
    parts = []
    for batch in batches:
        posterior, curves = model.encode(batch), model.curves(batch)
        c = model.coefficients(curves, batch, posterior.initial_mean, posterior.chaos_mean)
        mean = c @ model.basis.t()
        std = torch.sqrt(model.field_variance(curves, batch, posterior))
        parts.append((mean, std, *path_errors(mean, batch)))
    mean, std, *errors = map(torch.cat, zip(*parts, strict=True))
    places, rows = observed.domain.places(observed.points), observed.rows[:, :, None]
    shown = {}
    for name, part in (("mean", mean), ("std", std)):
        values = np.take_along_axis(part.double().numpy(), rows, axis=1)
        shown[name] = (("path", "time", *places.dims), places.unflatten(values))
    given = observed.fields.coords.items()
    coords = {k: v for k, v in given if set(v.dims) <= {"path", "time"}}
    return xr.Dataset(shown, {**coords, **places.coords}, mean_errors(*errors))


@torch.no_grad()
def neural_posterior(folder: Path, data: Any, **adapter: Any) -> xr.Dataset:
    """What the encoder says of each path; see `amortized_posterior`."""
    model, observed, batches = _opened(folder, data, adapter)
    parts = [model.encode(batch) for batch in batches]
    z0, z0_log, xi, xi_log = (torch.cat(part).double().numpy() for part in zip(*parts, strict=True))
    n_time, n_noise = xi.shape[1:]
    return xr.Dataset(
        {
            "z0_mean": (("path", "mode"), z0),
            "z0_std": (("path", "mode"), np.exp(0.5 * z0_log)),
            "xi_mean": (("path", "k", "noise"), xi),
            "xi_std": (("path", "k", "noise"), np.exp(0.5 * xi_log)),
        },
        coords={
            "path": observed.fields["path"].values,
            "mode": np.arange(1, z0.shape[1] + 1),
            "k": np.arange(1, n_time + 1),
            "noise": np.arange(1, n_noise + 1),
        },
    )


def _opened(
    folder: Path, data: Any, adapter: dict[str, Any]
) -> tuple[ChaosVAE, Observed, Iterator[Paths]]:
    """The network, and batches of paths on its points and within its times."""
    snapshot, identity = read_checkpoint(folder)
    values = identity["config"]
    if "variance" not in values:  # before 0.2 there was one reading, now called literal
        values = values | {"preset": "literal"}
    config = AmortizedConfig(**values)
    domain, points = domain_from_dict(identity["domain"]), np.asarray(identity["points"])
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced at once
        model = ChaosVAE(domain.eigenfunctions(points, identity["n_modes"]), config)
    load_weights(model, snapshot, "best")
    observed = observe(data, domain, **adapter).in_memory()
    if len(observed.points) != len(points) or not np.allclose(observed.points, points):
        expected = f"the {len(points)} points the encoder was trained on"
        fix = "use law.reconstruct, which takes any points"
        raise DataError("points", expected=expected, got=f"{len(observed.points)} points", fix=fix)
    paths = as_paths(observed, *identity["clock"])
    return model, observed, paths.batches(config.batch_size)
