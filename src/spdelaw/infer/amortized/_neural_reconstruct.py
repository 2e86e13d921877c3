"""Reconstruction by the network: what it sees in a path, decoded again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from spdelaw.domain import from_dict as domain_from_dict
from spdelaw.errors import DataError
from spdelaw.infer._observed import observe
from spdelaw.infer.amortized._assess import path_errors
from spdelaw.infer.amortized._chaos_vae import ChaosVAE
from spdelaw.infer.amortized._clock import Clock
from spdelaw.infer.amortized._config import AmortizedConfig
from spdelaw.infer.amortized._paths import as_paths
from spdelaw.law._clock import own_rows
from spdelaw.train import read_checkpoint
from spdelaw.train.torch_run import load_weights


@torch.no_grad()
def neural_reconstruct(folder: Path, data: Any, **adapter: Any) -> xr.Dataset:
    """Field of the encoder's posterior: ``mean`` and ``std``; see `amortized_reconstruct`."""
    model, domain, points, clock, size = _load(folder)
    observed = observe(data, domain, **adapter)
    if len(observed.points) != len(points) or not np.allclose(observed.points, points):
        raise DataError(
            "points", expected=f"the {len(points)} points the encoder was trained on",
            got=f"{len(observed.points)} points", fix="use law.reconstruct, which takes any points",
        )  # fmt: skip
    paths = as_paths(observed, clock)
    parts = []
    for batch in paths.batches(size):
        posterior, curves = model.encode(batch), model.curves(batch)
        c = model.coefficients(curves, batch, posterior.initial_mean, posterior.chaos_mean)
        mean = c @ model.basis.t()
        std = torch.sqrt(model.field_variance(curves, batch, posterior))
        parts.append((mean, std, *path_errors(mean, batch)))
    mean, std, error, norm, count = map(torch.cat, zip(*parts, strict=True))
    kept = norm > 0
    fields = observed.fields
    rows = own_rows(fields, observed.times)[:, :, None]
    places = domain.places(observed.points)
    dims = ("path", "time", *places.dims)
    shown = {
        name: places.unflatten(np.take_along_axis(part.double().numpy(), rows, axis=1))
        for name, part in {"mean": mean, "std": std}.items()
    }
    lead = {k: v for k, v in fields.coords.items() if set(v.dims) <= {"path", "time"}}
    return xr.Dataset(
        {name: (dims, values) for name, values in shown.items()},
        coords={**lead, **places.coords},
        attrs={
            "relative_l2": float(torch.sqrt(error[kept] / norm[kept]).mean()),
            "rmse": float(torch.sqrt(error.sum() / count.sum())),
        },
    )


def _load(folder: Path) -> tuple[ChaosVAE, Any, np.ndarray, Clock, int]:
    snapshot, identity = read_checkpoint(folder)
    values = identity["config"]
    if "variance" not in values:  # before 0.2 there was one reading, now called literal
        values = values | {"preset": "literal"}
    config = AmortizedConfig(**values)
    domain, points = domain_from_dict(identity["domain"]), np.asarray(identity["points"])
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced at once
        model = ChaosVAE(domain.eigenfunctions(points, identity["n_modes"]), config)
    load_weights(model, snapshot, "best")
    return model, domain, points, Clock(*identity["clock"]), config.batch_size
