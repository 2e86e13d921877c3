"""Mutated inputs and kills: nothing may end in a traceback, hang, or leave a file corrupt.

    python -m benchmarks.reliability --inputs 10000 --kills 100

An input passes where the library returns or raises an error of its own, and where the shell ends
with exit code 0, 1 or 2. Kills are SIGKILLs at random moments of a process that saves, writes or
trains; afterwards there must be the old or the new file, complete, and training must go on.
The result is written to benchmarks/reliability.md; the exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

import spdelaw as sl
from benchmarks._mutate import mutate_bytes, mutate_command, mutate_document, mutate_yaml
from spdelaw.cli.shell import app
from spdelaw.data.io.files import read_dataset
from spdelaw.domains.registry import from_dict
from spdelaw.errors import SpdeLawError
from spdelaw.law.io import _digest

EQUATION = sl.catalogue.heat(n_modes=2)
TIMES, GRID = np.linspace(0.0, 1.0, 6), np.linspace(0.0, np.pi, 7)
#: The shell put together once: that takes longer than most inputs.
SHELL: Any = typer.main.get_command(app)
#: Seconds after which an input counts as a hang, on a busy machine.
HANG = 60
#: Inputs that one process runs before it hands back its counts.
PART = 250
#: Laws to mutate, by name, with the settings of their fit: each has parts that others do not.
LAWS: dict[str, dict[str, Any]] = {
    "good": {},
    "forced": {"forcing": sl.Forcing([0.0, 0.5, 1.0], [[1.0, 0.0], [2.0, 0.5], [0.0, 1.0]])},
    "seasonal": {"season": sl.Season(0.5, 2)},
    "coupled": {"drift": "dense", "noise": "dense"},
    "stationary": {"initial": "stationary"},
}
SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
#: One domain of every kind.
DOMAINS: tuple[sl.AbstractDomain, ...] = (
    sl.Interval(), sl.Line(), sl.Plane(), sl.Sphere(), sl.Disk(), sl.Box((0, 1), (0, 2)),
    sl.Graph(np.ones((4, 4)), 2), sl.Mesh(SQUARE, np.array([[0, 1, 2], [0, 2, 3]]), 2),
    sl.Empirical(sl.simulate(EQUATION, 4, TIMES, GRID, seed=0), 2),
)  # fmt: skip
CONFIG = """modes: 2
domain: interval
bounds: [0, 3.2]
boundary: neumann
initial: auto
observation-noise: none
nuisance: 0
level: 0.9
seed: 3
detrend: true
out: a.law
"""
FORECAST = ["--until", "2", "--steps", "3", "--out", "f.nc"]
COMMANDS = (
    ["info", "data.nc"], ["show", "good.law"], ["fit", "data.nc", "--modes", "1", "--out", "a.law"],
    ["fit", "data.nc", "--modes", "1", "--season", "0.5", "2", "--out", "a.law"],
    ["fit", "data.nc", "--modes", "1", "--forcing", "data.nc", "--out", "a.law"],
    ["sample", "good.law", "--paths", "2", "--out", "s.nc"],
    ["reconstruct", "good.law", "data.nc", "--out", "r.nc"],
    ["forecast", "good.law", "data.nc", *FORECAST],
    ["forecast", "seasonal.law", "data.nc", *FORECAST], ["evaluate", "good.law", "data.nc"],
    ["simulate", "heat", "--paths", "2", "--steps", "3", "--modes", "2", "--out", "new.nc"],
    ["dataset", "equatorial-pacific", "--out", "d.nc"], ["--version"], ["fit", "--help"],
)  # fmt: skip


class Failure(NamedTuple):
    """What went wrong, for which input."""

    kind: str
    number: int
    what: str


class Hang(BaseException):
    """An input took too long; no handler of the library may catch it."""


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise `Hang` after some seconds."""

    def ring(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ------------------------------------------------------------------ mutated inputs


def make_seeds(folder: Path) -> None:
    """Small valid files to mutate."""
    data = sl.simulate(EQUATION, 4, TIMES, GRID, seed=0)
    sl.write(data, folder / "data.nc")
    for name, settings in LAWS.items():
        sl.fit(data, EQUATION.domain, 2, **settings).save(folder / f"{name}.law")
    (folder / "fit.yaml").write_text(CONFIG)


def law_directory(rng: random.Random, folder: Path) -> None:
    """A law with one file mutated; often with the digest made right, so that it is parsed."""
    good, bad = folder / f"{rng.choice(list(LAWS))}.law", folder / "bad.law"
    bad.mkdir(exist_ok=True)
    text, arrays = (good / "law.json").read_bytes(), (good / "arrays.safetensors").read_bytes()
    kind = rng.randrange(4)
    if kind == 0:
        text = mutate_bytes(text, rng)
    elif kind == 1:
        arrays = mutate_bytes(arrays, rng)
    (bad / "arrays.safetensors").write_bytes(arrays)
    if kind >= 2:
        document = mutate_document(json.loads(text), rng)
        if isinstance(document, dict):
            document["sha256"] = _digest(document, bad / "arrays.safetensors")
        text = json.dumps(document).encode("utf-8", "surrogatepass")
    (bad / "law.json").write_bytes(text)
    law = sl.load(bad)
    repr(law)
    law.sample(1, times=[0.0, 0.5])


def netcdf(rng: random.Random, folder: Path) -> None:
    """A NetCDF file with its bytes mutated, read with its seal and without."""
    bad = folder / "bad.nc"
    bad.write_bytes(mutate_bytes((folder / "data.nc").read_bytes(), rng))
    try:
        sl.read(bad)
    except SpdeLawError:
        read_dataset(bad, verify=False)


def config(rng: random.Random, folder: Path) -> None:
    """`spdelaw fit --config` on mutated YAML; the data are missing, so that nothing is fitted."""
    (folder / "bad.yaml").write_bytes(mutate_yaml(CONFIG, rng))
    run_shell(["fit", "no-such-file.nc", "--config", "bad.yaml", "--out", "a.law"])


def command_line(rng: random.Random, folder: Path) -> None:
    """A mutated command line, run in this process."""
    run_shell(mutate_command(rng.choice(COMMANDS), rng))


def domain_description(rng: random.Random, folder: Path) -> None:
    """The description of a domain with entries changed, removed or added, and what is built."""
    domain = from_dict(mutate_document(rng.choice(DOMAINS).to_dict(), rng))
    domain.eigenvalues(1)
    domain.eigenfunctions(domain.grid(4), 1)


def json_command(rng: random.Random, folder: Path) -> None:
    """A mutated command line with ``--json``: one document on stdout, however it ends."""
    words = [*mutate_command(rng.choice(COMMANDS[:-2]), rng), "--json"]
    said = run_shell(words)
    plain = {"--", "--help", "-h", "--version"} & set(words)  # text was asked for, or no JSON
    if not plain and not isinstance(json.loads(said), dict):
        raise RuntimeError(f"no JSON document on stdout of {words}")


def run_shell(words: list[str]) -> str:
    """Run the shell here; anything but the documented exit codes is a failure. Its stdout."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace") for _ in range(2)
    )
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            SHELL.main(args=words, prog_name="spdelaw", standalone_mode=True)
        except SystemExit as end:
            if end.code not in (0, 1, 2, None):
                raise RuntimeError(f"exit code {end.code} of {words}") from end
    out.seek(0)
    return out.read()


KINDS: dict[str, tuple[Callable[[random.Random, Path], None], float]] = {
    "law directories": (law_directory, 0.4),
    "NetCDF files": (netcdf, 0.3),
    "domain descriptions": (domain_description, 0.1),
    "YAML configs": (config, 0.1),
    "command lines": (command_line, 0.05),
    "command lines with --json": (json_command, 0.05),
}


def fuzz(total: int, seed: int, jobs: int) -> tuple[Counter, list[Failure]]:
    """Run all kinds; each input has a random stream of its own, named by its number."""
    parts = [
        (kind, seed, range(start, min(start + PART, round(share * total))))
        for kind, (_, share) in KINDS.items()
        for start in range(0, round(share * total), PART)
    ]
    counts: Counter = Counter()
    failures: list[Failure] = []
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for found, wrong in pool.imap_unordered(_part, parts):
            counts += found
            failures += wrong
    return counts, failures


def _part(part: tuple[str, int, range]) -> tuple[Counter, list[Failure]]:
    """Some numbers of one kind, in a folder of their own."""
    kind, seed, numbers = part
    counts: Counter = Counter()
    failures: list[Failure] = []
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        make_seeds(folder)
        for number in numbers:
            outcome = _one(KINDS[kind][0], random.Random(f"{seed} {kind} {number}"), folder)
            counts[kind, outcome.partition(":")[0]] += 1
            if outcome.startswith(("traceback", "hang")):
                failures.append(Failure(kind, number, outcome))
                print(f"{kind} {number}: {outcome}", flush=True)
    return counts, failures


def _one(run: Callable[[random.Random, Path], None], rng: random.Random, folder: Path) -> str:
    try:
        with warnings.catch_warnings(), limited(HANG):
            warnings.simplefilter("ignore")
            run(rng, folder)
        return "accepted"
    except SpdeLawError:
        return "refused"
    except Hang:
        return f"hang: more than {HANG} s"
    except BaseException:
        return f"traceback: {traceback.format_exc(limit=-3)}"


# ------------------------------------------------------------------ kills


def kill_during(action: Callable[[], None], rng: random.Random, longest: float) -> bool:
    """Fork, repeat the action in the child, and kill it at a random moment; False if it failed."""
    child = os.fork()
    if child == 0:
        try:
            while True:
                action()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    time.sleep(rng.uniform(0.0, longest))
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def kill_saves(n: int, rng: random.Random, folder: Path) -> int:
    """Laws: after each kill the law is one of the two that were being saved. Returns failures."""
    data = sl.simulate(EQUATION, 4, TIMES, GRID, seed=0)
    laws = [sl.fit(data[: 3 + i], EQUATION.domain, 2) for i in range(2)]
    target = folder / "killed.law"
    laws[0].save(target)

    def both() -> None:
        for law in laws:
            law.save(target)

    bad = 0
    for _ in range(n):
        fine = kill_during(both, rng, 0.15)
        try:
            found = sl.load(target).parameters
            fine &= any(found.identical(law.parameters) for law in laws)
        except SpdeLawError:
            fine = False
        bad += not fine
    return bad


def kill_writes(n: int, rng: random.Random, folder: Path) -> int:
    """Fields: after each kill the file is one of the two that were being written."""
    fields = [sl.simulate(EQUATION, 4, TIMES, GRID, seed=i) for i in range(2)]
    target = folder / "killed.nc"
    sl.write(fields[0], target)

    def both() -> None:
        for one in fields:
            sl.write(one, target)

    bad = 0
    for _ in range(n):
        fine = kill_during(both, rng, 0.15)
        try:
            values = sl.read(target).values
            fine &= any(np.array_equal(values, one.values) for one in fields)
        except SpdeLawError:
            fine = False
        bad += not fine
    return bad


def kill_training(n: int, rng: random.Random, folder: Path) -> tuple[int, bool]:
    """Training: kills in a run of many checkpoints; failures, and whether the end is bit-equal."""
    import torch

    from spdelaw.amortized.training import read_checkpoint

    torch.set_num_threads(1)
    data = sl.simulate(EQUATION, 40, TIMES, GRID, seed=0)
    settings: dict[str, Any] = {
        "epochs": 60, "batch_size": 20, "n_hidden": 8, "n_embedding": 4, "n_reference": 4,
        "n_time": 3, "checkpoint_every": 1, "seed": 5,
    }  # fmt: skip

    def train(where: Path) -> sl.Law:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sl.fit(
                data, EQUATION.domain, 2, engine="amortized", checkpoint=where, **settings
            )

    whole = train(folder / "whole")
    bad = 0
    for _ in range(n):
        fine = kill_during(lambda: train(folder / "parts"), rng, 1.0)
        if (folder / "parts").exists():
            try:
                read_checkpoint(folder / "parts")
            except SpdeLawError:
                fine = False
        bad += not fine
    return bad, train(folder / "parts").parameters.identical(whole.parameters)


# ------------------------------------------------------------------ the report


def main() -> int:
    """Run, write the table, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("reliability.md"))
    given = parser.parse_args()
    start = time.perf_counter()
    counts, failures = fuzz(given.inputs, given.seed, given.jobs)
    rows = [_row(kind, counts) for kind in KINDS]
    kills, broken = [], len(failures)
    if given.kills:
        with tempfile.TemporaryDirectory() as name:
            folder, rng = Path(name), random.Random(given.seed)
            trained = max(1, given.kills // 4)
            saves = kill_saves(given.kills, rng, folder)
            writes = kill_writes(given.kills, rng, folder)
            training, equal = kill_training(trained, rng, folder)
        kills = [
            f"| saving a law | {given.kills} | {saves} |",
            f"| writing a NetCDF file | {given.kills} | {writes} |",
            f"| training with a checkpoint every epoch | {trained} | {training} |",
        ]
        broken += saves + writes + training + (not equal)
        word = "bit for bit that" if equal else "NOT that"
        told = f"The run that was killed {trained} times ends in a law that is {word}"
        kills.append(f"\n{told} of a run that was not.")
    text = _document(given, rows, kills, time.perf_counter() - start)
    given.out.write_text(text, encoding="utf-8")
    print(text)
    return 1 if broken else 0


def _row(kind: str, counts: Counter) -> str:
    names = ("accepted", "refused", "traceback", "hang")
    found = [counts[kind, name] for name in names]
    return f"| {kind} | {sum(found)} | {' | '.join(map(str, found))} |"


def _document(given: argparse.Namespace, rows: list[str], kills: list[str], seconds: float) -> str:
    command = f"python -m benchmarks.reliability --inputs {given.inputs} --kills {given.kills}"
    lines = [
        "# Reliability", "", f"    {command} --seed {given.seed}", "",
        "Mutated inputs: *accepted* where the mutation does no harm or the shell ended with one of",
        "its exit codes, *refused* where an error of the package said why; tracebacks and hangs",
        "are defects.",
        "", "| inputs | number | accepted | refused | tracebacks | hangs |",
        "| --- | --: | --: | --: | --: | --: |", *rows, "",
    ]  # fmt: skip
    if kills:
        lines += [
            "SIGKILL at random moments; corrupt means neither the old nor the new file was whole.",
            "", "| killed while | kills | corrupt |", "| --- | --: | --: |", *kills, "",
        ]  # fmt: skip
    lines += [f"Python {sys.version.split()[0]}, spdelaw {sl.__version__}, {seconds:.0f} s.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
