"""Scores of forecasts by method and lead, with intervals from blocks of origins.

Every score is a mean over values of all origins, paths and points that every method forecasts:

    rmse        root of the mean square error
    crps        continuous ranked probability score of N(mean, std^2)
    log_score   -log density of the value, in nats
    coverage_p  share of values inside the central p % interval

in the units of the data; lower is better but for the coverage. Intervals are quantiles over
moving blocks of origins as long as the lead, the same blocks for all methods.
"""

from __future__ import annotations

import numpy as np
import scipy
import xarray as xr

from spdelaw.evaluation._blocks import block_bootstrap
from spdelaw.evaluation._hindcast import Issued
from spdelaw.evaluation._rivals import Outlook
from spdelaw.evaluation._trajectory import gaussian_crps

Array = np.ndarray

LEVELS = (50, 80, 95)
SCORES = ("rmse", "crps", "log_score", *(f"coverage_{level}" for level in LEVELS))
#: Deviation of a point, relative to the largest, below which it is constant and not scored.
CONSTANT = 1e-9


def origin_sums(issued: Issued) -> tuple[Array, Array]:
    """Sums of each score (predictor, score, lead) and numbers of values (lead,) of one origin."""
    spread = issued.outlooks["climatology"].std * issued.scale
    scored = np.isfinite(issued.truth) & (spread > CONSTANT * np.nanmax(spread))
    for outlook in issued.outlooks.values():
        scored &= np.isfinite(outlook.mean) & np.isfinite(outlook.std)
    sums = [_sums(outlook, issued, scored) for outlook in issued.outlooks.values()]
    return np.stack(sums), scored.sum((1, 2))


def _sums(outlook: Outlook, issued: Issued, scored: Array) -> Array:
    scale = np.broadcast_to(issued.scale, scored.shape)[scored]
    error = (outlook.mean - issued.truth)[scored] * scale
    std = np.maximum(outlook.std[scored] * scale, 1e-300)
    z = error / std
    parts = [error**2, gaussian_crps(np.zeros_like(std), std, error)]
    with np.errstate(over="ignore"):
        parts.append(0.5 * z**2 + np.log(std) + 0.5 * np.log(2 * np.pi))
    half = [float(scipy.special.ndtri(0.5 + level / 200)) for level in LEVELS]
    parts += [(np.abs(z) <= h).astype(float) for h in half]
    lead = np.broadcast_to(np.arange(len(scored))[:, None, None], scored.shape)[scored]
    return np.stack([np.bincount(lead, part, minlength=len(scored)) for part in parts])


def score_table(
    sums: Array,
    counts: Array,
    methods: list[str],
    leads: tuple[int, ...],
    stride: float,
    level: float,
    replicates: int,
    seed: int,
) -> xr.Dataset:
    """Scores with intervals; sums (origin, method, score, lead), counts (origin, lead)."""
    n = len(sums)
    whole = np.arange(n)[None]
    estimate, skill = _scores(sums, counts, whole)
    tails = (0.5 - 0.5 * level, 0.5 + 0.5 * level)
    ends, skill_ends = np.empty((2, *estimate.shape[1:])), np.empty((2, *skill.shape[1:]))
    for i, lead in enumerate(leads):
        # Forecasts overlap while their futures do; slower changes need longer blocks still.
        length = max(int(np.ceil(lead / stride)), round(n ** (1 / 3)))
        rows = block_bootstrap(n, min(length, max(1, n // 2)), replicates, seed)
        drawn, drawn_skill = _scores(sums[..., i : i + 1], counts[:, i : i + 1], rows)
        ends[..., i] = np.quantile(drawn, tails, axis=0)[..., 0]
        skill_ends[..., i] = np.quantile(drawn_skill, tails, axis=0)[..., 0]
    dims = ("predictor", "score", "lead")
    found = {"estimate": estimate[0], "lower": ends[0], "upper": ends[1]}
    gains = {"skill": skill[0], "skill_lower": skill_ends[0], "skill_upper": skill_ends[1]}
    table = xr.Dataset(
        {
            **{name: (dims, values) for name, values in found.items()},
            **{name: (("predictor", "lead"), values) for name, values in gains.items()},
            "n_values": ("lead", counts.sum(0)),
        },
        coords={"predictor": methods, "lead": list(leads), "score": list(SCORES)},
        attrs={"level": level, "n_origins": n},
    )
    about = {"long_name": "1 - MSE(law) / MSE(method)"}
    table["skill"].attrs = about
    return table.transpose("predictor", "lead", "score")


def _scores(sums: Array, counts: Array, rows: Array) -> tuple[Array, Array]:
    """Scores (replicate, method, score, lead) and skills (replicate, method, lead) of rows."""
    values = np.maximum(counts[rows].sum(1), 1)[:, None, None]
    mean = sums[rows].sum(1) / values
    law = mean[:, :1, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        skill = 1.0 - law / mean[:, :, 0]
    mean[:, :, 0] = np.sqrt(mean[:, :, 0])
    return mean, skill
