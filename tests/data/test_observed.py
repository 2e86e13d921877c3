"""Observed data: one type from the door to the last result, canonical and prepared once."""

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.data import Observed, Prepared, _contract, _observed, observe, observed_fields
from spdelaw.errors import DomainError, InputError

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.SpdeLawWarning")
BOX = sl.Box((0.0, 3.0), (0.0, 2.0), boundary="neumann")


def on_a_grid(n_paths: int = 3) -> xr.DataArray:
    """Fields (path, time, x, y) with a land point and single gaps."""
    draw = np.random.default_rng(0).standard_normal((n_paths, 6, 4, 3))
    draw[np.random.default_rng(1).uniform(size=draw.shape) < 0.1] = np.nan
    draw[:, :, 1, 2] = np.nan
    dims = ("path", "time", "x", "y")
    coords = {"x": np.linspace(0.2, 2.8, 4), "y": np.linspace(0.1, 1.9, 3), "time": np.arange(6.0)}
    return sl.as_fields(xr.DataArray(draw, coords, dims, "u", {"units": "K"}), dims=("x", "y"))


def own_times() -> xr.DataArray:
    """Two paths on clocks of their own, of which one joins later and one ends earlier."""
    clock = np.array([[0.0, 0.3, 0.7, 1.0], [0.2, 0.5, 0.9, np.nan]])
    values = np.random.default_rng(2).standard_normal((2, 4, 5))
    values[1, -1] = np.nan
    return sl.as_fields(values, times=clock, points=np.linspace(0.3, 2.8, 5))


def test_labels_come_back_as_they_went_in():
    fields = on_a_grid()
    own = observe(fields, BOX)
    assert own.values.shape == (3, 6, 12)
    xr.testing.assert_identical(own.labelled, fields)
    xr.testing.assert_identical(own.where_seen().labelled, fields)  # land is a hole again


@pytest.mark.parametrize("data", [on_a_grid(), own_times()], ids=["grid", "own times"])
def test_observed_data_are_data(data):
    """Every method of a law says of them what it says of the fields they were made from."""
    domain = BOX if "y" in data.dims else sl.Interval(0, np.pi)
    law = sl.fit(data, domain, 2, nuisance=0, mean="zero", observation_noise=0.5)
    own = law.observe(data)
    assert isinstance(own, Observed)
    for method in (law.reconstruct, law.log_likelihood, lambda x: law.forecast(x, [2.0, 9.0])):
        xr.testing.assert_identical(method(own), method(data))
    again = sl.fit(own, domain, 2, nuisance=0, mean="zero", observation_noise=0.5)
    xr.testing.assert_identical(again.parameters, law.parameters)
    assert sl.evaluate(law, own).to_dict() == sl.evaluate(law, data).to_dict()


def test_what_is_never_seen_is_dropped_once_and_comes_back_as_nan():
    fields = on_a_grid()
    law = sl.fit(fields, BOX, 2, nuisance=0, mean="zero")
    sea = observe(fields, BOX).at_seen_points()
    assert len(law.points) == len(sea.points) == 11
    found = law.reconstruct(fields)["mean"]
    assert np.isnan(found.values[:, :, 1, 2]).all()
    assert int(found.isnull().sum()) == 3 * 6
    everywhere = law.reconstruct(fields, grid=(fields.x.values, fields.y.values))["mean"]
    assert not everywhere.isnull().any()
    np.testing.assert_allclose(everywhere.where(found.notnull()), found, rtol=1e-12, atol=1e-14)


def test_scores_of_a_grid_with_land_are_those_of_its_sea():
    """So is the check of the model; rows that nobody sees change nothing either."""
    fields = on_a_grid(8)
    later = fields.isel(time=[5]).assign_coords(time=[7.5]) * np.nan
    padded = xr.concat([fields, later], "time")
    law = sl.fit(fields, BOX, 2, nuisance=0, mean="zero", observation_noise="estimate")
    own = observe(fields, BOX).at_seen_points().flat
    expected = sl.evaluate(law, own).to_dict()
    assert sl.evaluate(law, fields).to_dict() == expected
    assert sl.evaluate(law, padded).to_dict() == expected


def test_rows_say_where_the_fields_are():
    fields = own_times()
    own = observe(fields, sl.Interval(0, np.pi))
    assert own.values.shape == (2, 5, 5)  # a row in front of the path that joins later
    np.testing.assert_array_equal(own.times[:, 0], [0.0, 0.0])
    back = np.take_along_axis(own.values, own.rows[..., None], axis=1)
    np.testing.assert_array_equal(back, fields.values)


def test_parts_keep_values_and_labels_together():
    own = observe(on_a_grid(), BOX)
    some = own.paths([2, 0]).at_times(slice(1, 4)).at_points(np.arange(12) != 5)
    np.testing.assert_array_equal(some.values, some.fields.values)
    np.testing.assert_array_equal(some.values, np.delete(own.values[[2, 0], 1:4], 5, axis=-1))
    shift = np.arange(6.0)[:, None] + np.arange(12.0)
    less = own.less(shift)
    np.testing.assert_array_equal(less.values, own.values - shift)
    np.testing.assert_array_equal(less.fields.values, less.values)


def test_lazy_data_are_not_read_at_the_door():
    def refuse(block):
        raise AssertionError("read")

    fields = on_a_grid().chunk(path=1, time=3)
    lazy = fields.copy(
        data=fields.data.map_blocks(refuse, dtype=float, meta=np.zeros((0, 0, 0, 0)))
    )
    assert observed_fields(lazy.isel(x=[0, 2, 3]), BOX).is_lazy
    own = observe(fields, BOX)
    assert own.is_lazy
    assert len(list(own.blocks())) == 3
    xr.testing.assert_identical(own.labelled.compute(), on_a_grid())
    np.testing.assert_array_equal(own.in_memory().values, observe(on_a_grid(), BOX).values)


def test_one_call_looks_at_the_values_and_prepares_them_once(monkeypatch):
    """None of it where the data were observed before."""
    calls = {"check_values": 0, "apply": 0}

    def counted(name, function):
        def call(*args, **words):
            calls[name] += 1
            return function(*args, **words)

        return call

    monkeypatch.setattr(_contract, "check_values", counted("check_values", _contract.check_values))
    monkeypatch.setattr(_observed, "check_values", counted("check_values", _observed.check_values))
    monkeypatch.setattr(Prepared, "apply", counted("apply", Prepared.apply))
    raw = sl.datasets.equatorial_pacific().isel(longitude=slice(None, None, 16))
    how = sl.Preparation(average="latitude", rename={"longitude": "x"}, anomalies="month")
    domain = sl.Interval(float(raw.longitude[0]), float(raw.longitude[-1]), boundary="neumann")
    law = sl.fit(raw, domain, 2, prepare=how)
    assert calls == {"check_values": 1, "apply": 0}  # it is learned and applied at once
    for ask in (law.reconstruct, lambda data: sl.evaluate(law, data)):
        calls.update(check_values=0, apply=0)
        ask(raw)
        assert calls == {"check_values": 1, "apply": 1}
        own = law.observe(raw)
        calls.update(check_values=0, apply=0)
        ask(own)
        assert calls == {"check_values": 0, "apply": 0}


def test_prepared_once_and_known_again():
    raw = sl.datasets.equatorial_pacific()
    how = sl.Preparation(average="latitude", rename={"longitude": "x"}, anomalies="month",
                         coarsen={"x": 16})  # fmt: skip
    domain = sl.Interval(float(raw.longitude[0]), float(raw.longitude[-1]), boundary="neumann")
    law = sl.fit(raw, domain, 2, prepare=how)
    own = observe(raw, domain, how)
    same = sl.fit(own, domain, 2)
    xr.testing.assert_identical(same.parameters, law.parameters)
    assert same.info["preparation"] == law.info["preparation"]
    xr.testing.assert_allclose(same.forecast(own, steps=2), law.forecast(raw, steps=2))
    plain = observe(own.labelled, domain)
    with pytest.raises(InputError, match="pass the raw data"):
        law.reconstruct(plain)
    with pytest.raises(InputError, match="prepared otherwise"):
        sl.fit(own, domain, 2, prepare=sl.Preparation(anomalies="mean"))
    with pytest.raises(DomainError, match="Fix:"):
        law.reconstruct(observe(on_a_grid(), BOX))
