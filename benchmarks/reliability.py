"""Attacks with random seeds: mutated and forged files, wrong arguments, a full disk, kills.

    python -m benchmarks.reliability

Each attack counts what was tried and what went wrong: files lost (neither the old nor the new
content), contents wrongly accepted (other numbers than were written, without an error), exceptions
of other libraries, hangs. The table goes to benchmarks/results/reliability.md; the exit code is 1
if anything is above zero, but for wrong arguments, where 1 % may raise a library's exception.
Without ``--seed`` the attacks are new ones; the seed stands in the table, so that they can be
repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
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
import pandas as pd
import typer

import spdelaw as sl
from benchmarks._mutate import mutate_bytes, mutate_command, mutate_document, mutate_yaml
from benchmarks._odd_data import ODDITIES, make_files, make_verbs
from benchmarks._wrong_arguments import Call, make_calls, wrong_calls
from spdelaw.amortized.training import read_checkpoint
from spdelaw.cli.shell import app
from spdelaw.data.io.files import read_dataset
from spdelaw.data.io.records import checksum, sealed
from spdelaw.domains.registry import from_dict
from spdelaw.errors import SpdeLawError

EQUATION = sl.catalogue.heat(n_modes=2)
TIMES, GRID = np.linspace(0.0, 1.0, 6), np.linspace(0.0, np.pi, 7)
#: The shell put together once: that takes longer than most inputs.
SHELL: Any = typer.main.get_command(app)
#: Seconds after which an input counts as a hang, where nothing else runs.
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


OUTPUTS = (
    "data.nc", "./data.nc", "link.nc", "pipe.nc", "folder.nc", "/dev/null", "no/folder.nc",
    "good.law", "a" * 300 + ".nc", "a.xyz", "", ".", "..", "/", "\ud800.nc", "a.csv", "a.zarr",
)  # fmt: skip
WRITERS = (
    ["forecast", "good.law", "data.nc", "--until", "2", "--steps", "3", "--out"],
    ["sample", "good.law", "--paths", "2", "--out"],
    ["reconstruct", "good.law", "data.nc", "--out"],
    ["fit", "data.nc", "--modes", "1", "--out"],
    ["fit", "data.nc", "--domain", "eof", "--modes", "1", "--out"],
    ["simulate", "heat", "--paths", "2", "--steps", "3", "--modes", "2", "--out"],
    ["report", "good.law", "data.nc", "--out"],
    ["fill", "data.nc", "--modes", "1", "--out", "new.nc", "--save-law"],
)  # fmt: skip


TABLE = Path(__file__).parent / "results" / "reliability.md"


class Failure(NamedTuple):
    """What went wrong, for which input."""

    kind: str
    number: int
    what: str


class Hang(BaseException):
    """An input took too long; no handler of the library may catch it."""


class WronglyAccepted(BaseException):
    """Damaged content was taken for what was written."""


class Lost(BaseException):
    """Neither the old nor the new content is there."""


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
    train(folder / "run")
    fit_members(folder / "laws")


def train(where: Path, epochs: int = 2) -> sl.Law:
    """A short training with a checkpoint."""
    data = sl.simulate(EQUATION, 10, TIMES, GRID, seed=0)
    return sl.fit(data, EQUATION.domain, 2, engine="amortized", preset="structured", n_time=3,
                  epochs=epochs, checkpoint=where, checkpoint_every=1)  # fmt: skip


MEMBERS = {k: sl.simulate(EQUATION, 4, TIMES, GRID, seed=k) for k in range(2)}


def fit_members(where: Path) -> dict[Any, sl.Law]:
    """Two fits whose laws are kept."""
    words = {"mean": "zero", "nuisance": 0, "observation_noise": "none", "residual": "white"}
    return sl.fit_many(MEMBERS, EQUATION.domain, 1, directory=where, **words)


def mutated_pair(rng: random.Random, good: Path, bad: Path, names: tuple[str, str]) -> bool:
    """A document with arrays, one of them mutated; whether the checksum was made right."""
    shutil.rmtree(bad, ignore_errors=True)
    bad.mkdir()
    text, arrays = ((good / name).read_bytes() for name in names)
    kind = rng.randrange(4)
    if kind == 0:
        text = mutate_bytes(text, rng)
    elif kind == 1:
        arrays = mutate_bytes(arrays, rng)
    else:
        document = mutate_document(json.loads(text), rng)
        if isinstance(document, dict):
            document["sha256"] = checksum(document, arrays)
        text = json.dumps(document).encode("utf-8", "surrogatepass")
    for name, content in zip(names, (text, arrays), strict=True):
        (bad / name).write_bytes(content)
    return kind >= 2


def law_directory(rng: random.Random, folder: Path) -> None:
    """A law with one file mutated; often with the checksum made right, so that it is parsed."""
    good, bad = folder / f"{rng.choice(list(LAWS))}.law", folder / "bad.law"
    forged = mutated_pair(rng, good, bad, ("law.json", "arrays.safetensors"))
    law = sl.load(bad)
    repr(law)
    law.sample(1, times=[0.0, 0.5])
    if not forged and not law.parameters.identical(sl.load(good).parameters):
        raise WronglyAccepted(bad)


def checkpoint(rng: random.Random, folder: Path) -> None:
    """A checkpoint with one file mutated, read, and resumed where its checksum was made right."""
    good, bad = folder / "run", folder / "bad.run"
    forged = mutated_pair(rng, good, bad, ("run.json", "state.safetensors"))
    snapshot, _ = read_checkpoint(bad)
    if forged:
        train(bad)
        return
    original, _ = read_checkpoint(good)
    same = original.history == snapshot.history and all(
        np.array_equal(value, snapshot.arrays[key]) for key, value in original.arrays.items()
    )
    if not same:
        raise WronglyAccepted(bad)


def manifest(rng: random.Random, folder: Path) -> None:
    """The directory of many fits with its manifest or a law mutated: the same laws, or an error."""
    bad = folder / "bad.laws"
    shutil.rmtree(bad, ignore_errors=True)
    shutil.copytree(folder / "laws", bad)
    file = rng.choice([f for f in sorted(bad.rglob("*")) if f.is_file()])
    content = file.read_bytes()
    if file.name == "manifest.json" and rng.random() < 0.5:
        document = mutate_document(json.loads(content), rng)
        is_dict = isinstance(document, dict)
        text = sealed(document) if is_dict else json.dumps(document).encode(errors="replace")
        file.write_bytes(text)
    else:
        file.write_bytes(mutate_bytes(content, rng))
    laws = fit_members(bad)
    for label, law in fit_members(folder / "laws").items():
        if not np.allclose(laws[label].linear.drift, law.linear.drift, rtol=1e-9):
            raise WronglyAccepted(file)


def netcdf(rng: random.Random, folder: Path) -> None:
    """A NetCDF file with its bytes mutated, read with its seal and without."""
    bad, content = folder / "bad.nc", (folder / "data.nc").read_bytes()
    bad.write_bytes(mutate_bytes(content, rng))
    try:
        values = sl.read(bad)
    except SpdeLawError:
        read_dataset(bad, verify=False)
        return
    # Without its last line a file counts as one of another program.
    is_sealed = b"spdelaw sha256" in bad.read_bytes()[-81:]
    if is_sealed and not values.identical(sl.read(folder / "data.nc")):
        raise WronglyAccepted(bad)


@functools.cache
def valid_calls(folder: Path) -> list[Call]:
    """A valid call of every public name."""
    return make_calls(folder)


def wrong_argument(rng: random.Random, folder: Path) -> None:
    """A public name with one wrong argument."""
    _, call = next(wrong_calls(valid_calls(folder), rng))
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        call()


@functools.cache
def odd_data(folder: Path) -> tuple[list[Callable[[Any], Any]], list[Callable[[], Any]]]:
    """What takes data, and data and files with one oddity each."""
    files = [functools.partial(Path, path) for path in make_files(folder)]
    return make_verbs(folder), [*ODDITIES, *files]


def odd_input(rng: random.Random, folder: Path) -> None:
    """Data, or a file, with one oddity, to something that takes data."""
    verbs, oddities = odd_data(folder)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        rng.choice(verbs)(rng.choice(oddities)())


def output(rng: random.Random, folder: Path) -> None:
    """An output that is an input, a link to it, a pipe, a device or a folder: inputs stay whole."""
    content = (folder / "data.nc").read_bytes()
    target = rng.choice(OUTPUTS)
    if target == "link.nc" and not os.path.lexists(target):
        os.symlink("data.nc", target)
    if target == "pipe.nc" and not os.path.lexists(target):
        os.mkfifo(target)
    (folder / "folder.nc").mkdir(exist_ok=True)
    words = [*rng.choice(WRITERS), target, "--force"]
    run_shell(words)
    if (folder / "data.nc").read_bytes() != content:
        (folder / "data.nc").write_bytes(content)
        if "data.nc" in words[:-2]:
            raise Lost("data.nc")
    if os.path.lexists("pipe.nc") and not Path("pipe.nc").is_fifo():
        raise Lost("pipe.nc")
    sl.load(folder / "good.law")


def full_disk(rng: random.Random, folder: Path) -> None:
    """A limit on the size of files, which fails like a full disk, in a process of its own."""
    kind = rng.choice(["nc", "zarr", "law", "csv"])
    target, seed = folder / f"full.{kind}", rng.randrange(100)
    limit = rng.randrange(200, {"nc": 40_000, "zarr": 20_000, "law": 9_000, "csv": 50_000}[kind])
    old, new = (sl.simulate(EQUATION, n, TIMES, GRID, seed=seed) for n in (2, 60))
    if kind == "law":
        laws = [sl.load(folder / f"{name}.law") for name in ("good", "coupled")]
        laws[0].save(target, overwrite=True)
    else:
        sl.write(old, target)
    child = os.fork()
    if child == 0:
        code = 3
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            for _ in range(2):
                with contextlib.suppress(SpdeLawError):
                    if kind == "law":
                        laws[1].save(target, overwrite=True)
                    else:
                        sl.write(new, target)
            code = 0
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if kind == "law":
        back = sl.load(target).parameters
        kept = any(back.identical(law.parameters) for law in laws)
    elif kind == "csv":
        rows = len(pd.read_csv(target))
        kept = rows in (old.size, new.size)
    else:
        values = sl.read(target)
        kept = any(values.equals(one) for one in (old, new))
    if not kept:
        raise Lost(target)
    if status:
        raise RuntimeError(f"the process ended with {status}")


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
    words = mutate_command(rng.choice(COMMANDS[:-2]), rng)
    words.insert(1, "--json")  # at the end it might be the value of an option
    said = run_shell(words)
    plain = {"--", "--help", "-h", "--version"} & set(words)  # text was requested, or no JSON
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


#: Attacks with the share of the inputs that each gets.
KINDS: dict[str, tuple[Callable[[random.Random, Path], None], float]] = {
    "laws, mutated or forged": (law_directory, 0.25),
    "checkpoints, mutated or forged": (checkpoint, 0.1),
    "manifests and laws of `fit_many`": (manifest, 0.05),
    "NetCDF files, mutated": (netcdf, 0.15),
    "domain descriptions": (domain_description, 0.05),
    "YAML configs": (config, 0.05),
    "command lines": (command_line, 0.02),
    "command lines with `--json`": (json_command, 0.02),
    "full disk": (full_disk, 0.01),
    "wrong arguments": (wrong_argument, 0.3),
    "odd data and files": (odd_input, 0.15),
    "outputs that are inputs, links, pipes": (output, 0.03),
}
#: Share of calls with a wrong argument that may raise an exception of a library.
FOREIGN_SHARE = 0.01
OUTCOMES = ("lost", "wrongly accepted", "foreign", "hang")


def fuzz(total: int, seed: int, jobs: int) -> tuple[Counter, list[Failure]]:
    """Run all kinds; each input has a random stream of its own, named by its number."""
    parts = [
        (kind, seed, range(start, min(start + PART, round(share * total))))
        for kind, (_, share) in KINDS.items()
        for start in range(0, round(share * total), PART)
    ]
    counts: Counter = Counter()
    failures: list[Failure] = []
    with tempfile.TemporaryDirectory() as name:
        make_seeds(Path(name))
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            run = functools.partial(_part, Path(name))
            for found, wrong in pool.imap_unordered(run, parts):
                counts += found
                failures += wrong
    return counts, failures


def _part(seeds: Path, part: tuple[str, int, range]) -> tuple[Counter, list[Failure]]:
    """Some numbers of one kind, in a folder of their own with the valid files."""
    kind, seed, numbers = part
    counts: Counter = Counter()
    failures: list[Failure] = []
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        shutil.copytree(seeds, folder, dirs_exist_ok=True)
        for number in numbers:
            outcome = _one(KINDS[kind][0], random.Random(f"{seed} {kind} {number}"), folder)
            counts[kind, outcome.partition(":")[0]] += 1
            if outcome.startswith(OUTCOMES):
                failures.append(Failure(kind, number, outcome))
                print(f"{kind} {number}: {outcome}", flush=True)
    return counts, failures


def _one(run: Callable[[random.Random, Path], None], rng: random.Random, folder: Path) -> str:
    # Other programs on the machine make an input slower, not a hang.
    seconds = round(HANG * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))
    try:
        with warnings.catch_warnings(), limited(seconds):
            warnings.simplefilter("ignore")
            run(rng, folder)
        return "accepted"
    except SpdeLawError:
        return "refused"
    except Hang:
        return f"hang: more than {seconds} s"
    except Lost as error:
        return f"lost: {error}"
    except WronglyAccepted as error:
        return f"wrongly accepted: {error}"
    except BaseException:
        return f"foreign: {traceback.format_exc(limit=-3)}"


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
    laws[0].save(target, overwrite=True)

    def both() -> None:
        for law in laws:
            law.save(target, overwrite=True)

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
    parser.add_argument("--inputs", type=int, default=3000)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=TABLE)
    given = parser.parse_args()
    start = time.perf_counter()
    counts, _ = fuzz(given.inputs, given.seed, given.jobs)
    tried = Counter({kind: sum(n for (k, _), n in counts.items() if k == kind) for kind in KINDS})
    if given.kills:
        with tempfile.TemporaryDirectory() as name:
            folder, rng = Path(name), random.Random(given.seed)
            trained = max(1, given.kills // 4)
            kinds = "kills while a law is saved", "kills while NetCDF is written"
            for kind, attack in zip(kinds, (kill_saves, kill_writes), strict=True):
                tried[kind], counts[kind, "lost"] = given.kills, attack(given.kills, rng, folder)
            kind = "kills of a training, which then ends in the same law"
            lost, equal = kill_training(trained, rng, folder)
            tried[kind], counts[kind, "lost"] = trained, lost + (not equal)
    rows = [
        f"| {kind} | {n} | {' | '.join(str(counts[kind, word]) for word in OUTCOMES)} |"
        for kind, n in tried.items()
    ]
    text = _document(given, rows, time.perf_counter() - start)
    given.out.write_text(text, encoding="utf-8")
    print(text)
    allowed = {("wrong arguments", "foreign"): FOREIGN_SHARE * tried["wrong arguments"]}
    bad = [counts[kind, word] > allowed.get((kind, word), 0) for kind in tried for word in OUTCOMES]
    return int(any(bad))


def _document(given: argparse.Namespace, rows: list[str], seconds: float) -> str:
    command = f"python -m benchmarks.reliability --inputs {given.inputs} --kills {given.kills}"
    lines = [
        "# Reliability", "", f"    {command} --seed {given.seed}", "",
        "*Lost*: neither the old nor the new file is whole. *Wrongly accepted*: other numbers than",
        "were written, without an error. *Foreign*: an exception of another library, or the end of",
        "the process. A forged file has a checksum that is right for its changed content.",
        "", "| attack | tried | lost | wrongly accepted | foreign exceptions | hangs |",
        "| --- | --: | --: | --: | --: | --: |", *rows, "",
        f"Python {sys.version.split()[0]}, spdelaw {sl.__version__}, {seconds:.0f} s.", "",
    ]  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
