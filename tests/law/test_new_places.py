"""Predictions at places that a preparation never saw: climatology from neighbours, its error."""

import numpy as np
import pytest
import xarray as xr
from tests.journeys.records import smooth_noise

import spdelaw as sl
from spdelaw.data.climate import interpolated, interpolation_errors

PLAIN = {"residual": "white", "nuisance": 0, "mean": "zero", "initial": "stationary"}


def record(n_points=40, n_times=400, seed=0):
    """Values at scattered points about a mean that is rough over the plane, and the mean."""
    generator = np.random.default_rng(seed)
    x, y = generator.uniform(0, 10, n_points), generator.uniform(0, 10, n_points)
    mean = 5.0 + 0.8 * x - 0.5 * y + 0.4 * smooth_noise(1, y, x, seed + 1, scale=8.0)[0]
    values = mean + smooth_noise(n_times, y, x, seed, scale=8.0)
    values = values + 0.1 * generator.standard_normal(values.shape)
    coords = {"time": np.arange(float(n_times)), "x": ("point", x), "y": ("point", y)}
    return xr.DataArray(values, coords, ("time", "point"), name="t")


def test_a_plane_is_interpolated_exactly():
    generator = np.random.default_rng(0)
    points = generator.uniform(0, 1, (30, 2))
    plane = np.stack([1.0 + points @ [2.0, -3.0], points @ [0.5, 4.0]])
    missing = plane.copy()
    missing[:, ::7] = np.nan
    np.testing.assert_allclose(interpolated(missing, points), plane, atol=1e-10)
    errors, factor = interpolation_errors(plane, points, points[:3] + 1e-3)
    np.testing.assert_allclose(errors, 0.0, atol=1e-10)
    assert (factor < 0.1).all()


def test_error_of_each_left_out_point_by_hand():
    generator = np.random.default_rng(1)
    points, row = generator.uniform(0, 1, (9, 2)), generator.standard_normal((1, 9))
    errors, _ = interpolation_errors(row, points, points[:1] + 0.01)
    expected = []
    for i in range(9):
        kept = np.arange(9) != i
        weights = 1.0 / (((points[kept] - points[i]) / np.ptp(points, 0).max()) ** 2).sum(1)
        expected.append((weights * row[0, kept]).sum() / weights.sum() - row[0, i])
    assert all(np.abs(np.array(expected) - e).min() < 1e-6 for e in errors[0])


@pytest.mark.parametrize("anomalies", ["mean", None])
def test_bands_hold_what_new_places_observe(anomalies):
    whole = record()
    new = np.arange(0, 40, 5)
    inside = whole.isel(point=np.setdiff1d(np.arange(40), new))
    how = sl.Preparation(anomalies=anomalies)
    law = sl.fit(inside, sl.Box((0, 10), (0, 10)), 12, prepare=how, **PLAIN)
    grid = np.column_stack([whole.x.values[new], whole.y.values[new]])
    result = law.reconstruct(inside, grid=grid)
    truth = whole.isel(point=new).values
    share = (np.abs(truth - result["mean"][0]) < 1.96 * result["std"][0]).mean()
    assert 0.88 < float(share) <= 1.0
    ahead = law.forecast(inside, steps=1, grid=grid)
    assert np.isfinite(ahead["std"]).all()
    if anomalies is None:
        return
    mixed = np.vstack([grid[:2], [inside.x.values[0], inside.y.values[0]]])
    offset, _, error = law.preparation.affine_anywhere(np.zeros(1), mixed, ("x", "y"))
    assert (error[0, :2] > 0).all()
    assert error[0, 2] == 0.0
    assert offset[0, 2] == pytest.approx(float(inside.isel(point=0).mean()))
    alone = law.without_preparation_and_mean.reconstruct(law.prepared(inside), grid=grid)
    wider = np.sqrt(alone["std"].values[0] ** 2 + law.preparation.affine_anywhere(
        inside.time.values, grid, ("x", "y"))[2] ** 2)  # fmt: skip
    np.testing.assert_allclose(result["std"].values[0], wider)


def test_data_at_new_places_are_refused():
    whole = record(20, 60)
    law = sl.fit(
        whole[:, :15], sl.Box((0, 10), (0, 10)), 3, prepare=sl.Preparation(anomalies="mean"),
        **PLAIN,
    )  # fmt: skip
    with pytest.raises(sl.errors.DataError, match="points the preparation was learned at"):
        law.reconstruct(whole)
