"""A climatology that points share, against least squares and a truth that is known."""

import numpy as np
import pandas as pd
import xarray as xr

import spdelaw as sl
from spdelaw.evaluation import gap_filling as climate
from spdelaw.evaluation.gap_filling import Strength, choose_strength, share_climatology

GRID = np.stack(np.meshgrid(np.arange(6.0), np.arange(5.0), indexing="ij"), -1).reshape(-1, 2)
HOW = sl.Preparation(anomalies="dayofyear")


def record(seen=0.3, seed=0):
    """Months of a smooth year with noise, most of them missing; raw, flat (P, T, M), and truth."""
    rng = np.random.default_rng(seed)
    time = pd.date_range("2001-01-01", periods=72, freq="MS")
    phase = 2 * np.pi * time.day_of_year.to_numpy()[:, None] / 365.2425
    truth = 20 + GRID @ [1.0, -0.5] + (3 + 0.2 * GRID[:, 0]) * np.cos(phase - 0.1 * GRID[:, 1])
    values = truth + rng.standard_normal(truth.shape)
    values[rng.uniform(size=values.shape) > seen] = np.nan
    coords = {"time": time, "x": ("point", GRID[:, 0]), "y": ("point", GRID[:, 1])}
    return xr.DataArray(values, coords, ("time", "point")), values[None], truth


def learned(raw):
    prepared = HOW.learn(raw, ("x", "y"))
    times = sl.as_fields(raw, dims=("x", "y"))["time"].values
    return prepared, times


def test_coefficients_minimise_what_the_formula_says():
    raw, values, _ = record()
    prepared, times = learned(raw)
    strength = Strength(2.0, 5.0)
    result = share_climatology(prepared, times, values, GRID, strength).coefficients
    design, laplacian = climate._design(prepared, times), climate._laplacian(GRID).toarray()
    draw = np.diag([2.0] + [5.0] * 6)
    count = np.isfinite(values[0]).sum(0)
    surface = climate._surface(np.nansum(values[0], 0) / count, count, GRID)

    def loss(b):
        apart = b - np.outer(np.eye(7)[0], surface)  # means are drawn to a surface
        return np.nansum((values[0] - design @ b) ** 2) + np.trace(
            draw @ apart @ laplacian @ apart.T
        )

    rng = np.random.default_rng(0)
    for _ in range(5):  # a quadratic has its least value where no small step goes down
        step = 1e-3 * rng.standard_normal(result.shape)
        assert loss(result + step) > loss(result)
        np.testing.assert_allclose(loss(result + step), loss(result - step), rtol=1e-9)


def test_few_values_are_better_shared_and_the_strength_is_chosen():
    raw, values, truth = record(seen=0.2)
    held = np.isfinite(values) & (np.random.default_rng(1).uniform(size=values.shape) < 0.3)
    kept = np.where(held, np.nan, values)
    prepared, times = learned(raw.copy(data=kept[0]))
    strength = choose_strength(prepared, times, kept, GRID, np.where(held, values, np.nan))
    assert strength.waves > 0
    alone, drawn = (
        np.nanmean((p.affine(times, prepared.points)[0] - truth) ** 2)
        for p in (prepared, share_climatology(prepared, times, kept, GRID, strength))
    )
    assert drawn < 0.4 * alone
