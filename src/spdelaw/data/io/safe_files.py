"""Files that are never lost or half-written: atomic replacement, checksums, regular files only."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import math
import os
import re
import shutil
import socket
import stat
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from spdelaw.errors import FileError, SpdeLawError

# ---------- Only regular files are opened: reading a pipe or a device may never end


_SPECIAL_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def refuse_special(path: Path) -> None:
    """Raise `FileError` where a name stands for a pipe, a socket or a device."""
    try:
        _check_kind(path, os.stat(path))
    except FileError:
        raise
    except OSError:
        return  # nothing there, or out of reach: opening it raises the error


def _check_kind(path: Path, status: os.stat_result) -> None:
    kind = _SPECIAL_KINDS.get(stat.S_IFMT(status.st_mode))
    if kind is not None:
        fix = "copy its content into a file"
        raise FileError(str(path), expected="a regular file", got=kind, fix=fix)


def refuse_special_in(directory: Path, allow_external: bool) -> None:
    """Raise `FileError` where a directory holds a pipe, a socket, a device, or a link, anywhere."""
    for folder, folders, files in os.walk(directory, followlinks=allow_external):
        for name in (*folders, *files):
            refuse_special(Path(folder, name))
            if Path(folder, name).is_symlink() and not allow_external:
                raise external_data(directory, f"{name} as a link to another file")


def external_data(path: Path, got: str) -> FileError:
    """The error about data that lie outside of their file."""
    fix = "copy the data into one file first; if you trust the file, pass "
    fix += "allow_external=True to read() in Python"
    return FileError(str(path), expected="a file that holds all of its data", got=got, fix=fix)


def read_regular(path: Path) -> bytes:
    """All bytes of a regular file, opened once; `FileError` for a pipe, a socket or a device."""
    # A pipe without a writer would block when it is opened.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as file:
        _check_kind(path, os.fstat(handle))
        return file.read()


def read_together(path: Path, names: Collection[str]) -> list[bytes]:
    """All bytes of some files of a directory, as they were together at one moment.

    Raises:
        FileError: the directory was replaced again and again while it was read.
        OSError: as for any file that is missing.
    """
    for _ in range(_ATTEMPTS):
        before, contents = identity(path), []
        try:
            contents = [read_regular(path / name) for name in names]
        except FileNotFoundError:
            if before == identity(path):
                raise
        if before is not None and before == identity(path):
            return contents
    raise replaced_while_read(path)


def identity(path: Path) -> tuple[int, ...] | None:
    """Numbers that change when something else takes the name; None while there is nothing.

    They are the same on all machines of a cluster.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def replaced_while_read(path: Path) -> FileError:
    """The error about other content than at the beginning."""
    got = "a file or directory that was replaced or removed while it was in use"
    expected = "the same content throughout"
    return FileError(str(path), expected=expected, got=got, fix="read it again")


# ---------- Foreign files in a directory, which are never removed


#: Tells which files of a directory, by their names relative to it, its writer put there.
Written = Callable[[Path], Collection[str]]
#: Files that file managers leave behind.
_LITTER = frozenset({".DS_Store", "Thumbs.db"})
#: Foreign files that a message names.
_MAX_NAMED = 3


def resolved(path: str | Path) -> Path:
    """What a name stands for, behind links; `FileError` for a name that no file can have."""
    expected, fix = "a usable name", "check the name, and that the current folder exists"
    with as_file_error(path, (OSError, ValueError), expected, fix):
        target = Path(os.path.realpath(path))
        target.exists()
    return target


def refuse_foreign(path: str | Path, written: Written) -> None:
    """Raise where ``path`` is a file, or a directory with more in it than its writer put there.

    Args:
        path: directory that is to be replaced; it need not exist.
        written: tells which files of a directory are its writer's.

    Raises:
        FileError: there are files that the writer did not put there.

    Example:
        >>> from spdelaw.data.io.safe_files import refuse_foreign
        >>> refuse_foreign("never_written", lambda old: [])
    """
    target = resolved(path)
    if not target.is_dir():
        if target.exists():
            expected = "the name of a directory"
            raise FileError(str(path), expected=expected, got="a file", fix="choose another name")
        return
    with as_file_error(path):
        foreign = _foreign_files(target, written)
    if foreign:
        more = f" and {len(foreign) - _MAX_NAMED} more" if len(foreign) > _MAX_NAMED else ""
        expected = "a new name, or a directory that spdelaw wrote"
        got = f"other content: {', '.join(foreign[:_MAX_NAMED])}{more}"
        fix = "choose another name, or move it elsewhere; nothing was deleted"
        raise FileError(str(path), expected=expected, got=got, fix=fix)


def _foreign_files(directory: Path, written: Written) -> list[str]:
    """Names in a directory that are neither its writer's nor a folder of those."""
    present: set[str] = set()
    for folder, folders, files in os.walk(directory, onerror=_raise):
        names = [name for name in (*folders, *files) if name not in _LITTER]
        present.update(Path(folder, name).relative_to(directory).as_posix() for name in names)
    if not present:
        return []
    ours = set(written(directory))
    ours.update(parent.as_posix() for name in tuple(ours) for parent in PurePosixPath(name).parents)
    return sorted(present - ours)


def _raise(error: OSError) -> None:
    raise error


@contextmanager
def as_file_error(
    path: str | Path,
    kind: type[Exception] | tuple[type[Exception], ...] = OSError,
    expected: str = "a writable folder",
    fix: str = "check permissions and free space of the folder; an existing file is unchanged",
) -> Iterator[None]:
    """Errors of the system, or of a library that writes, as `FileError`."""
    try:
        yield
    except (SpdeLawError, MemoryError):
        raise
    except kind as error:  # disk full, quota, refused names: all end here
        got = getattr(error, "strerror", None) or f"{type(error).__name__}: {_first_line(error)}"
        raise FileError(str(path), expected=expected, got=got, fix=fix) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or "no message").splitlines()[0][:300]


# ---------- Atomic replacement: a kill at any moment leaves the old content or the new
#
# Everything is written into a hidden sibling, flushed to the disk, and then renamed. A
# sibling that a killed process left behind is never read, and goes with the next write.
#
# A directory is replaced only when its writer put every file there, and lists them. A directory
# with a foreign file is refused before any work.


__all__ = ["recover_directory", "refuse_foreign", "replace_directory", "replace_file"]

_NEW, _OLD = ".new", ".old"
_WEEK_SECONDS = 7 * 86400.0
#: Times that a directory is read, if another process keeps replacing it.
_ATTEMPTS = 20
#: Siblings of this process, to tell them from those of a dead process with the same number.
_IN_USE: set[str] = set()
_RENAME_EXCHANGE = 2  # linux/fs.h
_AT_FDCWD = -100  # linux/fcntl.h


@contextmanager
def replace_file(path: str | Path) -> Iterator[Path]:
    """Write a file under a temporary name that replaces ``path`` when the block succeeds.

    If the block raises, the temporary file is removed and ``path`` is as before. A symbolic
    link is followed, and the permissions of a file that is replaced are kept.

    Args:
        path: file to create or replace.

    Yields:
        Path in the same folder to write to; it does not exist yet.

    Raises:
        FileError: the folder is missing or the file cannot be put in place.

    Example:
        >>> from pathlib import Path
        >>> from spdelaw.data.io.safe_files import replace_file
        >>> with replace_file("note.txt") as new:
        ...     _ = new.write_text("complete or absent")
        >>> Path("note.txt").read_text()
        'complete or absent'
    """
    target = _prepare_target(path)
    if target.is_dir():
        fix = "choose another name"
        raise FileError(str(path), expected="the name of a file", got="a directory", fix=fix)
    refuse_special(target)
    with _sibling(target, _NEW) as new:
        try:
            with as_file_error(path):
                yield new
                if target.exists():
                    shutil.copymode(target, new)
                _sync(new)
                os.replace(new, target)
                _sync(target.parent)
        finally:
            new.unlink(missing_ok=True)


@contextmanager
def replace_directory(path: str | Path, written: Written) -> Iterator[Path]:
    """Fill a temporary directory that replaces ``path`` when the block succeeds.

    If the block raises, the temporary directory is removed and ``path`` is as before. Where
    the system can exchange two directories in one step (Linux) there is no moment without
    one. Elsewhere the old one is set aside for an instant; after a kill in that instant
    ``recover_directory`` puts it back.

    Args:
        path: directory to create or replace.
        written: tells which files of the old directory may go with it.

    Yields:
        Empty directory in the same folder to write into.

    Raises:
        FileError: the folder is missing, the directory holds foreign files, or it
            cannot be put in place.

    Example:
        >>> from pathlib import Path
        >>> from spdelaw.data.io.safe_files import replace_directory
        >>> with replace_directory("results", lambda old: ["numbers.txt"]) as new:
        ...     _ = (new / "numbers.txt").write_text("1 2 3")
        >>> [file.name for file in Path("results").iterdir()]
        ['numbers.txt']
    """
    target = _prepare_target(path)
    refuse_foreign(path, written)
    with _sibling(target, _NEW) as new:
        with as_file_error(path):
            new.mkdir()
        try:
            with as_file_error(path):
                yield new
                _sync_tree(new)
            refuse_foreign(path, written)  # the work took time, in which files may have come
            with as_file_error(path):
                _swap_in(new, target)
                _sync(target.parent)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def recover_directory(path: str | Path) -> None:
    """Put back a directory that a killed process had set aside and not replaced.

    Does nothing while ``path`` exists or there is nothing to put back. Call it before reading.

    Example:
        >>> from spdelaw.data.io.safe_files import recover_directory
        >>> recover_directory("never_written")
    """
    target = resolved(path)
    if target.exists():
        return
    for old in sorted(_siblings(target, _OLD)):
        if _is_abandoned(old):
            with as_file_error(path):
                old.rename(target)
            return


def _prepare_target(path: str | Path) -> Path:
    target = resolved(path)
    if not target.parent.is_dir():
        expected, got = "an existing folder to write to", f"no folder {target.parent}"
        raise FileError(str(path), expected=expected, got=got, fix=f"mkdir -p {target.parent}")
    recover_directory(target)
    for sibling in [*_siblings(target, _NEW), *_siblings(target, _OLD)]:
        if _is_abandoned(sibling):
            _remove(sibling)
    return target


def _swap_in(new: Path, target: Path) -> None:
    try:
        new.rename(target)  # the name is free, or that of an empty directory
        return
    except OSError:
        if not target.exists():
            raise
    if _exchange(new, target):  # the old one is now called new, and the caller removes it
        return
    with _sibling(target, _OLD) as old:
        target.rename(old)
        try:
            new.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step if the system and the file system can."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    return swap(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0


@contextmanager
def _sibling(target: Path, kind: str) -> Iterator[Path]:
    """Free hidden name next to ``target``, which tells whose it is."""
    # Cut short: file systems refuse names of more than 255 bytes.
    owner = f"{_host()}~{os.getpid()}~{uuid.uuid4().hex[:8]}"
    sibling = target.with_name(f".{target.name[:40]}~{owner}{kind}")
    _IN_USE.add(sibling.name)
    try:
        yield sibling
    finally:
        _IN_USE.discard(sibling.name)


def _siblings(target: Path, kind: str) -> list[Path]:
    names = os.listdir(target.parent) if target.parent.is_dir() else []
    start = f".{target.name[:40]}~"
    return [target.with_name(n) for n in names if n.startswith(start) and n.endswith(kind)]


def _host() -> str:
    return "".join(c for c in socket.gethostname() if c.isalnum() or c in "-.")[:40]


def _is_abandoned(sibling: Path) -> bool:
    """Whether the process that made it is gone; of another host, whether it is a week old."""
    host, process = [*sibling.name.rsplit("~", 3), "", ""][1:3]
    if host != _host() or not process.isdigit() or os.name == "nt":
        return time.time() - sibling.lstat().st_mtime > _WEEK_SECONDS
    if int(process) == os.getpid():
        return sibling.name not in _IN_USE
    try:
        os.kill(int(process), 0)  # signal 0 only asks
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _sync_tree(directory: Path) -> None:
    for folder, _, files in os.walk(directory, topdown=False):
        for name in files:
            _sync(Path(folder, name))
        _sync(Path(folder))


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows cannot open directories
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems cannot flush a directory; a rename is all they offer.
        if not (path.is_dir() and error.errno in (errno.EINVAL, errno.ENOTSUP)):
            raise
    finally:
        os.close(handle)


# ---------- Errors of reading as `FileError`


def checked_path(path: str | Path) -> Path:
    """The name of a file as a path."""
    try:
        return Path(path)
    except TypeError as error:
        expected, fix = "the name of a file", 'pass "fields.nc"'
        raise FileError("path", expected=expected, got=repr(path), fix=fix) from error


@contextmanager
def undisturbed(path: Path) -> Iterator[None]:
    """Refuse a mixture: the files of a directory that was replaced while it was read."""
    recover_directory(path)
    refuse_special(path)
    before = identity(path) if path.is_dir() else None
    yield
    if before is not None and before != identity(path):
        raise replaced_while_read(path)


@contextmanager
def reading(
    path: Path,
    expected: str = "a readable file",
    fix: str = "restore it from a backup or write it again",
) -> Iterator[None]:
    """Errors of the libraries that read and parse, as `FileError`."""
    try:
        yield
    except SpdeLawError:
        raise
    except FileNotFoundError as error:
        got, fix = "none of this name", f"check the name; the folder is {path.absolute().parent}"
        raise FileError(str(path), expected=expected, got=got, fix=fix) from error
    except NotADirectoryError as error:
        fix = "pass the name of the directory"
        raise FileError(str(path), expected=expected, got="a file", fix=fix) from error
    except MemoryError as error:
        raise too_large(path, _first_line(error)) from error
    except Exception as error:  # damaged files make the libraries raise almost anything
        got = f"{type(error).__name__}: {_first_line(error)}"
        got = "lists or dicts nested too deeply" if isinstance(error, RecursionError) else got
        raise FileError(str(path), expected=expected, got=got, fix=fix) from error


# ---------- Memory and disk


#: Share of the memory that data or a result may take.
MEMORY_SHARE = 0.5
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def usable_memory() -> float:
    """Bytes that this process may use: physical memory, or what limits it; inf if not reported."""
    limits = [math.inf]
    with contextlib.suppress(AttributeError, ValueError, OSError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(ValueError, OSError):  # of a container; "max" is no limit
        limits.append(int(_CGROUP_LIMIT.read_text()))
    with contextlib.suppress(ImportError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        limits += [soft] if soft != resource.RLIM_INFINITY else []
    return min(limits)


def check_memory(path: Path | str, n_bytes: float) -> None:
    """Raise `FileError` where data of this many bytes are too large to be loaded."""
    if n_bytes > MEMORY_SHARE * usable_memory():
        raise too_large(path, f"{n_bytes / 1e9:.3g} GB")


def too_large(path: Path | str, got: str) -> FileError:
    """The error about data that do not fit into memory."""
    expected = f"data of at most {MEMORY_SHARE * usable_memory() / 1e9:.3g} GB, half of the memory"
    fix = "select fewer times or points with the program that wrote it, or convert it to Zarr and "
    return FileError(str(path), expected=expected, got=got, fix=fix + "read(path, lazy=True)")


def check_free_space(path: Path, n_bytes: int) -> None:
    """Raise `FileError` where the disk has not the space for this many bytes."""
    free = shutil.disk_usage(path.absolute().parent).free
    if n_bytes > free:
        expected = f"{n_bytes / 1e9:.3g} GB of free space on the disk"
        fix = "free some space, choose another disk, or request fewer paths, times or points"
        raise FileError(str(path), expected=expected, got=f"{free / 1e9:.3g} GB", fix=fix)


# ---------- Seals: SHA-256 of every byte that was written, checked before a library parses any
#
# The filters of NetCDF and Zarr protect chunks of data. What describes the chunks is not
# protected: one flipped bit there can change values in silence, or send HDF5 into an endless
# loop. A seal covers all of it. Other programs do not see it:
#
# * a file ends in one more line, after the end that HDF5 has on record;
# * a Zarr directory has a list in the format of ``sha256sum`` in the folder of one array.
#
# When another program rewrites a file, the seal is gone, and the file counts as unsealed.


_SEAL_LINE = re.compile(rb"\nspdelaw sha256 ([0-9a-f]{64})\n")
_SEAL_LINE_BYTES = 81
SEAL_LIST = "spdelaw.sha256"
_HASH_CHUNK = 2**20


def seal_file(path: Path) -> None:
    """Append the line that seals a file."""
    digest = _hash(path, path.stat().st_size)
    with open(path, "ab") as file:
        file.write(b"\nspdelaw sha256 " + digest.encode() + b"\n")


def check_file(path: Path) -> None:
    """Raise FileError if a sealed file was damaged; a file without seal passes."""
    size = max(0, path.stat().st_size - _SEAL_LINE_BYTES)
    with open(path, "rb") as file:
        file.seek(size)
        line = _SEAL_LINE.fullmatch(file.read())
    if line and line[1].decode() != _hash(path, size):
        _raise_damaged(path, "other bytes")


def seal_directory(path: Path, folder: str) -> None:
    """Write the list that seals a directory, into one of its folders."""
    lines = [f"{_hash(path / name)}  {name}\n" for name in _file_names(path)]
    (path / folder / SEAL_LIST).write_text("".join(lines), encoding="utf-8")


def sealed_files(path: Path) -> list[str]:
    """Names of all files that were written with a seal, itself included; none without one."""
    lists = sorted(path.glob(f"*/{SEAL_LIST}"))
    try:
        return [*_read_list(path, lists[0]), lists[0].relative_to(path).as_posix()]
    except (IndexError, FileError):  # no list, or an unreadable one
        return []


def check_directory(path: Path) -> None:
    """Raise FileError if a sealed directory was damaged; one without seal passes."""
    lists = sorted(path.glob(f"*/{SEAL_LIST}"))
    if not lists:
        return
    listed = _read_list(path, lists[0])
    present = set(_file_names(path))
    for name in sorted(present.symmetric_difference(listed)):
        _raise_damaged(path, f"{name} {'added' if name in present else 'missing'}")
    for name, digest in listed.items():
        if _hash(path / name) != digest:
            _raise_damaged(path, f"other bytes in {name}")


def _read_list(path: Path, file: Path) -> dict[str, str]:
    try:
        pairs = [line.split("  ", 1) for line in file.read_text(encoding="utf-8").splitlines()]
        return {name: digest for digest, name in pairs}
    except ValueError:  # also a byte that is no longer text
        _raise_damaged(path, f"an unreadable {SEAL_LIST}")
        raise  # for the type checker: never reached


def _file_names(path: Path) -> list[str]:
    """Names of all files, hidden ones and the seal aside."""
    files = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(folder, n) for n in names if not n.startswith(".") and n != SEAL_LIST]
    return sorted(file.relative_to(path).as_posix() for file in files)


def _hash(path: Path, size: int | None = None) -> str:
    left = path.stat().st_size if size is None else size
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while left > 0 and (block := file.read(min(_HASH_CHUNK, left))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def _raise_damaged(path: Path, got: str) -> None:
    raise FileError(
        str(path),
        expected="the bytes that write() stored",
        got=got,
        fix="restore it from a backup or write it again; if it was changed on purpose, "
        "read(path, verify=False)",
    )
