"""Fits by StochasticForceInference of the data that ``benchmarks.bench_sfi make`` wrote.

Run it with the Python of an environment that has the rival: ``python benchmarks/sfi_rival.py DIR``.
Fronts: its linear estimator and its parametric one (RK4 flow), both with default settings. Spots:
its linear estimator and its own selection of terms, with the settings of its Gray-Scott example.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from SFI import OverdampedLangevinInference
from SFI.bases.spde import square_grid_extras
from SFI.statefunc.layout import GridLayout, ScalarSector
from SFI.trajectory import TrajectoryCollection


def collection(data: Any) -> TrajectoryCollection:
    """Fields as its trajectories (time, point, field)."""
    extras = square_grid_extras(tuple(int(n) for n in data["shape"]), dx=float(data["dx"]))
    return TrajectoryCollection.from_arrays(
        X=data["values"], dt=float(data["dt"]), extras_global=extras
    )


def joined(terms: dict[str, Any]) -> Any:
    """Its way to put features side by side."""
    return functools.reduce(lambda a, b: a & b, terms.values())


def front_basis() -> tuple[Any, list[str]]:
    """``u_xx, u, u^3``."""
    layout = GridLayout(U=ScalarSector([0]), dim=1, ndim=1, bc="pbc")
    u = layout.U
    terms = {"lap u": layout.lap(u), "u": u, "u^3": u**3}
    return layout.embed(rank=1, U=joined(terms)), list(terms)


def spot_basis() -> tuple[Any, list[str]]:
    """All monomials up to degree 3 and both Laplacians, in each equation."""
    layout = GridLayout(U=ScalarSector([0]), V=ScalarSector([1]), dim=2, ndim=2, bc="pbc")
    u, v = layout.U, layout.V
    terms = {
        "1": layout.const(1), "u": u, "v": v, "u^2": u**2, "u v": u * v, "v^2": v**2, "u^3": u**3,
        "u^2 v": u**2 * v, "u v^2": u * v**2, "v^3": v**3, "lap u": layout.lap(u),
        "lap v": layout.lap(v),
    }  # fmt: skip
    names = [f"{field}: {term}" for field in ("u", "v") for term in terms]
    return layout.embed(rank=1, U=joined(terms), V=joined(terms)), names


def linear(data: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Its linear estimator with default settings."""
    basis, names = front_basis()
    inference = OverdampedLangevinInference(collection(data))
    inference.compute_diffusion_constant()
    inference.infer_force_linear(basis)
    return _named(inference, names)


def parametric(data: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Its parametric estimator with default settings."""
    basis, names = front_basis()
    inference = OverdampedLangevinInference(collection(data))
    inference.infer_force(basis)
    return _named(inference, names)


def selected(data: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Its selection of terms, as its Gray-Scott example does it."""
    basis, names = spot_basis()
    inference = OverdampedLangevinInference(collection(data))
    inference.compute_diffusion_constant(method="WeakNoise")
    inference.infer_force_linear(basis, M_mode="Ito")
    inference.compute_force_error()
    inference.sparsify_force(criterion="PASTIS", p=0.001)
    inference.compute_force_error()
    _, support, _, values = inference.force_sparsity_result.select_by_ic("PASTIS")
    chosen = [names[int(k)] for k in support]
    errors = np.asarray(inference.force_coefficients_stderr).ravel()
    if len(errors) != len(chosen):
        errors = errors[np.asarray(support, int)]
    return dict(zip(chosen, _plain(values), strict=True)), dict(
        zip(chosen, _plain(errors), strict=True)
    )


def _named(inference: Any, names: list[str]) -> tuple[dict[str, float], dict[str, float]]:
    inference.compute_force_error()
    values = inference.force_coefficients_full
    errors = inference.force_coefficients_stderr
    return dict(zip(names, _plain(values), strict=True)), dict(
        zip(names, _plain(errors), strict=True)
    )


def _plain(values: Any) -> list[float]:
    return [float(v) for v in np.asarray(values).ravel()]


#: Data sets of a kind on which the slow parametric estimator, which compiles again, is run.
PARAMETRIC_SETS = 2
METHODS = {"fronts": {"SFI linear": linear, "SFI parametric": parametric},
           "spots": {"SFI linear, PASTIS": selected}}  # fmt: skip


def main(work: Path) -> int:
    """Fit what was not fitted yet; the linear method compiles once before it is timed."""
    path = work / "sfi.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    done = {(r["name"], r["method"]) for r in map(json.loads, lines)}
    warm: set[tuple[str, tuple[int, ...]]] = set()
    for file in sorted(work.glob("*.npz"), key=lambda f: f.stat().st_mtime):
        data = dict(np.load(file))
        for method, function in METHODS[str(data["kind"])].items():
            late = int(file.stem.rsplit("-", 1)[1]) >= PARAMETRIC_SETS
            if (file.stem, method) in done or (method == "SFI parametric" and late):
                continue
            shape = (method, tuple(data["values"].shape))
            if shape not in warm and method == "SFI linear":
                function(data)
                warm.add(shape)
            cpu = time.process_time()
            estimate, stderr = function(data)
            record = {"name": file.stem, "method": method, "cpu": time.process_time() - cpu}
            record |= {"estimate": estimate, "stderr": stderr}
            record["truth"] = json.loads(str(data["truth"]))
            with path.open("a") as out:
                out.write(json.dumps(record) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
