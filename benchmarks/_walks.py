"""What a few small calls walk through: files, functions, types and maximisations.

    python -m benchmarks._walks "gappy fit"

prints the counts of one walk as JSON. Every walk needs a process of its own, because what an
earlier call has cached or imported is not entered again.

A file counts where any of its code runs, a function once by file and qualified name (lambdas and
comprehensions are functions, too), and a type where an instance of it is made.
"""

from __future__ import annotations

import fnmatch
import json
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import spdelaw as sl

#: Functions of which one call is one maximisation, as patterns of "module:qualified name".
OPTIMISERS = ("spdelaw.*:maximise", "spdelaw.*:Objective.maximise")

SOURCE = Path(sl.__file__).parent
DOMAIN, HEAT = sl.Interval(0, np.pi), sl.catalogue.heat(n_modes=3)
TIMES, POINTS = np.linspace(0, 1, 21), np.linspace(0, np.pi, 15)
AXES: dict[str, Any] = {"times": TIMES, "points": POINTS}
#: Every choice that a fit would otherwise take itself.
STATED: dict[str, Any] = {
    "mean": "zero",
    "initial": "deterministic",
    "observation_noise": "estimate",
    "nuisance": 0,
}


class Walk:
    """Counts what is entered between `start` and `stop`."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.types: set[type] = set()
        self.maximisations = 0

    def start(self) -> None:
        """Watch all calls of this thread and of those to come."""
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)

    def stop(self) -> dict[str, int]:
        """Watch no longer; the counts."""
        sys.setprofile(None)
        threading.setprofile(None)
        files = {file for file, _ in self.functions}
        return {
            "files": len(files),
            "functions": len(self.functions),
            "types": len(self.types),
            "maximisations": self.maximisations,
        }

    def _enter(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_filename.startswith(str(SOURCE)):
            self.functions.add((code.co_filename, code.co_qualname))
            self.maximisations += _is_optimiser(frame)
        if made := _type_made(frame):
            self.types.add(made)


def _is_optimiser(frame: FrameType) -> bool:
    name = f"{frame.f_globals.get('__name__')}:{frame.f_code.co_qualname}"
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in OPTIMISERS)


def _type_made(frame: FrameType) -> type | None:
    """The class of the package of which this call makes an instance."""
    name, variables = frame.f_code.co_name, frame.f_code.co_varnames
    first = variables[0] if variables else ""
    makes_tuple = name == "<lambda>" and first == "_cls"  # __new__ of a NamedTuple
    if not makes_tuple and name not in ("__new__", "__init__"):
        return None
    made = frame.f_locals.get(first)
    kind = made if isinstance(made, type) else type(made)
    return kind if kind.__module__.startswith("spdelaw.") else None


def gappy_fields(missing: float = 0.3, seed: int = 0) -> np.ndarray:
    """Twelve paths of the heat equation in three modes, (12, 21, 15), with noise and gaps."""
    rng = np.random.default_rng(seed)
    fields = sl.simulate(HEAT, 12, TIMES, POINTS, seed=seed).values
    fields = fields + 0.05 * rng.standard_normal(fields.shape)
    fields[rng.random(fields.shape) < missing] = np.nan
    return fields


def gappy_fit(missing: float = 0.3, seed: int = 0, **words: Any) -> Callable[[], Any]:
    """A fit of noisy fields with gaps."""
    fields = gappy_fields(missing, seed)
    return lambda: sl.fit(fields, DOMAIN, 3, **AXES, **words)


def complete_fit() -> Callable[[], Any]:
    """A fit of labelled fields without noise and gaps."""
    fields = sl.simulate(HEAT, 12, TIMES, POINTS, seed=0)
    return lambda: sl.fit(fields, DOMAIN, 3)


def semilinear_fit() -> Callable[[], Any]:
    """A fit of the Allen-Cahn equation from fields without noise and gaps."""
    equation = sl.catalogue.allen_cahn(n_modes=5)
    fields = sl.simulate(equation, 12, TIMES, seed=0)
    return lambda: sl.fit(fields, equation.domain, 5, terms=("u", "u^3"))


def evaluation() -> Callable[[], Any]:
    """`evaluate` of a law on the gappy fields it was learned from."""
    law, fields = gappy_fit()(), sl.as_fields(gappy_fields(), **AXES)
    return lambda: sl.evaluate(law, fields)


def filling() -> Callable[[], Any]:
    """`fill` of the gappy fields by laws of three modes."""
    fields = sl.as_fields(gappy_fields(), **AXES)
    return lambda: sl.fill(fields, DOMAIN, 3)


def hindcasts() -> Callable[[], Any]:
    """`skill` on one record of 120 times."""
    times = 0.1 * np.arange(120)
    record = sl.simulate(HEAT, 1, times, POINTS, seed=2)
    return lambda: sl.skill(record, DOMAIN, 3)


#: Walks by name: each prepares its data and returns the call that is traced.
WALKS: dict[str, Callable[[], Callable[[], Any]]] = {
    "gappy fit": gappy_fit,
    "complete fit": complete_fit,
    "semilinear fit": semilinear_fit,
    "evaluate": evaluation,
    "fill": filling,
    "skill": hindcasts,
}
#: Gappy fits whose maximisations are counted.
FITS: dict[str, Callable[[], Callable[[], Any]]] = {
    "by default": gappy_fit,
    "every choice stated": lambda: gappy_fit(**STATED),
    "75 % missing": lambda: gappy_fit(0.75),
    "75 % missing, other data": lambda: gappy_fit(0.75, seed=1),
}


def trace(name: str) -> dict[str, int]:
    """Counts of one walk, in this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = {**WALKS, **FITS}[name]()
        walk = Walk()
        walk.start()
        try:
            run()
        finally:
            counts = walk.stop()
    return counts


def trace_apart(name: str) -> dict[str, int]:
    """Counts of one walk, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks._walks", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    print(json.dumps(trace(sys.argv[1])))
