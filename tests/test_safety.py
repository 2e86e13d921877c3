"""No data lost, no wrong law loaded, no file read that should not be: attacks by number."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path

import h5netcdf
import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from benchmarks import _odd_data

import spdelaw as sl
from spdelaw.data.io.files import has_fields, read_dataset
from spdelaw.data.io.records import content_digest, sealed
from spdelaw.data.io.safe_files import read_regular
from spdelaw.errors import DataError, FileError, SpdeLawError, SpdeLawWarning

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
HEAT = sl.catalogue.heat(n_modes=2)
TIMES, GRID = np.linspace(0.0, 1.0, 6), np.linspace(0.0, np.pi, 9)
WORDS = {"initial": "deterministic", "observation_noise": "none", "mean": "zero"}


def heat(seed=0, n_paths=10):
    return sl.simulate(HEAT, n_paths, TIMES, GRID, seed=seed)


@pytest.fixture(scope="module")
def laws():
    return [sl.fit(heat(seed), HEAT.domain, 2, **WORDS) for seed in (0, 1)]


def many(data, folder, **words):
    return sl.fit_many(data, HEAT.domain, 2, directory=folder, **WORDS | words)


def forge(path, change, arrays=b""):
    """Change a document and make its checksum right."""
    document = json.loads(path.read_text())
    change(document)
    path.write_bytes(sealed(document, arrays))


# -- 1: the directory of fit_many -----------------------------------------------------


def test_1_other_times_points_or_labels_are_other_data(tmp_path):
    """At db23711 the digest covered the values only: times ten times as long gave the old law."""
    data = heat()
    slow = data.assign_coords(time=data.time * 10)
    fast_law, slow_law = (many({"a": x}, tmp_path)["a"] for x in (data, slow))
    np.testing.assert_allclose(slow_law.linear.drift * 10, fast_law.linear.drift, rtol=1e-6)
    digests = {content_digest(x) for x in (data, slow, data.assign_coords(x=data.x / 2),
               data.assign_coords(path=data.path + 1), data.rename("v"))}  # fmt: skip
    assert len(digests) >= 4


def test_1_settings_count_by_content(tmp_path):
    """NumPy shortens the text of a long array."""
    known = np.linspace(0.5, 1.0, 3000)
    other = known.copy()
    other[1500] += 1e-6
    assert repr(known) == repr(other)
    assert content_digest({"forcing": known}) != content_digest({"forcing": other})
    assert content_digest(sl.Interval(0, 1)) != content_digest(sl.Interval(0, 2))
    assert content_digest({"b": 1, "a": (2, "x")}) == content_digest({"a": (2, "x"), "b": 1})


@pytest.mark.parametrize("damage", ["law.json", "arrays.safetensors", "gone", "another"])
def test_1_a_damaged_entry_is_fitted_again(tmp_path, damage):
    sets = {"a": heat(0), "b": heat(1)}
    before = many(sets, tmp_path)
    one, two = sorted(tmp_path.glob("*.law"))
    if damage in ("gone", "another"):
        shutil.rmtree(one)
    if damage == "another":
        shutil.copytree(two, one)
    if damage in ("law.json", "arrays.safetensors"):
        content = bytearray((one / damage).read_bytes())
        content[len(content) // 2] ^= 1
        (one / damage).write_bytes(bytes(content))
    with pytest.warns(SpdeLawWarning, match="is damaged and is fitted again"):
        after = many(sets, tmp_path)
    for label in sets:
        xr.testing.assert_equal(after[label].parameters, before[label].parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SpdeLawWarning)
        many(sets, tmp_path)


MANIFESTS = {
    "number": lambda d: d.update(laws=3),
    "entry": lambda d: d["laws"].update(a=["x"]),
    "no data": lambda d: d["laws"]["a"].pop("data"),
    "elsewhere": lambda d: d["laws"]["a"].update(file="../elsewhere.law"),
    "no question": lambda d: d.pop("question"),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_1_a_forged_manifest_is_refused_or_harmless(tmp_path, kind, laws):
    laws[1].save(tmp_path / "elsewhere.law")
    folder = tmp_path / "laws"
    before = many({"a": heat()}, folder)["a"]
    forge(folder / "manifest.json", MANIFESTS[kind])
    try:
        after = many({"a": heat()}, folder)["a"]
    except SpdeLawError:
        return
    xr.testing.assert_equal(after.parameters, before.parameters)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"laws": {}}', '{"question": 1, "laws": {}}', "é"]
)
def test_1_a_manifest_of_something_else_is_refused(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(FileError, match="manifest"):
        many({"a": heat()}, tmp_path)
    assert (tmp_path / "manifest.json").read_text() == text


# -- 2: a law that is replaced while it is read ---------------------------------------


def test_2_a_law_beside_a_writer_is_one_of_both(tmp_path, laws):
    """Numbers and provenance of one law; at db23711 2 of 439 loads mixed two, 12 were refused."""
    target, marked = tmp_path / "a.law", []
    for i, law in enumerate(laws):
        marked.append(law.with_info(mark=i))
    marked[0].save(target)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            for law in marked:
                law.save(target, overwrite=True)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(60):
            law = sl.load(target)
            one = marked[law.info["mark"]]
            np.testing.assert_array_equal(law.linear.drift, one.linear.drift)
    finally:
        stop.set()
        writer.join()


def test_2_the_arrays_that_were_checked_are_those_that_are_parsed(tmp_path, laws, monkeypatch):
    """Each file of a law is opened once."""
    laws[0].save(tmp_path / "a.law")
    opened = []
    original = os.open

    def counted(path, *more, **words):
        opened.append(os.path.basename(path))
        return original(path, *more, **words)

    monkeypatch.setattr(os, "open", counted)
    monkeypatch.setattr(
        "builtins.open", lambda *a, _open=open, **k: opened.append(str(a[0])) or _open(*a, **k)
    )
    sl.load(tmp_path / "a.law")
    for name in ("law.json", "arrays.safetensors"):
        assert sum(str(o).endswith(name) for o in opened) == 1


# -- 3: checkpoints of trainings ------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "a"
    train(folder, 2)
    return folder


def train(folder, epochs):
    return sl.fit(heat(n_paths=20), HEAT.domain, 2, engine="amortized", preset="structured",
                  epochs=epochs, checkpoint=folder, checkpoint_every=1, n_time=3)  # fmt: skip


@pytest.mark.parametrize("name", ["run.json", "state.safetensors"])
def test_3_a_flipped_bit_in_a_checkpoint_is_refused(checkpoint, tmp_path, name):
    """At db23711 two flipped bits gave another law without a message."""
    folder, rng = tmp_path / "a", np.random.default_rng(0)
    shutil.copytree(checkpoint, folder)
    content = (checkpoint / name).read_bytes()
    values = [i for i in range(len(content)) if not chr(content[i]).isspace()]
    for at in rng.choice(values, 12, replace=False):
        damaged = bytearray(content)
        damaged[at] ^= 1 << int(rng.integers(7))
        (folder / name).write_bytes(bytes(damaged))
        with pytest.raises(FileError, match="checkpoint"):
            train(folder, 2)


FORGED = {
    "epoch": lambda d: d.update(epoch=5000),
    "text": lambda d: d.update(epoch="2"),
    "history": lambda d: d.update(history=[[1, 2]]),
    "best": lambda d: d.update(best_epoch=9),
    "identity": lambda d: d.update(identity=3),
    "config": lambda d: d["identity"].update(config=3.0),
}


@pytest.mark.parametrize("kind", FORGED)
def test_3_a_forged_checkpoint_is_refused(checkpoint, tmp_path, kind):
    folder = tmp_path / "a"
    shutil.copytree(checkpoint, folder)
    forge(folder / "run.json", FORGED[kind], (folder / "state.safetensors").read_bytes())
    with pytest.raises(SpdeLawError):
        train(folder, 2)


# -- 4: a full disk -------------------------------------------------------------------

FULL_DISK = """
    import os, resource, signal, sys
    import numpy as np, spdelaw as sl
    os.chdir(sys.argv[1])
    kind, limit = sys.argv[2], int(sys.argv[3])
    heat = sl.catalogue.heat(n_modes=8)
    data = sl.simulate(heat, 200, np.linspace(0, 1, 51), np.linspace(0, np.pi, 33), seed=0)
    small = data[:3, ::10]
    old = small if kind != "law" else sl.fit(small, heat.domain, 2, mean="zero")
    new = data if kind != "law" else sl.fit(data, heat.domain, 8, mean="zero")
    write = sl.write if kind != "law" else lambda law, path: law.save(path, overwrite=True)
    write(old, f"a.{kind}")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    for _ in range(2):
        try:
            write(new, f"a.{kind}")
            print("written")
        except sl.errors.FileError as error:
            print("refused", len(str(error).splitlines()), error.got)
    back = sl.load("a.law").parameters if kind == "law" else sl.read(f"a.{kind}")
    print("same" if back.equals(old.parameters if kind == "law" else old) else "lost")
    print(sorted(os.listdir(".")))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of the size of files")
@pytest.mark.parametrize(("kind", "limit"), [("nc", 300_000), ("zarr", 100_000), ("law", 3000)])
def test_4_a_full_disk_keeps_the_old_file_and_the_process(tmp_path, kind, limit):
    """A limit on the size of files fails like a full disk; at db23711 the process died."""
    if kind == "zarr":
        pytest.importorskip("zarr")
    words = [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(tmp_path), kind, str(limit)]
    run = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    *refusals, same, files = run.stdout.splitlines()
    assert [line.startswith("refused 1 ") for line in refusals] == [True, True], run.stdout
    assert "too large" in refusals[0]
    assert (same, files) == ("same", f"['a.{kind}']")


# -- 5: only regular files and directories that we wrote are replaced -----------------


def pipe(path):
    os.mkfifo(path)


def device(path):
    """A link to a device made for the test: code that fails replaces it, so never a real one."""
    made = path.parent / "device"
    try:
        os.mknod(made, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except FileExistsError:
        pass
    except PermissionError:
        pytest.skip("needs the right to make a device")
    path.symlink_to(made)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("make", [pipe, device])
def test_5_pipes_and_devices_are_not_replaced(tmp_path, make, laws, shell):
    for name in ("a.nc", "a.html", "a.png"):
        make(tmp_path / name)
    with pytest.raises(FileError, match="regular file"):
        sl.write(heat(), tmp_path / "a.nc")
    with pytest.raises(FileError, match="regular file"):
        sl.report.write_report(tmp_path / "a.html", laws[0], heat())
    laws[0].save(tmp_path / "a.law")
    code, _, err = shell("sample", tmp_path / "a.law", "--out", tmp_path / "a.nc", "--force")
    assert (code, "Traceback" in err) == (2, False)
    for name in ("a.nc", "a.html", "a.png"):
        assert not (tmp_path / name).is_file()


@pytest.fixture
def shell(capfd):
    from spdelaw.cli import main

    def run(*words):
        before = sys.argv
        sys.argv = ["spdelaw", *map(str, words)]
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.argv = before
        out = capfd.readouterr()
        return code, out.out, out.err

    return run


# -- 6: an output that is an input ----------------------------------------------------


@pytest.mark.parametrize("how", ["same", "link", "hard link", "dots"])
def test_6_an_output_that_is_an_input_is_refused(tmp_path, laws, shell, how):
    data, law = tmp_path / "in.nc", tmp_path / "a.law"
    sl.write(heat(), data)
    laws[0].save(law)
    out = {"same": data, "dots": tmp_path / "." / "x" / ".." / "in.nc"}.get(how, tmp_path / "o.nc")
    (tmp_path / "x").mkdir()
    if how == "link":
        out.symlink_to(data)
    if how == "hard link":
        os.link(data, out)
    content = data.read_bytes()
    code, _, err = shell("forecast", law, data, "--until", "2", "--out", out, "--force")
    assert code == 2, err
    assert "input" in err or "reads" in err
    assert data.read_bytes() == content


# -- 7: data of other files -----------------------------------------------------------


def plain_nc(path):
    """A NetCDF file as another program writes it."""
    heat().to_dataset(name="u").to_netcdf(path, engine="h5netcdf")
    return path


def external(path, secret):
    with h5py.File(path, "r+") as file:
        del file["u"]
        file.create_dataset("u", (10, 6, 9), "f8", external=[(str(secret), 0, 4320)])
        for i, name in enumerate(("path", "time", "x")):
            if name in file:
                file["u"].dims[i].attach_scale(file[name])


def virtual(path, secret):
    with h5py.File(secret.with_suffix(".h5"), "w") as other:
        other["s"] = np.ones((10, 6, 9))
    layout = h5py.VirtualLayout((10, 6, 9), "f8")
    layout[:] = h5py.VirtualSource(str(secret.with_suffix(".h5")), "s", (10, 6, 9))
    with h5py.File(path, "r+") as file:
        del file["u"]
        file.create_virtual_dataset("u", layout)


def linked(path, secret):
    with h5py.File(secret.with_suffix(".h5"), "w") as other:
        other["s"] = np.ones((10, 6, 9))
    with h5py.File(path, "r+") as file:
        del file["u"]
        file["u"] = h5py.ExternalLink(str(secret.with_suffix(".h5")), "s")


@pytest.mark.parametrize("make", [external, virtual, linked])
def test_7_hdf5_does_not_bring_in_other_files(tmp_path, make):
    """At db23711 the bytes of any file could become values."""
    secret = tmp_path / "secret.bin"
    secret.write_bytes(np.ones(540).tobytes())
    path = plain_nc(tmp_path / "a.nc")
    make(path, secret)
    for look in (sl.read, read_dataset, has_fields):
        with pytest.raises(FileError, match="allow_external"):
            look(path)


def test_7_external_data_can_be_allowed(tmp_path):
    secret = tmp_path / "secret.bin"
    secret.write_bytes(np.ones(540).tobytes())
    path = plain_nc(tmp_path / "a.nc")
    external(path, secret)
    assert (sl.read(path, allow_external=True) == 1.0).all()


def test_7_links_in_a_zarr_directory_are_not_followed(tmp_path):
    pytest.importorskip("zarr")
    path = tmp_path / "a.zarr"
    heat().to_dataset(name="u").to_zarr(path, consolidated=False)
    chunk = path / "u" / "c" / "0" / "0" / "0"
    chunk.rename(tmp_path / "secret")
    chunk.symlink_to(tmp_path / "secret")
    with pytest.raises(FileError, match="allow_external"):
        sl.read(path)
    assert sl.read(path, allow_external=True).equals(heat())


# -- 8: tracebacks --------------------------------------------------------------------


def test_8_a_cut_chunk_of_an_ordinary_zarr_is_named(tmp_path, shell):
    pytest.importorskip("zarr")
    path = tmp_path / "a.zarr"
    heat().to_dataset(name="u").to_zarr(path, consolidated=False)
    chunk = path / "u" / "c" / "0" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:40])
    with pytest.raises(FileError):
        sl.read(path)
    for words in (["info", path], ["fit", path, "--modes", "1", "--out", tmp_path / "a.law"]):
        code, _, err = shell(*words)
        assert (code, "Traceback" in err) == (2, False), err


def test_8_huge_numbers_and_deep_nesting_in_files(tmp_path, laws, shell):
    sl.write(heat(), tmp_path / "a.nc")
    laws[0].save(tmp_path / "a.law")
    (tmp_path / "fit.yaml").write_text(f"modes: {'9' * 5000}\nseed: {'9' * 5000}\n")
    (tmp_path / "skill.json").write_text("[" * 200_000)
    (tmp_path / "engine.yaml").write_text(f"epochs: {'9' * 5000}\n")
    out = ["--out", tmp_path / "b.law"]
    for words in (
        ["fit", tmp_path / "a.nc", "--config", tmp_path / "fit.yaml", *out],
        ["fit", tmp_path / "a.nc", "--modes", "9" * 5000, *out],
        ["report", tmp_path / "a.law", tmp_path / "a.nc", "--skill", tmp_path / "skill.json",
         "--out", tmp_path / "r.html"],
    ):  # fmt: skip
        code, _, err = shell(*words)
        assert (code, "Traceback" in err) == (2, False), err[-500:]
    with pytest.raises(FileError, match="YAML"):
        sl.Amortized(tmp_path / "engine.yaml")


@pytest.mark.parametrize("schema", [1, 2, True, 99, None, "1", [1]])
def test_8_a_forged_law_of_any_schema_is_refused(tmp_path, laws, schema):
    laws[0].save(tmp_path / "a.law")
    arrays = (tmp_path / "a.law" / "arrays.safetensors").read_bytes()
    forge(tmp_path / "a.law" / "law.json", lambda d: d.update(schema=schema), arrays)
    with pytest.raises(SpdeLawError):
        sl.load(tmp_path / "a.law")


@pytest.mark.parametrize("origin", [{}, [1.0, 2.0], "now", None])
def test_8_a_law_with_a_forged_number_is_refused(tmp_path, laws, origin):
    laws[0].save(tmp_path / "a.law")
    arrays = (tmp_path / "a.law" / "arrays.safetensors").read_bytes()
    forge(tmp_path / "a.law" / "law.json", lambda d: d["dynamics"].update(origin=origin), arrays)
    with pytest.raises(FileError):
        sl.load(tmp_path / "a.law")


def test_8_a_law_with_a_forged_entry_is_refused(tmp_path, laws):
    laws[0].save(tmp_path / "a.law")
    arrays = (tmp_path / "a.law" / "arrays.safetensors").read_bytes()
    forge(tmp_path / "a.law" / "law.json", lambda d: d["info"].update(profiled=1.5), arrays)
    with pytest.raises(FileError):
        sl.load(tmp_path / "a.law")


@pytest.mark.parametrize("scale", [1e110, 1e150, 1e200, 1e300])
def test_8_values_whose_squares_overflow_are_refused(laws, scale):
    law = laws[0]
    for verb in (law.log_likelihood, law.reconstruct, lambda d: sl.evaluate(law, d)):
        with pytest.raises(DataError, match="1e\\+100"):
            verb(heat() * scale)
    with pytest.raises(SpdeLawError, match="Fix"):  # an overflow, or no finite likelihood
        sl.fit(heat() * scale, HEAT.domain, 2)


def test_8_tiny_fields_with_gaps_are_fitted_or_refused():
    """At db23711 10 of 150 such fields ended in IndexError."""
    rng = np.random.default_rng(5)
    for _ in range(25):
        shape = rng.integers(1, (4, 6, 6))
        values = np.where(
            rng.random(shape) < rng.choice([0.2, 0.5, 0.8]), np.nan, rng.random(shape)
        )
        coords = {"time": np.arange(shape[1]) * 1.0, "x": np.linspace(0.3, 2.8, shape[2])}
        data = xr.DataArray(values, coords, ("path", "time", "x"))
        with contextlib.suppress(SpdeLawError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sl.fit(data, HEAT.domain, int(rng.integers(1, 4)))


WRONG_CALLS = [
    (lambda law, data: sl.evaluate(law, data, level=1e30), "probability"),
    (lambda law, data: sl.evaluate(law, data, max_paths="ten"), "positive integer"),
    (lambda law, data: sl.Matern(length=-1), "above 0"),
    (lambda law, data: sl.Matern(length="long"), "finite number|above 0"),
    (lambda law, data: sl.White(-1.0), "at least 0"),
    (lambda law, data: sl.LogNormal(0.0, 1.0), "above 0"),
    (lambda law, data: sl.fit(data, "interval"), "a domain such as"),
    (lambda law, data: sl.fit(data, HEAT.domain, 2, seed=-1), "non-negative integer"),
    (lambda law, data: sl.fit(data, HEAT.domain, 10**30), "up to"),
    (lambda law, data: sl.simulate(HEAT, 2, progress=3), "a function"),
    (lambda law, data: sl.load(3), "text or a path"),
    (lambda law, data: law.save(None), "text or a path"),
    (lambda law, data: law.sample(2, seed=0.5), "non-negative integer"),
    (lambda law, data: sl.read("a.nc", lazy=np.zeros(2)), "True or False"),
    (lambda law, data: sl.Preparation(select=3), "a dict"),
    (lambda law, data: sl.Preparation(select={"x": 1.0}), "values that are each"),
    (lambda law, data: law.forecast(data, steps=10**7), "up to 1e"),
    (lambda law, data: law.reconstruct(data, grid="ab"), "finite points, got str"),
    (lambda law, data: sl.fit(data, prepare=sl.Preparation(rename={"x": "time"})), "a free name"),
    (lambda law, data: sl.compare(law, "law"), "a Law"),
    (lambda law, data: sl.catalogue.heat(n_modes="many"), "positive integer"),
]


@pytest.mark.parametrize("number", range(len(WRONG_CALLS)))
def test_8_wrong_arguments_are_refused_in_words(laws, number):
    call, word = WRONG_CALLS[number]
    with pytest.raises(SpdeLawError, match=word):
        call(laws[0], heat())


@pytest.mark.parametrize(
    "call",
    [
        lambda n: sl.Season(n, 2),
        lambda n: sl.Season(1.0, [n, 1]),
        lambda n: sl.SpectralSPDE(HEAT.domain, 2, drift=[n, 1], noise=[1, 1]),
        lambda n: sl.SpectralSPDE(HEAT.domain, 2, drift=[1, 2], noise=n),
        lambda n: sl.Semilinear(HEAT, {"u": n}),
        lambda n: sl.Model(observation_noise=n),
        lambda n: sl.split(heat(), seed=-n),
        lambda n: sl.Amortized({1: n}),
        lambda n: sl.fit(heat(), HEAT.domain, 2, terms=(n,)),
    ],
)
def test_8_numbers_of_5000_digits_are_refused_in_words(call):
    """Python writes no integer of more than 4,300 digits, not into a message either."""
    with pytest.raises(SpdeLawError, match="Fix"):
        call(10**5000)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("verb", ["as_fields", "forecast", "to_table", "verify", "write"])
def test_8_odd_data_are_taken_or_refused_in_words(verb, tmp_path):
    law = sl.fit(_odd_data.RECORD, _odd_data.INTERVAL, 2, **_odd_data.QUICK)
    call = {
        "as_fields": lambda data: sl.as_fields(data),
        "forecast": lambda data: law.forecast(data, steps=2),
        "to_table": lambda data: sl.to_table(data),
        "verify": lambda data: sl.verify(law.forecast(_odd_data.RECORD, steps=3), data),
        "write": lambda data: sl.write(data, tmp_path / "a.csv"),
    }[verb]
    failed = {}
    for number, make in enumerate(_odd_data.ODDITIES):
        try:
            data = make()
        except OverflowError:  # pandas 2 makes no table of such integers
            continue
        try:
            call(data)
        except SpdeLawError:
            pass
        except Exception as error:  # of another library
            failed[number] = error
    assert failed == {}


@pytest.mark.parametrize("name", ["a" * 300, "\ud800"])
def test_8_names_that_no_file_can_have_are_refused_in_words(name, laws):
    for call in (sl.read, sl.load, lambda path: sl.write(heat(), path), laws[0].save):
        for suffix in (".nc", ".csv", ".zarr", ".law"):
            with pytest.raises(SpdeLawError):
                call(name + suffix)


# -- 9: hangs and memory --------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_9_pipes_and_devices_are_not_read(tmp_path, laws, shell):
    sl.write(heat(), tmp_path / "a.nc")
    laws[0].save(tmp_path / "a.law")
    os.mkfifo(tmp_path / "pipe")
    for special in (tmp_path / "pipe", "/dev/zero"):
        for words in (["fit", tmp_path / "a.nc", "--config", special, "--out", tmp_path / "b.law"],
                      ["report", tmp_path / "a.law", tmp_path / "a.nc", "--skill", special,
                       "--out", tmp_path / "r.html"]):  # fmt: skip
            code, _, err = shell(*words)
            assert (code, "Traceback" in err) == (2, False), err
        with pytest.raises(FileError, match="regular file"):
            read_regular(Path(special))


def test_9_a_compressed_table_that_expands_without_end_is_refused(tmp_path):
    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wb", 9) as file:
        file.write(b"time,x,value\n")
        for _ in range(40):
            file.write(b"0,0,0\n" * 100_000)
    with pytest.raises(FileError, match="times its size"):
        sl.from_table(path, time="time", x="x", value="value")


def test_9_declared_sizes_are_compared_with_memory(tmp_path, monkeypatch, shell):
    """A file of some kilobytes that declares 3.2 GB; at db23711 ``info`` loaded it."""
    path = tmp_path / "a.nc"
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"time": 4000, "x": 100_000}
        file.create_variable("x", ("x",), "f8", data=np.arange(100_000.0))
        file.create_variable("time", ("time",), "f8", data=np.arange(4000.0))
        file.create_variable("u", ("time", "x"), "f8", chunks=(4000, 1000), compression="gzip")
    assert path.stat().st_size < 1e6
    monkeypatch.setattr("spdelaw.data.io.safe_files.usable_memory", lambda: 2e9)
    for look in (sl.read, read_dataset):
        with pytest.raises(FileError, match="memory"):
            look(path)
    code, _, err = shell("info", path)
    assert (code, "memory" in err, "backup" in err) == (2, True, False)


def test_9_info_loads_the_variable_that_it_describes(tmp_path, monkeypatch, shell):
    data = heat()[0].drop_vars("path").rename(x="lon")
    other = xr.DataArray(np.zeros((4000, 3000)), dims=("row", "column"))
    xr.Dataset({"u": data, "table": other}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    monkeypatch.setattr("spdelaw.data.io.safe_files.usable_memory", lambda: 2e7)
    code, out, err = shell("info", tmp_path / "a.nc", "--variable", "u")
    assert code == 0, err
    assert "6 time" in out


def test_9_a_lack_of_memory_is_not_called_damage(tmp_path, monkeypatch):
    path = sl.write(heat(), tmp_path / "a.nc")

    def full(*_, **__):
        raise MemoryError("Unable to allocate 3 GiB")

    monkeypatch.setattr(xr.DataArray, "load", full)
    with pytest.raises(FileError, match="memory") as info:
        sl.read(path)
    assert "backup" not in str(info.value)


# -- 10: lazy data --------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "missing", "most"), [(0, 0, 1), (0.05, 0, 1), (0.05, 0.3, 2)])
def test_10_passes_over_lazy_data(noise, missing, most):
    """Blocks of the 24 first paths, which may be read once more, do not count."""
    da = pytest.importorskip("dask.array")
    data = sl.simulate(HEAT, 60, TIMES, GRID, seed=0, observation_std=noise)
    data = sl.mask(data, "random", missing, seed=1) if missing else data
    reads = []

    def read(block, block_info=None):
        reads.append(block_info[0]["chunk-location"][0])
        return block

    lazy = da.from_array(data.values, chunks=(10, -1, -1))
    lazy = lazy.map_blocks(read, dtype=float, meta=np.zeros((0, 0, 0)))
    sl.fit(data.copy(data=lazy), HEAT.domain, 2)
    assert max(map(reads.count, (3, 4, 5))) == most


def test_10_a_lazy_record_with_gaps_has_the_numbers_of_the_record_in_memory():
    pytest.importorskip("dask")
    record = sl.simulate(HEAT, 1, np.linspace(0, 30, 300), GRID, seed=0, observation_std=0.05)
    record = sl.mask(record, "random", 0.3, seed=1)
    here, lazy = (sl.fit(x, HEAT.domain, 2) for x in (record, record.chunk(time=40)))
    for name in ("eigenvalue", "noise_variance"):
        estimates = (law.parameters[name].sel(statistic="estimate") for law in (lazy, here))
        np.testing.assert_allclose(*estimates, rtol=1e-9)
    np.testing.assert_allclose(
        here.log_likelihood(record.chunk(time=40)), here.log_likelihood(record), rtol=1e-9
    )


@pytest.mark.parametrize("change", [shutil.rmtree, lambda path: sl.write(heat(5), path)])
def test_10_a_lazy_directory_that_is_replaced_is_refused(tmp_path, change):
    """Zarr takes a chunk that is gone for missing values."""
    pytest.importorskip("zarr")
    path = sl.write(heat(), tmp_path / "a.zarr")
    lazy = sl.read(path, lazy=True)
    change(path)
    with pytest.raises(FileError, match="replaced or removed"):
        sl.fit(lazy, HEAT.domain, 2)


def test_10_a_lazy_directory_is_read_from_other_folders(tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    monkeypatch.chdir(tmp_path)
    sl.write(heat(), "a.zarr")
    lazy = sl.read("a.zarr", lazy=True)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    np.testing.assert_array_equal(lazy, heat())


# -- also -----------------------------------------------------------------------------


def table(**change):
    return pd.DataFrame({"t": [0, 1, 0, 1], "v": [1.0, 2.0, 3.0, 5.0], "lat": [10.0, 10, 20, 20],
                         "lon": [5.0, 5, 6, 6]} | change)  # fmt: skip


@pytest.mark.parametrize("change", [{"v": [1.0, np.inf, 3.0, 5.0]}, {"lat": [900.0, 900, 20, 20]},
                                    {"lon": [5.0, 5, 999, 999]}])  # fmt: skip
def test_also_tables_with_impossible_numbers_are_refused(change):
    sl.from_table(table(), time="t", value="v", lat="lat", lon="lon")
    with pytest.raises(DataError, match=r"finite numbers|degrees"):
        sl.from_table(table(**change), time="t", value="v", lat="lat", lon="lon")


def test_also_control_characters_do_not_reach_the_terminal(tmp_path, shell):
    sl.write(heat().assign_attrs(title="\x1b[2Jgone\x07"), tmp_path / "a.nc")
    code, out, err = shell("info", tmp_path / "a.nc")
    assert code == 0
    assert "gone" in out
    assert "\x1b" not in out + err
    assert "\x07" not in out + err


@pytest.mark.parametrize("output", [">&-", "> /dev/full", "--json > /dev/full"])
def test_also_a_closed_or_full_standard_output_is_no_traceback(tmp_path, output):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs a device that is full")
    sl.write(heat(), tmp_path / "a.nc")
    words = [sys.executable, "-m", "spdelaw", "info", str(tmp_path / "a.nc")]
    run = subprocess.run(
        f"{shlex.join(words)} {output}", shell=True, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in run.stderr
    assert ("standard output: No space left" in run.stderr) == ("full" in output)


def test_also_a_folder_that_is_gone_and_a_file_in_place_of_a_law(tmp_path, laws, monkeypatch):
    laws[0].save(tmp_path / "a.law")
    for name in ("law.json", "arrays.safetensors"):
        with pytest.raises(FileError, match=r"got a file\. Fix: pass the name of"):
            sl.load(tmp_path / "a.law" / name)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for call in (laws[0].save, sl.load, sl.read, lambda path: sl.write(heat(), path)):
        with pytest.raises(FileError, match="current folder"):
            call("a.nc" if call is not laws[0].save else "a.law")


def test_also_a_law_replaces_another_on_demand_only(tmp_path, laws):
    laws[0].save(tmp_path / "a.law")
    with pytest.raises(FileError, match="overwrite=True"):
        laws[1].save(tmp_path / "a.law")


def test_also_names_are_plain_text_in_the_figures_of_the_report(tmp_path, laws):
    """plotly.js takes ``<b>`` in names for HTML."""
    pytest.importorskip("plotly")
    page = sl.report.write_report(tmp_path / "r.html", laws[0], heat().rename("<b>u</b>"))
    text = Path(page or tmp_path / "r.html").read_text()
    assert "&lt;b&gt;u" in text
    for raw in ("<b>u", "\\u003cb\\u003eu", "\\u003cb>u"):
        assert raw not in text
