"""Many fits: the laws of single fits, saved as they come, and never made twice."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.errors import DataError, FileError, InputError, SpdeLawWarning
from spdelaw.infer import many as many_module

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
INTERVAL = sl.Interval(0, np.pi)
WORDS = {"initial": "deterministic", "observation_noise": "none", "mean": "zero"}
HEAT = sl.catalogue.heat(n_modes=2)
MEMBERS = {seed: sl.simulate(HEAT, 10, seed=seed).isel(time=slice(0, 40, 4)) for seed in (3, 1, 2)}


def many(data, n_modes=2, **words):
    return sl.fit_many(data, INTERVAL, n_modes, **WORDS, **words)


def test_laws_are_those_of_single_fits_in_the_order_of_the_data():
    whole = xr.concat(list(MEMBERS.values()), "member").assign_coords(member=list("abc"))
    laws = many(MEMBERS)
    with ThreadPoolExecutor(2) as executor:
        along = many(whole, over="member", executor=executor)
    assert (list(laws), list(along)) == ([3, 1, 2], ["a", "b", "c"])
    for (seed, law), other in zip(laws.items(), along.values(), strict=True):
        one = sl.fit(MEMBERS[seed], INTERVAL, 2, **WORDS)
        xr.testing.assert_identical(law.parameters, one.parameters)
        np.testing.assert_array_equal(other.linear.drift, one.linear.drift)


def test_an_interrupted_call_goes_on_where_it_stopped(tmp_path, monkeypatch):
    folder, states, made, fit = tmp_path / "laws", [], [], many_module.fit

    def stop(done, total):
        states.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        many(MEMBERS, directory=folder, batch=1, progress=stop)
    assert states == [(0, 3), (1, 3), (2, 3)]
    monkeypatch.setattr(
        many_module, "fit", lambda data, **words: made.append(1) or fit(data, **words)
    )
    laws, again = many(MEMBERS, directory=folder, batch=1), many(MEMBERS, directory=folder)
    assert len(made) == 1
    for seed in MEMBERS:
        xr.testing.assert_equal(laws[seed].parameters, again[seed].parameters)


def test_a_directory_knows_its_data_and_its_question(tmp_path):
    one, two = (many({"a": MEMBERS[seed]}, directory=tmp_path)["a"] for seed in (1, 2))
    assert not np.array_equal(one.linear.drift, two.linear.drift)  # other data are fitted again
    with pytest.raises(InputError, match="other settings"):
        many({"a": MEMBERS[1]}, 1, directory=tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(FileError, match="manifest"):
        many({"a": MEMBERS[1]}, directory=tmp_path)


def test_what_has_no_law_is_named_and_left_out(tmp_path):
    still = xr.ones_like(MEMBERS[1])
    with pytest.warns(SpdeLawWarning, match="1 of 2 data sets have no law, such as 'still'"):
        laws = many({"still": still, "moving": MEMBERS[1]}, directory=tmp_path)
    assert list(laws) == ["moving"]
    assert list(json.loads((tmp_path / "manifest.json").read_text())["laws"]) == ["moving"]
    with pytest.raises(DataError, match="change over time"):
        many({"still": still})


@pytest.mark.parametrize(("data", "over"), [({}, None), (MEMBERS[1], None), (MEMBERS[1], "lead")])
def test_data_without_labels_are_refused(data, over):
    with pytest.raises(InputError, match="data sets by label"):
        many(data, over=over)
