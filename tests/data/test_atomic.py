"""replace_file and replace_directory: the old or the new, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.parameters import cross

import spdelaw.errors
from spdelaw.data.io import safe_files as safe_files_module
from spdelaw.data.io.safe_files import recover_directory, replace_directory, replace_file
from spdelaw.errors import FileError

SOURCE = Path(spdelaw.errors.__file__).parent
PARTS = ("a", "b/c", "b/d")


def save_file(path, text):
    with replace_file(path) as new:
        new.write_text(text * 1000)


def replace_parts(path):
    return replace_directory(path, lambda _: PARTS)


def save_directory(path, text):
    with replace_parts(path) as new:
        for part in PARTS:
            (new / part).parent.mkdir(exist_ok=True)
            (new / part).write_text(text)


def content(path):
    """The text of a file, or of all files of a directory, which must be the same."""
    if path.is_file():
        text = path.read_text()
        assert text == text[:3] * 1000
        return text[:3]
    names = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())
    assert names == sorted(PARTS)
    (text,) = {(path / part).read_text() for part in PARTS}
    return text


def siblings(path):
    return [entry.name for entry in path.parent.iterdir() if entry != path]


SAVES = [save_file, save_directory]


@pytest.fixture(params=[True, False], ids=["exchange", "two renames"])
def exchange(request, monkeypatch):
    """With the system's exchange of directories, and without."""
    if not request.param:
        monkeypatch.setattr(safe_files_module, "_exchange", lambda one, other: False)


_EXCHANGE = safe_files_module._exchange


@pytest.mark.parametrize("save", SAVES)
def test_created_then_replaced(tmp_path, save, exchange):
    path = tmp_path / "target"
    for text in ("old", "new"):
        save(path, text)
        assert content(path) == text
        assert siblings(path) == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("replace", [replace_file, replace_parts])
def test_an_error_inside_changes_nothing(tmp_path, replace, error):
    path = tmp_path / "target"
    (save_file if replace is replace_file else save_directory)(path, "old")

    def fail():
        with replace(path) as new:
            (new / "half" if replace is replace_parts else new).write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert content(path) == "old"
    assert siblings(path) == []


def refuse(*args, **options):
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize(
    ("save", "step"), [(save_file, "fsync"), (save_file, "replace"), (save_directory, "fsync"),
                       (save_directory, "rename")],
)  # fmt: skip
def test_a_failing_step_changes_nothing(tmp_path, save, step, monkeypatch, exchange):
    path = tmp_path / "target"
    save(path, "old")
    monkeypatch.setattr(os, step, refuse)
    if (
        step != "rename" or safe_files_module._exchange is not _EXCHANGE
    ):  # an exchange needs no rename
        with pytest.raises(FileError, match="Permission denied"):
            save(path, "new")
        monkeypatch.undo()
        assert content(path) == "old"
    assert siblings(path) == []


def test_last_rename_fails_and_the_one_before_is_undone(tmp_path, monkeypatch):
    path = tmp_path / "target"
    save_directory(path, "old")
    monkeypatch.setattr(safe_files_module, "_exchange", lambda one, other: False)
    rename, calls = os.rename, []

    def third_fails(source, target, **options):  # new to target (taken), target to old, new there
        calls.append((Path(source), Path(target)))
        if len(calls) == 3:
            raise OSError(5, "Input/output error")
        rename(source, target, **options)

    monkeypatch.setattr(os, "rename", third_fails)
    with pytest.raises(FileError, match="Input/output"):
        save_directory(path, "new")
    assert calls[2] == calls[0]
    assert content(path) == "old"
    assert siblings(path) == []


# A child that saves "new" over "old" and dies at its k-th step towards the disk.
CHILD = """
import os, signal, sys, types
for name, folder in (("spdelaw", ""), ("spdelaw.data", "data"), ("spdelaw.data.io", "data/io")):
    package = types.ModuleType(name)  # without the cost of xarray
    package.__path__ = [os.path.join({source!r}, folder)]
    sys.modules[name] = package
from spdelaw.data.io import safe_files
target, kind, exchange, k = sys.argv[1], sys.argv[2], sys.argv[3] == "True", int(sys.argv[4])
steps = 0
def deadly(function):
    def step(*args, **options):
        global steps
        steps += 1
        if steps == k:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **options)
    return step
for name in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir", "open"):
    setattr(os, name, deadly(getattr(os, name)))
safe_files._exchange = deadly(safe_files._exchange if exchange else (lambda one, other: False))
if kind == "file":
    with safe_files.replace_file(target) as new:
        new.write_text("new" * 1000)
else:
    with safe_files.replace_directory(target, lambda _: {parts!r}) as new:
        for part in {parts!r}:
            (new / part).parent.mkdir(exist_ok=True)
            (new / part).write_text("new")
"""


SLOW_KILL = pytest.param("directory", False, marks=pytest.mark.slow)


def run_child(path, kind, exchange, k):
    code = CHILD.format(source=str(SOURCE), parts=PARTS)
    command = [sys.executable, "-c", code, str(path), kind, str(exchange), str(k)]
    return subprocess.run(command, capture_output=True, check=False)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize(("kind", "exchange"), [("file", True), ("directory", True), SLOW_KILL])
def test_killed_at_every_step_there_is_the_old_or_the_new(tmp_path, kind, exchange):
    path = tmp_path / "target"
    save = save_file if kind == "file" else save_directory
    texts, k = [], 0
    while True:
        k += 1
        save(path, "old")
        assert siblings(path) == []  # what the last victim left is gone
        child = run_child(path, kind, exchange, k)
        recover_directory(path)
        texts.append(content(path))
        if child.returncode == 0:
            break
        assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    assert texts[0] == "old"
    assert texts[-1] == "new"
    assert texts == sorted(texts, reverse=True)  # once new, always new
    assert k > 4


def test_siblings_of_living_processes_are_left_alone(tmp_path):
    path = tmp_path / "target"
    with replace_file(path) as outer:
        outer.write_text("x")
        save_file(path, "new")
        assert outer.exists()
        outer.write_text("old" * 1000)
    assert content(path) == "old"


def sibling_of(path, host, process, kind):
    entry = path.with_name(f".{path.name}~{host}~{process}~0123abcd{kind}")
    entry.write_text("half")
    return entry


def test_whose_siblings_are_cleaned(tmp_path):
    path, host = tmp_path / "target", safe_files_module._host()
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        child.wait()
    forgotten = sibling_of(path, "another-host", 2, ".new")
    os.utime(forgotten, (0, 0))
    reused = sibling_of(path, host, os.getpid(), ".new")  # our number, but not ours
    gone = [sibling_of(path, host, child.pid, ".new"), reused, forgotten]
    stranger = path.with_name(f".{path.name}~mine.new")
    stranger.write_text("not ours")
    alive = sibling_of(path, host, os.getppid(), ".new")
    kept = [alive, sibling_of(path, "another-host", 1, ".new"), stranger]
    save_file(path, "new")
    assert not any(entry.exists() for entry in gone)
    assert all(entry.exists() for entry in kept)


def test_links_are_followed_and_permissions_kept(tmp_path):
    path, link = tmp_path / ("λ" * 120), tmp_path / "link"  # and long names are shortened
    save_file(path, "old")
    path.chmod(0o640)
    link.symlink_to(path)
    save_file(link, "new")
    assert link.is_symlink()
    assert content(path) == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_wrong_targets(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for replace, name, text in (
        (replace_file, "folder", "a directory"),
        (replace_parts, "file", "a file"),
        (replace_file, "no/file", "mkdir -p"),
        (replace_parts, "no/folder", "mkdir -p"),
        (replace_file, "file/file", "an existing folder"),
    ):
        with pytest.raises(FileError, match=text), replace(tmp_path / name):
            pytest.fail("the block must not run")
    recover_directory(tmp_path / "target")  # there is nothing to recover
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]


# -- files of somebody else ------------------------------------------------------------


@cross(name=["notes.txt", "b/notes.txt", ".git/HEAD", "b/.hidden", "empty/", "link/"],
       exchange=[True, False])  # fmt: skip
def test_a_directory_with_something_of_somebody_else_is_refused(
    tmp_path, name, exchange, monkeypatch
):
    if not exchange:
        monkeypatch.setattr(safe_files_module, "_exchange", lambda one, other: False)
    path, elsewhere = tmp_path / "target", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "thesis.tex").write_text("years")
    save_directory(path, "old")
    if name == "link/":
        (path / "link").symlink_to(elsewhere)
    elif name.endswith("/"):
        (path / name).mkdir()
    else:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("mine")
    before = sorted(path.rglob("*"))
    with pytest.raises(FileError, match="nothing was deleted") as caught, replace_parts(path):
        pytest.fail("the block must not run")
    assert name.split("/")[0] in caught.value.got
    assert sorted(path.rglob("*")) == before
    assert (elsewhere / "thesis.tex").read_text() == "years"
    assert siblings(path) == ["elsewhere"]


def test_a_file_that_comes_while_the_new_one_is_written_is_kept(tmp_path, exchange):
    path = tmp_path / "target"
    save_directory(path, "old")

    def write_slowly():
        with replace_parts(path) as new:
            (new / "a").write_text("new")
            (path / "notes.txt").write_text("mine")

    with pytest.raises(FileError, match=r"notes\.txt"):
        write_slowly()
    assert (path / "notes.txt").read_text() == "mine"
    assert (path / "a").read_text() == "old"
    assert siblings(path) == []


def test_litter_of_file_managers_is_nobodys_work(tmp_path):
    path = tmp_path / "target"
    save_directory(path, "old")
    (path / "b" / ".DS_Store").write_text("icons")
    save_directory(path, "new")
    assert content(path) == "new"
