"""The door itself: help, version, usage errors, signals, imports."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import pytest
import typer
from typer.testing import CliRunner

import spdelaw as sl
from spdelaw.cli.output import one_line_errors
from spdelaw.cli.shell import COMMANDS, app


def test_help_and_version(run):
    assert run("--version").stdout == f"spdelaw {sl.__version__}\n"
    text = run("--help").stdout
    assert all(name in text for name in (*COMMANDS, "--version"))
    for command in COMMANDS:
        text = run(command, "--help").stdout
        assert f"spdelaw {command} " in text.split("Example")[1]
        assert "--json" in text
        assert "--quiet" in text


def test_exit_codes_of_the_process(shell):
    good = shell("simulate heat --paths 3 --modes 4 --out a.nc --quiet")
    assert (good.returncode, good.stdout, good.stderr) == (0, "", "")
    bad = shell("simulate heta --out b.nc")
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)
    assert "did you mean heat?" in bad.stderr


def hear_interrupts():
    """Tests that a shell put into the background would pass on that Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("name", ["big.zarr", pytest.param("big.nc", marks=pytest.mark.slow)])
def test_interrupt_leaves_nothing_behind(folder, name):
    args = ["simulate", "heat", "--paths", "8000", "--points", "51", "--out", name]
    code = "from spdelaw.cli import main; print(flush=True); main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *args],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=hear_interrupts,
    )  # fmt: skip
    process.stdout.readline()  # imports are done, work begins
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr in (
        "error: interrupted; no output file is incomplete\n",
        "",
    )  # "" on a slow start
    assert list(folder.iterdir()) == []


INTERRUPTS = """
import os, signal, time
from spdelaw.cli.entry import deferred_interrupts, kept_interrupts

def press():
    os.kill(os.getpid(), signal.SIGINT)

try:
    with deferred_interrupts() as check:
        press(); print("held"); check(); print("wrong")
except KeyboardInterrupt:
    print("checked")
try:
    with deferred_interrupts():
        press(); print("held"); press(); print("wrong")
except KeyboardInterrupt:
    print("twice")
try:
    with deferred_interrupts():
        press(); print("held")
    print("wrong")
except KeyboardInterrupt:
    print("ended")

class Deaf:
    def __del__(self):
        press(); time.sleep(0.1)

try:
    with kept_interrupts():
        Deaf(); print("lost"); [time.sleep(0.01) for _ in range(500)]; print("wrong")
except KeyboardInterrupt:
    print("again")
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_interrupts_are_held_back_and_never_lost():
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTS], capture_output=True, text=True, timeout=60,
        preexec_fn=hear_interrupts,
    )  # fmt: skip
    assert run.stderr == ""
    assert " ".join(run.stdout.split()) == "held checked held twice held ended lost again"


ENDS = [
    (sl.errors.InputError("a", expected="b", got="c\nd", fix="e"), 2, "got c d. Fix: e"),
    (MemoryError("9 TiB"), 2, "not enough memory (9 TiB)"),
    (PermissionError(13, "Permission denied", "x.nc"), 2, "x.nc: Permission denied"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (KeyError("x"), 1, None),  # a defect keeps its traceback
]


@pytest.mark.parametrize(("error", "code", "message"), ENDS)
@pytest.mark.parametrize("as_json", [False, True])
def test_errors_become_one_line_and_one_document(capsys, error, code, message, as_json):
    with pytest.raises((typer.Exit, KeyError)) as caught, one_line_errors(as_json=as_json):
        raise error
    out, err = capsys.readouterr()
    if message is not None:
        assert caught.value.exit_code == code
        assert err.startswith("error: ")
        assert message in err
        assert err.count("\n") == 1
    if as_json:
        document = json.loads(out)
        assert document["exit_code"] == code
        assert document["error"]["type"] == type(error).__name__
    else:
        assert out == ""


@pytest.mark.filterwarnings("default")
def test_warnings_become_one_line(capsys):
    with one_line_errors():
        warnings.warn("3 % is\naliased", sl.errors.AliasingWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: 3 % is aliased\n"


def test_the_shell_loads_nothing_heavy():
    code = (
        "import sys; from spdelaw.cli.shell import COMMANDS, load_command;"
        "[load_command(name) for name in COMMANDS];"
        "print(*sorted({'matplotlib', 'torch', 'plotly', 'dask', 'zarr'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


OTHERS = ([], ["--version"], ["nonsense"])


@pytest.mark.parametrize(
    "args", [["--help"], ["--bogus"], *(pytest.param(a, marks=pytest.mark.slow) for a in OTHERS)]
)
def test_what_needs_no_command_loads_no_numbers(args):
    """Neither NumPy nor xarray: they take longer than the list of commands."""
    code = (
        "import atexit, sys; from spdelaw.cli import main;"
        "heavy = {'numpy', 'xarray', 'scipy', 'pandas'};"
        "atexit.register(lambda: print(*sorted(heavy & set(sys.modules)), file=sys.stderr));"
        f"sys.argv[1:] = {args!r}; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stderr.splitlines()[-1] == ""


# -- failures as JSON ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        (["info", "none.nc"], "FileError"),
        (["simulate", "heta", "--out", "a.nc"], "EquationError"),
        (["simulate", "heat", "--paths", "x", "--out", "a.nc"], "BadParameter"),
        (["simulate", "heat"], "MissingParameter"),
        (["info", "--bogus"], "NoSuchOption"),
        (["nonsense"], "UsageError"),
        (["--bogus", "info"], "NoSuchOption"),
    ],
)
def test_a_failure_with_json_is_one_document_on_stdout(folder, args, kind):
    with_json = CliRunner().invoke(app, [*args, "--json"])
    assert with_json.exit_code == 2
    document = json.loads(with_json.stdout)
    assert document["exit_code"] == 2
    error = document["error"]
    assert set(error) == {"type", "message", "what", "expected", "got", "fix"}
    assert error["type"] == kind
    without = CliRunner().invoke(app, args)
    assert without.stdout == ""
    assert with_json.stderr == without.stderr  # people who read along see the same
    assert "Traceback" not in without.stderr
    if kind in ("FileError", "EquationError"):
        assert without.stderr == f"error: {error['message']}\n"
        for part in ("what", "expected", "got", "fix"):
            assert error[part] in error["message"]


# -- signals ---------------------------------------------------------------------------


SLOWER = (["--help"], ["fit", "--help"], ["info", "complete.nc", "--json"])


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="signals")
@pytest.mark.parametrize(
    "args", [["info", "complete.nc"], *(pytest.param(a, marks=pytest.mark.slow) for a in SLOWER)]
)
def test_a_reader_that_leaves_is_no_error(stocked, args):
    """``spdelaw ... | head -0``: the end of any program of Unix, and not a word."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "spdelaw", *args]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, cwd=stocked, timeout=120)
    os.close(write)
    assert done.returncode == -signal.SIGPIPE  # 141 in a shell
    assert done.stderr == b""


def test_a_terminal_without_the_letters_of_a_unit(stocked):
    sl.write(sl.read("complete.nc").assign_attrs(units="°C"), "warm.nc")
    command = [sys.executable, "-m", "spdelaw", "info", "warm.nc"]
    here = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, cwd=stocked, env=here, timeout=120)
    assert done.returncode == 0
    assert b"?C" in done.stdout
    assert done.stderr == b""


def test_commands_for_a_terminal_in_a_file_do_not_reach_it(run, stocked):
    sl.write(sl.read("complete.nc").assign_attrs(title="\x1b[31mred\x07"), "red.nc")
    text = run("info red.nc").stdout
    assert "?[31mred?" in text
    assert "\x1b" not in text


SLOW_LIBRARY = """
import time
print("loading", flush=True)
try:
    time.sleep(60)
except BaseException:  # as libraries do that try one way after the other
    pass
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("library", ["typer", "numpy"])
def test_interrupt_while_libraries_are_loaded(folder, library):
    (folder / f"{library}.py").write_text(SLOW_LIBRARY)
    process = subprocess.Popen(
        [sys.executable, "-m", "spdelaw", "info", "a.nc"], cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=hear_interrupts,
    )  # fmt: skip
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stderr == "error: interrupted; no output file is incomplete\n"
