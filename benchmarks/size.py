"""How much code there is, and how many types carry one array from data to law.

    python -m benchmarks.size

Code lines of each room are lines that are neither empty, comment nor docstring. The types are the
classes of the package of which a fit of one small gappy data set makes instances.
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


def main() -> int:
    """Print lines by room, and the types of a gappy fit."""
    lines = {room: code_lines(SOURCE / room) for room in ROOMS if (SOURCE / room).is_dir()}
    for room, n in lines.items():
        print(f"{room:12} {n:6}")
    print(f"{'core':12} {sum(lines.get(room, 0) for room in CORE):6}  ({', '.join(CORE)})")
    carriers = sorted(types_of(_gappy_fit()))
    print(f"{len(carriers)} types in a gappy fit: {', '.join(carriers)}")
    return 0


def code_lines(folder: Path) -> int:
    """Lines of code of all modules below a folder."""
    return sum(_lines_of(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py"))


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


def types_of(run: Any) -> set[str]:
    """Classes of the package that a function makes instances of."""
    found: set[str] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        name, names = frame.f_code.co_name, frame.f_code.co_varnames
        first = names[0] if names else ""
        named_tuple = name == "<lambda>" and first == "_cls"
        if event != "call" or not (named_tuple or name in ("__new__", "__init__")):
            return
        made = frame.f_locals.get(first)
        kind = made if isinstance(made, type) else type(made)
        if kind.__module__.startswith("spdelaw."):
            found.add(f"{kind.__module__.split('.')[1]}.{kind.__name__}")

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def _gappy_fit() -> Any:
    rng = np.random.default_rng(0)
    domain, times, points = sl.Interval(0, np.pi), np.linspace(0, 1, 21), np.linspace(0, np.pi, 15)
    fields = sl.simulate(sl.catalogue.heat(n_modes=3), 12, times, points, seed=0).values
    fields = fields + 0.05 * rng.standard_normal(fields.shape)
    fields[rng.random(fields.shape) < 0.3] = np.nan
    return lambda: sl.fit(fields, domain, 3, times=times, points=points)


if __name__ == "__main__":
    sys.exit(main())
