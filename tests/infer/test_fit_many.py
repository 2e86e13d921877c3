"""Many fits: the laws of single fits, saved as they come, and never made twice."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.errors import DataError, FileError, InputError, SpdeLawWarning

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
INTERVAL = sl.Interval(0, np.pi)
WORDS = {"initial": "deterministic", "observation_noise": "none", "mean": "zero"}


def member(seed):
    return sl.simulate(sl.catalogue.heat(n_modes=2), 10, seed=seed).isel(time=slice(0, 40, 4))


MEMBERS = {seed: member(seed) for seed in (3, 1, 2)}


def many(data, *args, **words):
    return sl.fit_many(data, INTERVAL, 2, *args, **WORDS, **words)


def test_laws_are_those_of_single_fits_in_the_order_of_the_data():
    laws = many(MEMBERS)
    assert list(laws) == [3, 1, 2]
    for seed, law in laws.items():
        one = sl.fit(MEMBERS[seed], INTERVAL, 2, **WORDS)
        xr.testing.assert_identical(law.parameters, one.parameters)


def test_along_a_dim_and_in_threads():
    whole = xr.concat([MEMBERS[seed] for seed in MEMBERS], "member").assign_coords(
        member=list("abc")
    )
    with ThreadPoolExecutor(2) as executor:
        laws = many(whole, over="member", executor=executor)
    assert list(laws) == ["a", "b", "c"]
    np.testing.assert_array_equal(laws["b"].linear.drift, many({1: MEMBERS[1]})[1].linear.drift)


def test_an_interrupted_call_goes_on_where_it_stopped(tmp_path, monkeypatch):
    folder, told = tmp_path / "laws", []

    def stop(done, total):
        told.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        many(MEMBERS, directory=folder, batch=1, progress=stop)
    assert told == [(0, 3), (1, 3), (2, 3)]
    made = []
    fit = sl.infer._fit_many.fit
    monkeypatch.setattr(
        sl.infer._fit_many, "fit", lambda data, **words: made.append(1) or fit(data, **words)
    )
    laws = many(MEMBERS, directory=folder, batch=1)
    assert len(made) == 1
    again = many(MEMBERS, directory=folder)
    assert len(made) == 1
    for seed in MEMBERS:
        xr.testing.assert_equal(laws[seed].parameters, again[seed].parameters)


def test_other_data_under_a_known_label_are_fitted_again(tmp_path):
    one = many({"a": MEMBERS[1]}, directory=tmp_path)["a"]
    two = many({"a": MEMBERS[2]}, directory=tmp_path)["a"]
    assert not np.array_equal(one.linear.drift, two.linear.drift)


def test_a_directory_of_another_question_is_refused(tmp_path):
    many({"a": MEMBERS[1]}, directory=tmp_path)
    with pytest.raises(InputError, match="another question"):
        sl.fit_many({"a": MEMBERS[1]}, INTERVAL, 1, directory=tmp_path, **WORDS)
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
