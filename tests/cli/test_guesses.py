"""Names, dims, boundaries and units that are guessed from a file."""

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.data.recognise import guess_side, guess_unit, recognise
from spdelaw.errors import DataError


def layout(dims, sizes=None, attrs=None, name="u"):
    shape = [(sizes or {}).get(d, 4) for d in dims]
    coords = {d: (d, np.arange(float(n)), (attrs or {}).get(d, {}))
              for d, n in zip(dims, shape, strict=True)}  # fmt: skip
    return xr.Dataset({name: (dims, np.zeros(shape))}, coords=coords)


BOX, NORTH = ("x", "y", "z"), {"j": {"units": "degrees_north"}}
DEGREES_N = {"j": {"units": "degreesN"}}  # one of the six spellings of CF
LAYOUTS = [
    (layout(("time", "x")), ("x",), {}, ()),
    (layout(("t", "s")), ("x",), {"t": "time", "s": "x"}, ()),
    (layout(("member", "time", "lon")), ("x",), {"member": "path", "lon": "x"}, ()),
    (layout(("a", "b"), attrs={"a": {"axis": "T"}}), ("x",), {"a": "time", "b": "x"}, ()),
    (layout(("time", "depth", "lon"), {"depth": 1}), ("x",), {"lon": "x"}, ("depth",)),
    (layout(("time", "lat", "lon")), ("x",), {"lon": "x"}, ("lat",)),
    (layout(("time", "j", "i"), attrs=NORTH), ("x",), {"i": "x"}, ("j",)),
    (layout(("time", "j", "i"), attrs=DEGREES_N), ("x",), {"i": "x"}, ("j",)),
    (layout(("time", "y", "x")), BOX, {}, ()),
    (layout(("time", "b", "a")), BOX, {"b": "x", "a": "y"}, ()),
    (layout(("time", "c", "b", "a")), BOX, {"c": "x", "b": "y", "a": "z"}, ()),
    (layout(("time", "lat", "lon")), ("x", "y"), {"lon": "x", "lat": "y"}, ()),
    (layout(("t", "lon", "lat")), ("lat", "lon"), {"t": "time"}, ()),
]


@pytest.mark.parametrize(("dataset", "dims", "rename", "average"), LAYOUTS)
def test_layout(dataset, dims, rename, average):
    if "time" in dataset:  # bounds are no field
        dataset["time_bnds"] = (("time", "nv"), np.zeros((4, 2)))
        dataset["time"].attrs["bounds"] = "time_bnds"
    how = recognise(dataset, dims=dims).preparation
    assert (how.variable, dict(how.rename), how.average) == ("u", rename, average)


def test_layouts_that_cannot_be_guessed():
    for dataset, message in (
        (layout(("a", "b")), "one field over time"),
        (layout(("time", "y", "x")), "one spatial dim"),
        (layout(("time",)), "over time alone"),
        (xr.Dataset(), "one field over time"),
    ):
        with pytest.raises(DataError, match=message):
            recognise(dataset, dims=("x",))


def test_boundary():
    lon = np.arange(0.0, 360.0, 10.0)
    around = sl.as_fields(np.ones((3, 36)), times=[0, 1, 2], points=lon)
    around["x"].attrs["units"] = "degrees_east"
    assert guess_side(around)[:2] == ("periodic", (0.0, 360.0))
    x = np.linspace(0, np.pi, 9)
    pinned = sl.as_fields(np.tile(np.sin(x), (3, 1)), times=[0, 1, 2], points=x)
    assert guess_side(pinned)[0] == "dirichlet"
    free = sl.as_fields(np.tile(np.cos(x), (3, 1)), times=[0, 1, 2], points=x)
    assert guess_side(free)[:2] == ("neumann", (0.0, np.pi))
    with pytest.raises(DataError, match="at least two points"):
        guess_side(free.isel(x=[0]))


def test_unit_follows_the_step():
    start = np.datetime64("2000-01-01", "ns")
    for step, unit in (("30D", "days"), ("1h", "hours"), ("10s", "seconds")):
        n, code = int(step[:-1]), step[-1]
        assert guess_unit(start + np.arange(4) * np.timedelta64(n, code)) == unit
