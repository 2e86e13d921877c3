"""Laws on disk: the same bits back, or an error; never half a law, never code."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from tests.law.laws import NOISE, fields, law, nuisance_law, point_noise_law

import spdelaw as sl
from spdelaw.errors import FileError

LAWS = {
    "statistics": lambda: law(),
    "gaussian": lambda: law("gaussian"),
    "stationary": lambda: law("stationary"),
    "filter": lambda: law("bump", NOISE),
    "nuisance": nuisance_law,
    "noise of each point": point_noise_law,
}


def same_bits(one, other):
    assert np.asarray(one).dtype == np.asarray(other).dtype
    assert np.shape(one) == np.shape(other)
    assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def assert_same(one, other):
    assert one.parameters.identical(other.parameters)
    assert one.domain == other.domain
    assert (one.n_modes, one.unresolved_variance) == (other.n_modes, other.unresolved_variance)
    assert one.dynamics.name == other.dynamics.name
    assert one.dynamics.parameters.keys() == other.dynamics.parameters.keys()
    for key, value in one.dynamics.parameters.items():
        same_bits(value, other.dynamics.parameters[key])
    assert one.initial.kind == other.initial.kind
    for a, b in zip(one.initial[1:], other.initial[1:], strict=True):
        same_bits(a, b)
    same_bits(one.observation_variance, other.observation_variance)
    same_bits(one.times, other.times)
    same_bits(one.points, other.points)
    assert one.coordinates.identical(other.coordinates)
    assert (one.statistics is None) == (other.statistics is None)
    if one.statistics is not None:
        pairs = dataclasses.asdict(one.statistics), dataclasses.asdict(other.statistics)
        assert pairs[0].keys() == pairs[1].keys()
        for key, value in pairs[0].items():
            same_bits(value, pairs[1][key])
    assert one.info == other.info
    assert json.dumps(dict(one.info), sort_keys=True) == json.dumps(
        dict(other.info), sort_keys=True
    )


@pytest.mark.parametrize("name", LAWS)
def test_saved_and_loaded_is_the_same(name, tmp_path):
    some = LAWS[name]()
    some.save(tmp_path / "some.law")
    loaded = sl.load(tmp_path / "some.law")
    assert_same(loaded, some)
    assert repr(loaded) == repr(some)
    again = loaded.sample(2, seed=1)
    np.testing.assert_array_equal(again, some.sample(2, seed=1))


def test_a_loaded_law_can_be_updated(tmp_path):
    law().save(tmp_path / "some.law")
    more = fields(n_paths=10, seed=77)
    one = sl.update(sl.load(tmp_path / "some.law"), more)
    two = sl.update(law(), more)
    for name, table in two.parameters.items():
        # Loaded arrays lie elsewhere in memory, which changes the order of sums.
        np.testing.assert_allclose(one.parameters[name], table, rtol=1e-8, atol=1e-12)


def test_only_two_plain_files(tmp_path):
    law().save(tmp_path / "some.law")
    names = sorted(p.name for p in (tmp_path / "some.law").iterdir())
    assert names == ["arrays.safetensors", "law.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["some.law"]
    assert json.loads((tmp_path / "some.law" / "law.json").read_text())["schema"] == 3


def test_a_law_replaces_a_law_and_nothing_else(tmp_path):
    target = tmp_path / "some.law"
    law().save(target)
    law("gaussian").save(target)
    assert_same(sl.load(target), law("gaussian"))
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "data.txt").write_text("mine")
    with pytest.raises(FileError, match="choose another name"):
        law().save(folder)
    assert (folder / "data.txt").read_text() == "mine"
    with pytest.raises(FileError, match="folder"):
        law().save(tmp_path / "none" / "some.law")


@pytest.mark.parametrize("name", ["notes.txt", "figures/map.png", ".git/HEAD"])
def test_files_of_the_user_beside_a_law_are_never_removed(tmp_path, name):
    target = tmp_path / "some.law"
    law().save(target)
    (target / name).parent.mkdir(exist_ok=True)
    (target / name).write_text("mine")
    with pytest.raises(FileError, match="nothing was deleted"):
        law("gaussian").save(target)
    assert (target / name).read_text() == "mine"
    assert_same(sl.load(target), law())


@pytest.mark.parametrize("text", ['{"text": "the law of 1998"}', "not JSON", "[" * 100_000])
def test_a_file_of_the_same_name_does_not_make_a_directory_a_law(tmp_path, text):
    folder = tmp_path / "statutes"
    folder.mkdir()
    (folder / "law.json").write_text(text)
    with pytest.raises(FileError, match=r"law\.json"):
        law().save(folder)
    assert (folder / "law.json").read_text() == text


def test_a_failed_save_leaves_the_old_law(tmp_path, monkeypatch):
    target = tmp_path / "some.law"
    law().save(target)

    def broken(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr("spdelaw.law._store.save_file", broken)
    with pytest.raises(OSError, match="disk full"):
        law("gaussian").save(target)
    assert_same(sl.load(target), law())
    assert [p.name for p in tmp_path.iterdir()] == ["some.law"]


# -- damage ---------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    law().save(tmp_path / "some.law")
    return tmp_path / "some.law"


@pytest.mark.parametrize("name", ["law.json", "arrays.safetensors"])
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(saved, name, keep):
    data = (saved / name).read_bytes()
    (saved / name).write_bytes(data[: int(keep * len(data))])
    with pytest.raises(FileError, match="Fix:"):
        sl.load(saved)


@pytest.mark.parametrize("name", ["law.json", "arrays.safetensors"])
def test_a_missing_file_is_refused(saved, name):
    (saved / name).unlink()
    with pytest.raises(FileError, match="no law there"):
        sl.load(saved)


def test_nothing_there(tmp_path):
    with pytest.raises(FileError, match="no law there"):
        sl.load(tmp_path / "none.law")


@pytest.mark.parametrize("name", ["law.json", "arrays.safetensors"])
def test_a_flipped_bit_is_refused_or_harmless(saved, name):
    """Any bit of either file: the same law (white space of JSON), or an error."""
    data = (saved / name).read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for at in rng.integers(0, len(data), 60):
        broken = bytearray(data)
        broken[at] ^= 1 << int(rng.integers(8))
        (saved / name).write_bytes(bytes(broken))
        try:
            loaded = sl.load(saved)
        except FileError:
            refused += 1
        else:
            assert_same(loaded, law())
    assert refused > 30


@pytest.mark.parametrize(
    "change",
    [{"schema": 4}, {"schema": None}, {"schema": "1"}, {"domain": {"name": "torus"}},
     {"parameters": {"eigenvalue": ["mode", "colour"]}}, {"n_modes": "three"}],
)  # fmt: skip
def test_another_schema_or_content_is_refused(saved, change):
    document = json.loads((saved / "law.json").read_text())
    (saved / "law.json").write_text(json.dumps(document | change))
    with pytest.raises(FileError, match="Fix:"):
        sl.load(saved)


def test_a_newer_schema_says_so(saved):
    document = json.loads((saved / "law.json").read_text())
    (saved / "law.json").write_text(json.dumps(document | {"schema": 99}))
    with pytest.raises(FileError, match="update spdelaw"):
        sl.load(saved)


@pytest.mark.parametrize("text", ["[]", "null", "3", '"law"', "{}"])
def test_json_that_is_no_law(saved, text):
    (saved / "law.json").write_text(text)
    with pytest.raises(FileError):
        sl.load(saved)


@pytest.mark.parametrize("depth", [2_000, 200_000])
def test_json_nested_without_end_is_refused(saved, depth):
    (saved / "law.json").write_text('{"info": ' + "[" * depth + "]" * depth + "}")
    with pytest.raises(FileError, match="Fix:"):
        sl.load(saved)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("name", ["law.json", "arrays.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_device_is_refused_and_not_waited_for(saved, name, kind):
    (saved / name).unlink()
    if kind == "pipe":
        os.mkfifo(saved / name)
    else:
        (saved / name).symlink_to("/dev/zero")
    with pytest.raises(FileError, match=f"a regular file, got a {kind}"):
        sl.load(saved)


def test_loading_runs_no_code(saved, monkeypatch):
    """A pickle in place of the arrays is not opened as one."""
    import pickle

    class Trap:
        def __reduce__(self):
            return os.system, ("touch " + str(saved.parent / "trapped"),)

    (saved / "arrays.safetensors").write_bytes(pickle.dumps(Trap()))

    def forbidden(*args, **kwargs):
        raise AssertionError("unpickled")

    monkeypatch.setattr(pickle, "load", forbidden)
    monkeypatch.setattr(pickle, "loads", forbidden)
    with pytest.raises(FileError):
        sl.load(saved)
    assert not (saved.parent / "trapped").exists()


# -- kill -9 --------------------------------------------------------------------------

WRITER = """
    import sys
    import spdelaw as sl
    laws = [sl.load(sys.argv[1]), sl.load(sys.argv[2])]
    print("ready", flush=True)
    while True:
        for law in laws:
            law.save(sys.argv[3])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize("delay", [0.003, 0.02, 0.05])
def test_killed_while_saving_there_is_the_old_or_the_new(tmp_path, delay):
    one, two, target = (tmp_path / f"{name}.law" for name in ("one", "two", "target"))
    law().save(one)
    law("gaussian").save(two)
    law().save(target)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(one), str(two), str(target)],
        stdout=subprocess.PIPE, text=True,
    ) as writer:  # fmt: skip
        assert writer.stdout.readline() == "ready\n"
        time.sleep(delay)
        writer.kill()
    loaded = sl.load(target)
    assert_same(loaded, law() if loaded.initial.kind == "deterministic" else law("gaussian"))
    law().save(target)
    assert_same(sl.load(target), law())
