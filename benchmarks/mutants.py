"""Thirty small mistakes in the package, one at a time: do the tests notice?

    python -m benchmarks.mutants                  # all of them, one after another
    python -m benchmarks.mutants --only disk-norm
    python -m benchmarks.mutants --unchanged      # the selected tests, without any mistake
    python -m benchmarks.mutants --write          # and write benchmarks/results/mutants.md

Each mistake is made in a temporary copy of the checkout, never in the checkout itself. It is
described by a piece of code and its replacement; the piece is searched for in the whole package and
has to occur once, so that code may move between files. A mutant is caught where a selected test
fails. Tests that cannot be collected are an error, and ``--unchanged`` shows that the selected
tests pass without a mistake. Exit code 1: fewer than `LEAST` of all are caught, a mutant does not
apply, or one of those chosen by ``--only`` or ``--unchanged`` did not end as it should.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src") / "spdelaw"
RESULTS = ROOT / "benchmarks" / "results" / "mutants.md"
#: What a copy of the checkout holds: the code, and what tests read or import.
COPIED = (
    "src",
    "tests",
    "benchmarks",
    "docs",
    "paper",
    "conftest.py",
    "pyproject.toml",
    "README.md",
)
#: Mutants of all that have to be caught, and seconds that the tests of one may take.
LEAST, SECONDS = 27, 300
#: Test folders by short name; the first of each that exists counts.
TESTS = {
    "domains": ("tests/domains", "tests/domains"),
    "equations": ("tests/processes", "tests/processes"),
    "simulation": ("tests/processes", "tests/processes"),
    "data": ("tests/data",),
    "chaos": ("tests/chaos",),
    "statespace": ("tests/statespace", "tests/statespace"),
    "law": ("tests/law",),
    "infer": ("tests/infer",),
    "amortized": ("tests/amortized", "tests/amortized"),
    "evaluation": ("tests/evaluation",),
    "report": ("tests/report",),
    "cli": ("tests/cli",),
}


class Mutant(NamedTuple):
    """One mistake.

    Attributes:
        name: of the mutant.
        old: a piece of code that occurs once in the package.
        new: what stands in its place.
        tests: short names of test folders, see `TESTS`.
        keyword: pytest's ``-k`` for them.
    """

    name: str
    old: str
    new: str
    tests: tuple[str, ...]
    keyword: str


MUTANTS = (
    # -- domains ---------------------------------------------------------------------------
    Mutant("sphere-region", "gaps[-1] > 2.0 * np.median(gaps[:-1])",
           "gaps[-1] > 20.0 * np.median(gaps[:-1])", ("domains",), "sphere"),
    Mutant("interval-ends", 'outer = 1.0 if self.boundary == "neumann" else 0.5',
           'outer = 0.5 if self.boundary == "neumann" else 1.0', ("domains",), "interval"),
    Mutant("disk-norm", "radial = 0.5 * scipy.special.jv(m + 1, j) ** 2",
           "radial = scipy.special.jv(m + 1, j) ** 2", ("domains",), "disk"),
    # -- processes -------------------------------------------------------------------------
    Mutant("step-doubling", "omega = omega + f @ omega @ np.swapaxes(f, -1, -2)",
           "omega = omega + f @ omega @ f", ("equations",), "matrices or transition"),
    Mutant("season-part", "cells.astype(int) % self.n_parts",
           "(cells.astype(int) + 1) % self.n_parts", ("equations",), "season"),
    Mutant("forcing-slope", "h * f * first + h**2 * slope * second",
           "h * f * first + h * slope * second", ("equations",), "forcing"),
    Mutant("semi-implicit", "a = 1.0 / (1.0 + dynamics.drift * dt[:, None])",
           "a = 1.0 - dynamics.drift * dt[:, None]", ("simulation",), "semi_implicit"),
    Mutant("simulated-noise", "fields += self.observation_std * z",
           "fields += self.observation_std**2 * z", ("simulation",), "observation_noise"),
    # -- data ------------------------------------------------------------------------------
    Mutant("trend-sign", "means - slope * t_mean", "means + slope * t_mean",
           ("data",), "prepare"),
    Mutant("mask-all", "min(round(fraction * size), size - 1)", "min(round(fraction * size), size)",
           ("data",), "mask"),
    Mutant("split-remainders", 'np.argsort(sizes - ideal, kind="stable")',
           'np.argsort(ideal - sizes, kind="stable")', ("data",), "remainders"),
    Mutant("globe-extent", "GLOBAL_LON, GLOBAL_LAT = 270.0, 90.0",
           "GLOBAL_LON, GLOBAL_LAT = 90.0, 90.0", ("data",), "globe or map"),
    # -- chaos -----------------------------------------------------------------------------
    Mutant("cosine-response", "lam**2 * mean + swing - lam * droop",
           "lam**2 * mean + swing + lam * droop", ("chaos",), "propagators"),
    Mutant("chaos-variance", "decay_mean(2.0 * rate * age, xp)", "decay_mean(rate * age, xp)",
           ("chaos",), "tail"),
    # -- state space -----------------------------------------------------------------------
    Mutant("step-residual", "after - 2.0 * f * cross + f**2 * before",
           "after - f * cross + f**2 * before", ("statespace",), "statistics"),
    Mutant("score-half", "0.5 * (residual / omega - count) / omega",
           "(residual / omega - count) / omega", ("statespace",), "statistics"),
    Mutant("smoother-covariance", "multiply(cross, transpose(gain)) + inverse[t]",
           "multiply(cross, gain) + inverse[t]", ("statespace",), "smoother"),
    Mutant("weighted-misfit", "residual *= np.sqrt(w[p, t])", "residual *= w[p, t]",
           ("statespace",), "collapse"),
    # -- law -------------------------------------------------------------------------------
    Mutant("residual-variance", "(1.0 - weight) ** 2 + p", "(1.0 - weight) + p",
           ("law",), "residual"),
    Mutant("residual-draws", "white) * generator.standard_normal(free.shape)",
           "white) * 0.0 * generator.standard_normal(free.shape)", ("law",), "residual"),
    Mutant("divergence-sign", "log2 - log1 - one.shape[-1] + ratio",
           "log1 - log2 - one.shape[-1] + ratio", ("law",), "divergence"),
    # -- infer -----------------------------------------------------------------------------
    Mutant("prior-slope", "return -0.5 * z**2, -z / self.sigma", "return -0.5 * z**2, -z",
           ("infer",), "prior"),
    Mutant("curvature-half", "0.5 * (objective(x - step)[1] - objective(x + step)[1])",
           "(objective(x - step)[1] - objective(x + step)[1])", ("infer",), "curvature"),
    Mutant("season-jacobian", "np.diag(w) - np.outer(w, w) / len(w)",
           "np.diag(w) - np.outer(w, w)", ("infer",), "coordinates"),
    # -- amortized -------------------------------------------------------------------------
    Mutant("divergence-half", "0.5 * (m**2 + torch.expm1(l) - l)", "(m**2 + torch.expm1(l) - l)",
           ("amortized",), "elbo"),
    # -- evaluation ------------------------------------------------------------------------
    Mutant("crps-density", "+ 2 * density - 1 / np.sqrt(np.pi)",
           "+ density - 1 / np.sqrt(np.pi)", ("evaluation",), "crps"),
    Mutant("persistence-age", "last * np.power(factor, k + age)", "last * np.power(factor, k)",
           ("evaluation",), "persist"),
    # -- report ----------------------------------------------------------------------------
    Mutant("variance-centring", "v = deviation.sum(0) / (count - 1)",
           "v = deviation.sum(0) / count",
           ("report",), "variance"),
    Mutant("moment-error", "(m - mean) / np.sqrt(variance / n)", "(m - mean) / np.sqrt(variance)",
           ("report",), "moments"),
    # -- cli -------------------------------------------------------------------------------
    Mutant("least-count", "if not text.isdecimal() or int(text) < least:",
           "if not text.isdecimal() or int(text) <= least:", ("cli",), "calls"),
)  # fmt: skip


class Outcome(NamedTuple):
    """What became of a mutant: "caught", "survived" or an error; where it was; how long."""

    name: str
    file: str
    verdict: str
    test: str
    seconds: float


def main() -> int:
    """Run the mutants and print what became of them."""
    options = _options()
    chosen = [m for m in MUTANTS if not options.only or m.name in options.only]
    if options.unchanged:  # equal selections once
        chosen = list({(m.tests, m.keyword): m for m in chosen}.values())
    print("| mutant | file | outcome | first failing test | s |\n| --- | --- | --- | --- | ---: |")
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda m: _run(m, options.unchanged), chosen))
    if options.unchanged:
        return int(any(o.verdict != "survived" for o in outcomes))
    n_caught = sum(o.verdict == "caught" for o in outcomes)
    print(f"\n{n_caught} of {len(chosen)} caught")
    if options.write:
        RESULTS.write_text(_page(outcomes), encoding="utf-8")
    is_broken = any(o.verdict not in ("caught", "survived", "timed out") for o in outcomes)
    return int(is_broken or n_caught < min(LEAST, len(chosen)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    names = [m.name for m in MUTANTS]
    parser.add_argument("--only", nargs="*", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--unchanged", action="store_true", help="run the tests without mistakes")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    return parser.parse_args()


def _run(mutant: Mutant, unchanged: bool) -> Outcome:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = _copy(Path(folder))
        files = _files_with(mutant.old, copy)
        name = ", ".join(file.relative_to(copy / PACKAGE).as_posix() for file in files)
        if len(files) != 1:
            verdict, test = "not applicable", f"the code occurs {len(files)} times"
        else:
            if not unchanged:
                text = files[0].read_text(encoding="utf-8")
                files[0].write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
            verdict, test = _test(mutant, copy)
    outcome = Outcome(mutant.name, name, verdict, test, time.perf_counter() - start)
    print(_row(outcome), flush=True)
    return outcome


def _copy(folder: Path) -> Path:
    """The part of the checkout that tests need, without compiled files."""
    for source in (ROOT / name for name in COPIED if (ROOT / name).exists()):
        name = source.name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)
    return folder


def _files_with(code: str, copy: Path) -> list[Path]:
    """Files of the package in which a piece of code occurs, each as often as it does."""
    files = sorted((copy / PACKAGE).rglob("*.py"))
    return [f for f in files for _ in range(f.read_text(encoding="utf-8").count(code))]


def _test(mutant: Mutant, copy: Path) -> tuple[str, str]:
    """Verdict of the tests, and the first that failed."""
    folders = [folder for name in mutant.tests for folder in _folders(name, copy)]
    command = [
        sys.executable, "-m", "pytest", *folders, "-k", mutant.keyword, "-m", "not slow", "-x",
        "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no",
    ]  # fmt: skip
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    path = {"PYTHONPATH": os.pathsep.join([str(copy / "src"), str(copy)])}
    try:
        done = subprocess.run(
            command, cwd=copy, env={**os.environ, **threads, **path}, capture_output=True,
            text=True, timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "timed out", ""
    return _verdict(done.returncode, _first_failure(done.stdout.splitlines()))


def _verdict(code: int, failure: str) -> tuple[str, str]:
    """Verdict of pytest's exit code and first failure.

    A file that cannot be collected ends in the code of a failed test, but names no test: it says
    nothing about the mutant.
    """
    if code == 0:
        return "survived", ""
    if code == 1 and "::" in failure:
        return "caught", failure
    return f"error {code}", failure


def _folders(name: str, copy: Path) -> list[str]:
    return [folder for folder in TESTS[name] if (copy / folder).is_dir()][:1]


def _first_failure(lines: Iterable[str]) -> str:
    failed = (line.split()[1] for line in lines if line.startswith(("FAILED ", "ERROR ")))
    return next(failed, "").removeprefix("tests/")


def _row(outcome: Outcome) -> str:
    *cells, seconds = outcome
    return f"| {' | '.join(cells)} | {seconds:.0f} |"


def _page(outcomes: list[Outcome]) -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    n_caught = sum(o.verdict == "caught" for o in outcomes)
    head = "| mutant | file | outcome | first failing test | s |\n| --- | --- | --- | --- | ---: |"
    rows = "\n".join(map(_row, outcomes))
    return (
        "# Mutants: do the tests notice a mistake?\n\n"
        f"{n_caught} of {len(outcomes)} small mistakes are caught by the tests that are selected "
        f"for them. At least {LEAST} have to be.\n\n{head}\n{rows}\n\n"
        f"Command: `python -m benchmarks.mutants --write`. Commit: {commit}. Seconds include the "
        "start of pytest, on a machine that others use, too.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
