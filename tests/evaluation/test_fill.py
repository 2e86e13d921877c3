"""Gaps filled: against the law's own answer, a Gaussian by hand, and what was held out."""

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.errors import DataError, InputError
from spdelaw.evaluation import gap_selection as selection_module
from spdelaw.evaluation.gap_selection import gap_task

CALM = sl.catalogue.heat(n_modes=3, initial="stationary")
GRID = np.linspace(0, np.pi, 13)
QUICK = {"drift": "diagonal", "basis": "domain"}


def record(n_paths=1, n_times=80, seed=0, std=0.05, fraction=0.3, pattern="blocks"):
    times = 0.1 * np.arange(n_times)
    full = sl.simulate(CALM, n_paths, times, GRID, seed=seed, observation_std=std)
    return full, sl.mask(full, pattern, fraction=fraction, seed=seed + 1)


def hold_out(observed, *how, **words):
    """Observed values that a task does not give."""
    return observed & ~gap_task(observed, *how, **words).given


def map_of_sea(n_times=48, seed=0):
    """Monthly maps in kelvin with land, a season and clouds, latitudes from north to south."""
    rng = np.random.default_rng(seed)
    times = np.array(
        [np.datetime64("2001-01-01") + np.timedelta64(30 * k, "D") for k in range(n_times)]
    )
    lat, lon = np.arange(15.0, -16.0, -5.0), np.arange(160.0, 200.0, 5.0)
    state = np.zeros(3)
    maps = np.empty((n_times, len(lat), len(lon)))
    shapes = [np.ones((len(lat), len(lon))), np.cos(np.pi * (lon - 160) / 35) + 0 * lat[:, None],
              np.cos(np.pi * (lat[:, None] - 15) / 30) + 0 * lon]  # fmt: skip
    for t in range(n_times):
        state = 0.8 * state + 0.4 * rng.standard_normal(3)
        maps[t] = 300 + np.cos(t * 30 / 58) + sum(c * s for c, s in zip(state, shapes, strict=True))
    maps += 0.05 * rng.standard_normal(maps.shape)
    maps[:, 1:3, 2:4] = np.nan
    clouds = rng.uniform(size=(n_times, 1, len(lon))) < 0.25
    attrs = {"units": "K", "standard_name": "sea_surface_temperature"}
    coords = {"time": times, "lat": lat, "lon": lon}
    full = xr.DataArray(maps, coords, ("time", "lat", "lon"), name="sst", attrs=attrs)
    return full, full.where(~xr.DataArray(clouds & np.ones_like(maps, bool), dims=full.dims))


def test_gaps_hold_what_the_law_says_and_the_rest_stays():
    _, gappy = record(n_paths=2, n_times=40)
    filled, law = sl.fill(gappy, CALM.domain, 3, residual="white", return_law=True, **QUICK)
    law_says = law.reconstruct(gappy)
    missing = gappy.isnull()
    np.testing.assert_allclose(filled["mean"].where(missing), law_says["mean"].where(missing))
    xr.testing.assert_equal(filled["mean"].where(~missing), gappy.where(~missing))
    assert (filled["std"].where(~missing, 0.0) == 0).all()
    assert (filled["std"].where(missing, 1.0) > 0).all()
    smooth = sl.fill(gappy, CALM.domain, 3, residual="white", smooth=True, **QUICK)
    np.testing.assert_allclose(smooth["mean"], law_says["mean"])
    ratio = (smooth["std_field"] / law_says["std_field"]).isel(x=slice(1, -1))
    np.testing.assert_allclose(ratio, ratio[0, 0, 0], rtol=1e-6)  # one calibrated factor
    noise = smooth["std"] ** 2 - smooth["std_field"] ** 2
    np.testing.assert_allclose(noise, noise.isel(path=0, time=0).broadcast_like(noise), rtol=1e-6)
    np.testing.assert_allclose(
        filled["std_field"].where(~missing), np.sqrt(noise).where(~missing), rtol=1e-6
    )


@pytest.mark.parametrize("residual", ["white", "local", "shared", "memory"])
def test_bands_of_value_and_field_hold_at_gaps_and_at_observed_values(residual):
    """Null: errors are normal with these deviations; one record of 301 times and 23 points.

    The law has three of the eight modes. At observed values the limits are wide: from one value
    no model of the residual can tell noise from a field that varies within one grid step.
    """
    calm = sl.catalogue.heat(n_modes=8, initial="stationary", kappa=0.3)
    clean = sl.simulate(calm, 1, np.linspace(0, 30, 301), calm.domain.grid(25)[1:-1], seed=1)
    first, second = 0.15 * np.random.default_rng(10).standard_normal((2, *clean.shape))
    gappy = sl.mask(clean + first, "blocks", fraction=0.3, seed=1)
    filled = sl.fill(gappy, calm.domain, 3, residual=residual, smooth=True, **QUICK)
    missing = gappy.isnull().values
    for name, truth in (("std", clean + second), ("std_field", clean)):
        inside = (abs(truth - filled["mean"]) < 1.96 * filled[name]).values
        for where, least in ((missing, 0.92), (~missing, 0.80)):
            assert inside[where].mean() > least, name
    inside = (abs(clean + first - filled["mean"]) < 1.96 * filled["std"]).values
    assert abs(inside[missing].mean() - 0.95) < 0.03


def test_the_law_comes_back_too():
    _, gappy = record(n_times=40)
    filled, law = sl.fill(gappy, CALM.domain, 3, residual="white", return_law=True, **QUICK)
    assert law.n_modes == 3
    missing = gappy.isnull()
    law_says = law.reconstruct(gappy)["mean"].where(missing)
    np.testing.assert_allclose(filled["mean"].where(missing), law_says)


def test_a_gaussian_by_hand():
    """E[y*|y] of the law that was chosen, from the whole covariance of all values."""
    _, gappy = record(n_times=12, fraction=0.25)
    words = {"residual": "white", "observation_noise": 0.1, "mean": "zero", **QUICK}
    filled, law = sl.fill(gappy, CALM.domain, 2, return_law=True, **words)
    space, t = law.state_space, gappy["time"].values
    lam, q = np.asarray(space.linear.drift), np.asarray(space.linear.noise)
    over_time = (q / (2 * lam))[:, None, None] * np.exp(
        -lam[:, None, None] * np.abs(t[:, None] - t)
    )
    basis = law.domain.eigenfunctions(GRID, 2)
    cov = np.einsum("mi,ist,ni->smtn", basis, over_time, basis).reshape(156, 156)
    y = gappy.values.ravel()
    seen = np.isfinite(y)
    noisy = cov[np.ix_(seen, seen)] + 0.1**2 * np.eye(seen.sum())
    mean = cov[np.ix_(~seen, seen)] @ np.linalg.solve(noisy, y[seen])
    np.testing.assert_allclose(filled["mean"].values.ravel()[~seen], mean, rtol=0, atol=1e-8)


def test_what_is_held_out_is_never_seen(monkeypatch):
    """Neither by the law nor by the climatology."""
    _, gappy = record(n_paths=2)
    values = gappy.values
    held = hold_out(np.isfinite(values), GRID[:, None], 5)
    assert held.sum() > 50
    inputs, trained, real = [], [], selection_module.learn

    def watched(data, *others):
        inputs.append(data.fields.values)
        trained.append(real(data, *others))
        return trained[-1]

    monkeypatch.setattr(selection_module, "learn", watched)
    words = {"seed": 5, "prepare": sl.Preparation(anomalies="mean"), **QUICK}
    wrong = gappy.copy(data=np.where(held, values + 50.0, values))
    (first, law), (second, _) = (
        sl.fill(data, CALM.domain, 2, return_law=True, **words) for data in (gappy, wrong)
    )
    assert len(inputs) == 2
    assert np.isnan(inputs[0][held]).all()
    np.testing.assert_array_equal(inputs[0], inputs[1])
    assert second["held_out_rmse"][0] > 20 > first["held_out_rmse"][0]
    one, two = (law.preparation.coefficients for law in trained)
    np.testing.assert_array_equal(one, two)
    assert not np.allclose(one, law.preparation.coefficients, equal_nan=True)


def test_held_out_clouds_look_like_gaps():
    rng = np.random.default_rng(0)
    seen = np.ones((1, 200, 30), dtype=bool)
    for station in range(30):  # one outage of 20 times each
        start = rng.integers(0, 180)
        seen[0, start : start + 20, station] = False
    held = hold_out(seen, rng.uniform(size=(30, 2)), 1)
    assert not (held & ~seen).any()
    assert (held.sum(-1) <= 0.5 * seen.sum(-1)).all()
    runs = [len(r) for s in held[0].T for r in "".join("x" if h else " " for h in s).split()]
    assert np.median(runs) >= 10
    assert 0 < held.sum() < 0.2 * seen.sum()
    assert ((seen & ~held).sum(1) >= 2).all()


def test_few_outages_are_held_out_as_outages():
    """Half a percent missing at six of 60 stations: no row loses many values, as none has."""
    rng, seen = np.random.default_rng(1), np.ones((1, 400, 60), dtype=bool)
    for station in range(6):
        start = rng.integers(0, 380)
        seen[0, start : start + 20, station] = False
    held = hold_out(seen, rng.uniform(size=(60, 2)), 1)
    assert held.sum() >= 300
    assert held.sum(-1).max() <= 6
    assert not held[..., 6:].any()


def test_without_gaps_discs_are_held_out():
    points = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), -1).reshape(-1, 2)
    held = hold_out(np.ones((1, 40, 36), bool), points, 0)
    rows = held[0][held[0].any(1)]
    assert len(rows)
    for row in rows:  # the points that are held out are closer together than all are
        assert points[row].var() < points.var()
    whole = hold_out(np.ones((1, 40, 36), bool), points, 0, whole_points=True)
    assert (whole.all(1)).sum() == 4


def test_land_stays_missing_and_names_and_units_stay():
    full, gappy = map_of_sea()
    how = sl.Preparation(anomalies="mean")
    filled = sl.fill(gappy, prepare=how, n_modes=3, **QUICK)
    shown = filled["mean"].isel(path=0, drop=True)
    assert shown.dims == ("time", "lat", "lon")
    aligned = shown.sel(lat=full["lat"])
    np.testing.assert_array_equal(aligned["time"], full["time"])
    np.testing.assert_array_equal(aligned.isnull(), full.isnull())
    xr.testing.assert_allclose(aligned.where(gappy.notnull()), gappy, check_dim_order=False)
    error = (aligned - full).where(gappy.isnull())
    assert float(np.sqrt((error**2).mean())) < 0.35
    assert filled["mean"].attrs["units"] == "K"
    assert filled["std"].attrs["cell_methods"] == "realization: standard_deviation"
    assert "held out in the pattern of the gaps" in filled.attrs["chosen_by"]
    everywhere = sl.fill(gappy, prepare=how, n_modes=3, everywhere=True, **QUICK)
    assert int(everywhere["mean"].isnull().sum()) == 0
    land = everywhere["std"].isel(path=0).sel(lat=full["lat"]).where(full.isnull())
    assert int(land.count()) == int(full.isnull().sum())
    assert float(land.min()) > 0


def test_deviations_hold_and_modes_are_chosen():
    """2,000 and more missing values of the model: shares of 50, 80 and 95 % within wide limits."""
    full, gappy = record(n_paths=6, n_times=60, fraction=0.5, std=0.1)
    filled = sl.fill(gappy, CALM.domain, basis="domain", drift="diagonal")
    missing = gappy.isnull()
    z = (abs(filled["mean"] - full) / filled["std"]).where(missing)
    for level, limit in ((0.5, 0.674), (0.8, 1.2816), (0.95, 1.96)):
        inside = float((z < limit).where(missing).mean())
        assert abs(inside - level) < 0.08, (level, inside)
    crps = filled["held_out_crps"].values
    modes = [int(str(name).split()[0]) for name in filled["candidate"].values]
    assert modes[0] <= modes[int(np.nanargmin(crps))]
    assert (np.diff(crps[1:][np.isfinite(crps[1:])]) >= 0).all()
    assert filled.sizes["candidate"] >= 4
    error = float(np.sqrt(((filled["mean"] - full).where(missing) ** 2).mean()))
    assert error < 0.5 * float(full.std())


def test_no_time_is_reported():
    _, gappy = record()
    filled = sl.fill(gappy, CALM.domain, seconds=1e-3)
    notes = filled["candidate_note"].values
    assert any("exceeds the time limit" in note for note in notes)
    assert "as they exceed the time limit" in filled.attrs["chosen_by"]


@pytest.mark.parametrize(
    "settings",
    [
        {"n_modes": 0}, {"basis": "waves"}, {"drift": "steep"}, {"residual": "none"},
        {"seconds": -1}, {"forcing": 1}, {"nonsense": 1}, {"prepare": "month"},
        {"domain": "interval"},
    ],
)  # fmt: skip
def test_refusals(settings):
    _, gappy = record(n_times=10)
    with pytest.raises(InputError, match="expected"):
        sl.fill(gappy, **{"domain": CALM.domain, **settings})


def test_too_little_to_hold_out():
    _, gappy = record(n_times=3)
    with pytest.raises(DataError, match="enough values"):
        sl.fill(gappy.isel(time=slice(2), x=slice(4, 7)), CALM.domain, 2)
    with pytest.raises(InputError, match="coordinates to guess it from"):
        sl.fill(np.zeros((3, 4, 5)))
