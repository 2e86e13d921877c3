"""Laws on disk: the same bits back, or an error; never half a law, never code."""

import dataclasses
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.law.laws import NOISE, fields, law, nuisance_law, point_noise_law

import spdelaw as sl
from spdelaw.data.io.records import sealed
from spdelaw.errors import FileError, SpdeLawError
from spdelaw.law import io as io_module

LAWS = {
    "statistics": lambda: law(),
    "gaussian": lambda: law("gaussian"),
    "stationary": lambda: law("stationary"),
    "filter": lambda: law("bump", NOISE),
    "nuisance": nuisance_law,
    "noise of each point": point_noise_law,
}


def slow(*values):
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def same_bits(one, other):
    assert np.asarray(one).dtype == np.asarray(other).dtype
    assert np.shape(one) == np.shape(other)
    assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def assert_same(one, other):
    assert one.parameters.identical(other.parameters)
    assert one.coordinates.identical(other.coordinates)
    assert (one.domain, one.info, repr(one)) == (other.domain, other.info, repr(other))
    assert (one.n_modes, one.unresolved_variance) == (other.n_modes, other.unresolved_variance)
    assert (one.statistics is None) == (other.statistics is None)
    assert (one.dynamics.name, one.initial.kind) == (other.dynamics.name, other.initial.kind)
    a, b = (
        {
            **some.dynamics.parameters,
            **some.initial._asdict(),
            **(dataclasses.asdict(some.statistics) if some.statistics else {}),
            "r": some.observation_variance,
            "t": some.times,
            "x": some.points,
        }
        for some in (one, other)
    )
    assert a.keys() == b.keys()
    for key, value in a.items():
        same_bits(value, b[key])
    texts = [json.dumps(dict(some.info), sort_keys=True) for some in (one, other)]
    assert texts[0] == texts[1]


@pytest.fixture
def saved(tmp_path):
    law().save(tmp_path / "some.law")
    return tmp_path / "some.law"


@pytest.mark.parametrize("name", LAWS)
def test_saved_and_loaded_is_the_same(name, tmp_path):
    some = LAWS[name]()
    some.save(tmp_path / "some.law")
    loaded = sl.load(tmp_path / "some.law")
    assert_same(loaded, some)
    np.testing.assert_array_equal(loaded.sample(2, seed=1), some.sample(2, seed=1))


def test_a_loaded_law_can_be_updated(saved):
    more = fields(n_paths=10, seed=77)
    one, two = sl.update(sl.load(saved), more), sl.update(law(), more)
    for name, table in two.parameters.items():
        # Loaded arrays lie elsewhere in memory, which changes the order of sums.
        np.testing.assert_allclose(one.parameters[name], table, rtol=1e-8, atol=1e-12)


def test_only_two_plain_files(saved):
    assert sorted(p.name for p in saved.iterdir()) == ["arrays.safetensors", "law.json"]
    assert [p.name for p in saved.parent.iterdir()] == ["some.law"]
    assert json.loads((saved / "law.json").read_text())["schema"] == 3


def test_a_law_replaces_a_law_and_nothing_else(tmp_path):
    target = tmp_path / "some.law"
    law().save(target)
    with pytest.raises(FileError, match="overwrite=True"):
        law("gaussian").save(target)
    assert_same(sl.load(target), law())
    law("gaussian").save(target, overwrite=True)
    assert_same(sl.load(target), law("gaussian"))
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "data.txt").write_text("mine")
    with pytest.raises(FileError, match="choose another name"):
        law().save(folder)
    assert (folder / "data.txt").read_text() == "mine"
    with pytest.raises(FileError, match="folder"):
        law().save(tmp_path / "none" / "some.law")


def test_arrays_of_another_program_are_not_replaced(tmp_path):
    theirs = tmp_path / "model" / "arrays.safetensors"
    theirs.parent.mkdir()
    theirs.write_bytes(b"weights")
    with pytest.raises(FileError):
        law().save(theirs.parent, overwrite=True)
    assert theirs.read_bytes() == b"weights"


@pytest.mark.parametrize("name", ["notes.txt", ".git/HEAD"])
def test_files_of_the_user_beside_a_law_are_never_removed(saved, name):
    (saved / name).parent.mkdir(exist_ok=True)
    (saved / name).write_text("mine")
    with pytest.raises(FileError, match="nothing was deleted"):
        law("gaussian").save(saved)
    assert (saved / name).read_text() == "mine"
    assert_same(sl.load(saved), law())


@pytest.mark.parametrize("text", ['{"text": "the law of 1998"}', "not JSON", "[" * 100_000])
def test_a_file_of_the_same_name_does_not_make_a_directory_a_law(tmp_path, text):
    (tmp_path / "law.json").write_text(text)
    with pytest.raises(FileError, match=r"law\.json"):
        law().save(tmp_path)
    assert (tmp_path / "law.json").read_text() == text


def test_a_failed_save_leaves_the_old_law(saved, monkeypatch):
    def broken(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(io_module, "write_record", broken)
    with pytest.raises(FileError, match="disk full"):
        law("gaussian").save(saved, overwrite=True)
    assert_same(sl.load(saved), law())
    assert [p.name for p in saved.parent.iterdir()] == ["some.law"]


# -- damage ---------------------------------------------------------------------------


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


def cut(keep):
    return lambda path: path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def entry(**change):
    """Other entries, with the checksum made right."""

    def forge(path):
        document = json.loads(path.read_text()) | change
        path.write_bytes(sealed(document, (path.parent / ARRAYS).read_bytes()))

    return forge


DOCUMENT, ARRAYS = "law.json", "arrays.safetensors"
DEEP = '{"info": ' + "[" * 200_000 + "]" * 200_000 + "}"
DAMAGE = [
    *((name, Path.unlink, "none of this name") for name in (DOCUMENT, ARRAYS)),
    *((name, cut(keep), "Fix:") for name in (DOCUMENT, ARRAYS) for keep in (0.0, 0.3, 0.999)),
    *((name, pipe, "a regular file, got a pipe") for name in (DOCUMENT, ARRAYS)),
    *((name, device, "a regular file, got a device") for name in (DOCUMENT, ARRAYS)),
    *((DOCUMENT, entry(schema=schema), "Fix:") for schema in (4, None, "1", 1, 2, True)),
    (DOCUMENT, entry(schema=99), "update spdelaw"),
    (DOCUMENT, entry(domain={"name": "torus"}), "Fix:"),
    (DOCUMENT, entry(parameters={"eigenvalue": ["mode", "colour"]}), "Fix:"),
    (DOCUMENT, entry(n_modes="three"), "Fix:"),
    *((DOCUMENT, partial(Path.write_text, data=x), "Fix:") for x in ("[]", "null", "{}", DEEP)),
]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize(("name", "damage", "word"), DAMAGE)
def test_a_damaged_law_is_refused(saved, name, damage, word):
    damage(saved / name)
    with pytest.raises(SpdeLawError, match=word):
        sl.load(saved)


def test_loading_runs_no_code(saved, monkeypatch):
    """A pickle in place of the arrays is not opened as one."""

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
            law.save(sys.argv[3], overwrite=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize("delay", [0.02, *slow(0.003, 0.05)])
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
    law().save(target, overwrite=True)
    assert_same(sl.load(target), law())
