"""How much code there is, for which ability, and how many types carry one array from data to law.

    python -m benchmarks.size

Code lines are lines that are neither empty, comment nor docstring. `ABILITIES` names the modules of
the core that serve what version 0.1 could not do; the rest of the core, and the training loop that
was part of it then, is what compares with 0.1. The types are the classes of the package of which a
fit of one small gappy data set makes instances, with and without those abilities.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import spdelaw as sl

ROOMS = ("domain", "equation", "simulation", "simulate", "data", "chaos", "model", "law", "train",
         "infer", "evaluation", "evaluate", "report", "paper", "baselines", "cli")  # fmt: skip
CORE = ("equation", "simulation", "simulate", "model", "law", "infer")
SOURCE = Path(sl.__file__).parent
#: Code lines of the core of version 0.1, and types of the same fit.
BEFORE, TYPES_BEFORE = 9690, 30
#: Modules by what they add to version 0.1, as patterns below the package; the first that fits.
ABILITIES = {
    "several fields in one law": (
        "equation/_field*", "infer/_several_fields*"),
    "terms: semilinear laws and their discovery": (
        "equation/_closure*", "equation/_exponential*", "equation/_polynomial*",
        "equation/_reacting*", "equation/_semilinear*", "equation/_terms*",
        "simulation/_semilinear*", "model/_semilinear*", "infer/_semilinear*", "infer/_discovery*",
        "infer/semilinear/*"),
    "any dynamics: filter and smoother": ("equation/_dynamics*", "model/_filter*"),
    "mean: restricted likelihood and its test": (
        "model/_mean*", "model/_restricted*", "infer/_mean*", "infer/_known_mean*",
        "infer/_coupled_null*"),
    "intervals by profile": (
        "infer/_profile*", "infer/_intervals*", "infer/_joint_profile*", "infer/_held*",
        "infer/_mean_interval*",
    ),
    "rest with memory": ("law/_rest*", "infer/_rest*"),
    "lazy data, records cut in time, many fits": (
        "model/_pieces*", "model/_records*", "model/_stitch*", "law/_lazy*", "infer/_passes*",
        "infer/_fit_many*"),
    "training in several processes": ("train/_processes*",),
    "progress of long fits": ("infer/_watch*",),
    "log-likelihood of named numbers": ("law/_likelihood*",),
    "one registry of engines": ("infer/_engine*",),
    "speed of long records and coupled modes": (
        "model/_tridiagonal*", "model/_compiled_chain*", "model/_steady*", "model/_information*",
        "model/_louis*", "infer/_metric*", "infer/_chain_rule*"),
    "bands that know how well parameters are known": ("law/_parameter_draws*",),
    "paths of the paper's decoder": ("infer/amortized/_sample_decoder*",),
}  # fmt: skip


def main() -> int:
    """Print lines by room and by ability, and the types of a gappy fit."""
    lines = {room: code_lines(SOURCE / room) for room in ROOMS if (SOURCE / room).is_dir()}
    for room, n in lines.items():
        print(f"{room:12} {n:6}")
    core, moved = sum(lines.get(room, 0) for room in CORE), lines.get("train", 0)
    print(f"{'core':12} {core:6}  ({', '.join(CORE)})")
    print("\nof the core and of train, which was part of it, what version 0.1 could not do:")
    added = modules()
    for name in ABILITIES:
        n = sum(_lines(path) for path, ability in added.items() if ability == name)
        print(f"  {name:46} {n:6}")
    same = core + moved - sum(map(_lines, added))
    print(f"  {'everything else':46} {same:6}  (0.1: {BEFORE})")
    for what, words in (("fit", {}), ("fit with mean='zero'", {"mean": "zero"})):
        carriers = types_of(_gappy_fit(**words))
        own = sorted(f"{kind.__module__.split('.')[1]}.{kind.__name__}" for kind in carriers)
        print(f"\n{len(own)} types in a gappy {what}: {', '.join(own)}")
    old = sorted(kind.__name__ for kind in carriers if _file_of(kind) not in added)
    print(f"{len(old)} of them for what 0.1 could do (0.1: {TYPES_BEFORE})")
    return 0


def modules() -> dict[Path, str]:
    """Modules of abilities that version 0.1 did not have, by path."""
    found: dict[Path, str] = {}
    for ability, patterns in ABILITIES.items():
        for path in (path for pattern in patterns for path in SOURCE.glob(pattern)):
            if path.suffix == ".py":
                found.setdefault(path, ability)
    return found


def _file_of(kind: type) -> Path:
    return Path(sys.modules[kind.__module__].__file__ or "")


def code_lines(folder: Path) -> int:
    """Lines of code of all modules below a folder."""
    return sum(map(_lines, folder.rglob("*.py")))


def _lines(path: Path) -> int:
    return _lines_of(path.read_text(encoding="utf-8"))


def _lines_of(text: str) -> int:
    strings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
              tokenize.ENDMARKER}  # fmt: skip
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    used = {
        line
        for token in tokens
        if token.type not in silent
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(used - strings)


def types_of(run: Any) -> set[type]:
    """Classes of the package that a function makes instances of."""
    found: set[type] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        name, names = frame.f_code.co_name, frame.f_code.co_varnames
        first = names[0] if names else ""
        named_tuple = name == "<lambda>" and first == "_cls"
        if event != "call" or not (named_tuple or name in ("__new__", "__init__")):
            return
        made = frame.f_locals.get(first)
        kind = made if isinstance(made, type) else type(made)
        if kind.__module__.startswith("spdelaw."):
            found.add(kind)

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def _gappy_fit(**words: Any) -> Any:
    rng = np.random.default_rng(0)
    domain, times, points = sl.Interval(0, np.pi), np.linspace(0, 1, 21), np.linspace(0, np.pi, 15)
    fields = sl.simulate(sl.catalogue.heat(n_modes=3), 12, times, points, seed=0).values
    fields = fields + 0.05 * rng.standard_normal(fields.shape)
    fields[rng.random(fields.shape) < 0.3] = np.nan
    return lambda: sl.fit(fields, domain, 3, times=times, points=points, **words)


if __name__ == "__main__":
    sys.exit(main())
