"""The cases of attack in `tests/test_safety.py`: what each does today and at an earlier commit.

    python -m benchmarks.hostile_cases db23711

Every test runs in this tree, and against the sources of the commit, with the names it had then
(`benchmarks/_earlier_names.py`). That code replaces devices, so root runs it as an unprivileged
user. The table goes to benchmarks/results/hostile_cases.md. The exit code is 1 where a test fails
here, or passes there without a reason.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "test_safety.py"
HERE = Path(__file__).parent
TABLE = HERE / "results" / "hostile_cases.md"
#: An unprivileged user, who may read all files and make devices, and writes to one folder only.
NOBODY, CAPABILITIES = 65534, "-all,+dac_read_search,+mknod"
#: Tests that pass at the earlier commit as well, by the beginning of their names, and why.
REASONS = {
    "test_1_a_forged_manifest": "refused there too, other entries of the manifest are not",
    "test_1_a_manifest_of_something_else": "refused there too, other texts are not",
    "test_2_a_law_beside_a_writer": "a race, which two of three runs there lost",
    "test_4_a_full_disk": "held there too, NetCDF files and laws did not",
    "test_8_a_forged_law_of_any_schema": "refused there too, the schemas 1, 2 and true are not",
    "test_8_tiny_fields": "fails there for one random field in fifteen, none of these",
    "test_8_wrong_arguments": "refused there too, most others are not",
    "test_8_odd_data_are_taken_or_refused_in_words[to_table]": "cannot run there: a later function",
    "test_8_odd_data_are_taken_or_refused_in_words[verify]": "cannot run there: a later function",
    "test_8_odd_data_are_taken_or_refused_in_words[write]": "cannot run there: no tables yet",
    "test_9_info_loads_the_variable": "cannot fail there: the limit of memory it sets is new",
    "test_10_passes": "one pass there too where fields are complete and without noise",
    "test_10_a_lazy_directory_is_read_from": "held there too",
    "test_10_a_lazy_record": "agrees there on these data; 8.8e-6 was seen on others",
}
SUBJECTS = {
    "1": "directory of `fit_many`", "2": "law that is replaced while it is read",
    "3": "checkpoints", "4": "full disk", "5": "devices and pipes as output",
    "6": "output equal to input", "7": "data of other files", "8": "tracebacks",
    "9": "hangs and memory", "10": "lazy data", "also": "also",
}  # fmt: skip


def unprivileged(folder: Path) -> list[str]:
    """What stands before a command of root, so that it can write to one folder only."""
    if os.geteuid():
        return []
    os.chown(folder, NOBODY, NOBODY)
    sets = [f"--{name}={CAPABILITIES}" for name in ("inh-caps", "ambient-caps", "bounding-set")]
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *sets]


def outcomes(
    folder: Path, words: list[str], cwd: Path, path: str, before: list[str] | None = None
) -> dict[str, str]:
    """First line of the failure of every test, empty where it passes."""
    report = folder / "report.xml"
    pytest = [sys.executable, "-m", "pytest", "-q", "--tb=line", f"--junitxml={report}", *words]
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg",
                   "HOME": str(folder), "TMPDIR": str(folder)}  # fmt: skip
    command = [*(before or []), *pytest]
    subprocess.run(command, cwd=cwd, env=environment, stdout=subprocess.DEVNULL, check=False)
    results = {}
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        problem = next(
            (case.find(k) for k in ("failure", "error") if case.find(k) is not None), None
        )
        message = "" if problem is None else (problem.get("message") or "fails").strip()
        results[str(case.get("name"))] = " ".join(message.splitlines()[:2])
    return results


def earlier_outcomes(commit: str) -> dict[str, str]:
    """The outcomes against the sources of a commit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive = subprocess.run(
            ["git", "archive", commit, "src"], cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
        (folder / "benchmarks").mkdir()
        for file in (TESTS, HERE / "_earlier_names.py", HERE / "_odd_data.py"):
            shutil.copy(file, folder / ("benchmarks" if file.name == "_odd_data.py" else ""))
        (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
        words, path = ["-p", "_earlier_names", TESTS.name], f"{folder / 'src'}{os.pathsep}{folder}"
        return outcomes(folder, words, folder, path, unprivileged(folder))


def table(commit: str, today: dict[str, str], earlier: dict[str, str]) -> str:
    """One row for each test."""
    lines = [
        "# Hostile cases", "", f"    python -m benchmarks.hostile_cases {commit}", "",
        f"| case | test | at {commit} | today |", "| --- | --- | --- | --- |",
    ]  # fmt: skip
    for name, message in today.items():
        number = name.split("_")[1]
        before = f"fails: {short(earlier[name])}" if earlier[name] else f"passes: {reason(name)}"
        after = f"fails: {short(message)}" if message else "passes"
        lines.append(f"| {number} {SUBJECTS[number]} | `{short(name)}` | {before} | {after} |")
    failed = sum(map(bool, earlier.values()))
    lines += [
        "",
        f"{failed} of {len(today)} fail at {commit}; {sum(map(bool, today.values()))} today.",
        "",
    ]
    return "\n".join(lines)


def short(message: str) -> str:
    """A message on one line of a table, without names of folders."""
    words = [word for word in message.split() if "/tmp/" not in word]
    return " ".join(words).replace("|", "/").replace("`", "'")[:110].strip()


def reason(name: str) -> str:
    """Why a test passes at the earlier commit."""
    return next((why for start, why in REASONS.items() if name.startswith(start)), "")


def main() -> int:
    """Run both, write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", nargs="?", default="db23711")
    commit = parser.parse_args().commit
    with tempfile.TemporaryDirectory() as name:
        words, path = ["-p", "no:cacheprovider", str(TESTS)], f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        today = outcomes(Path(name), words, ROOT, path)
    earlier = earlier_outcomes(commit)
    text = table(commit, today, earlier)
    TABLE.write_text(text, encoding="utf-8")
    print(text)
    return int(any(today.values()) or any(not (earlier[n] or reason(n)) for n in today))


if __name__ == "__main__":
    sys.exit(main())
