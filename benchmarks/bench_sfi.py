"""Side by side with StochasticForceInference, on lattices (its home ground) and on spectral fields.

It needs JAX, so it runs in an environment of its own and is never a dependency:

    python -m benchmarks.bench_sfi make --work DIR      # data, and the fits of spdelaw
    python -m venv /tmp/sfi && /tmp/sfi/bin/pip install StochasticForceInference==2.0.4
    /tmp/sfi/bin/python benchmarks/sfi_rival.py DIR     # its fits of the same data
    python -m benchmarks.bench_sfi report --work DIR

Both runs append and go on where they stopped. Lattice data follow a finite-difference Laplacian
with noise white in space, which is what its stencils assume; `spdelaw` fits them on the modes of
the lattice. Spectral data have the Laplacian of the continuum and coloured noise.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from benchmarks._timing import table, versions, write_results

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip

WORK = Path(__file__).with_name("runs") / "sfi"
COMMAND = "python -m benchmarks.bench_sfi"
#: Half-width of a 95 % interval in standard errors.
Z = 1.959963984540054
RATES, SETS, STEPS, POINTS = (0.02, 0.1, 0.3), 6, 600, 32
LIBRARY = ("1", "u", "v", "u^2", "u v", "v^2", "u^3", "u^2 v", "u v^2", "v^3")
SIDE, FRAMES = 31, 200
Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class LatticeRing(sl.Interval):
    """Points of a ring with the second difference: its modes are waves, its eigenvalues smaller."""

    n: int = SIDE
    name: ClassVar[str] = "lattice_ring"

    def eigenvalues(self, n_modes: int) -> np.ndarray:
        """``(2 - 2 cos(2 pi k / n)) / dx^2``; waves that the lattice does not have come last."""
        waves = (np.arange(n_modes) + 1) // 2
        mu = (2.0 - 2.0 * np.cos(2.0 * np.pi * waves / self.n)) * (self.n / self.volume) ** 2
        return np.where(waves <= self.n // 2, mu, 1e6 + waves)

    def quadrature(self, n_points: int) -> tuple[np.ndarray, np.ndarray]:
        """The points themselves, for any request: products are taken point by point."""
        return self.grid(self.n), np.full(self.n, self.volume / self.n)


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class LatticeDish(sl.Box):
    """A square of lattice points with the five-point Laplacian."""

    name: ClassVar[str] = "lattice_dish"

    @property
    def factors(self) -> tuple[LatticeRing, ...]:  # type: ignore[override]
        """One ring a side."""
        return tuple(LatticeRing(a, b, "periodic") for a, b in self.sides)


def ring_lattice() -> sl.Graph:
    """32 points of a ring of length 2 pi with the second difference as Laplacian."""
    step = np.roll(np.eye(POINTS), 1, axis=1)
    return sl.Graph((step + step.T) * (POINTS / (2.0 * np.pi)) ** 2)


def fronts(ground: str, rate: float, seed: int) -> tuple[sl.Semilinear, Any]:
    """Allen-Cahn, one path of 600 steps on 32 points."""
    times = rate * np.arange(STEPS + 1.0)
    if ground == "spectral":
        start = sl.Gaussian(0.0, 1.0 / np.arange(1.0, POINTS) ** 2)
        e = sl.catalogue.allen_cahn(POINTS - 1, initial=start, times=times)
    else:
        noise = sl.White(0.05)
        e = sl.catalogue.allen_cahn(POINTS, noise=noise, times=times, domain=ring_lattice())
    return e, sl.simulate(e, 1, seed=seed)


def point_slider(ground: str, seed: int) -> tuple[sl.Semilinear, Any]:
    """Gray-Scott: 64 x 64 points of waves up to 16, or a lattice of 31 x 31 points."""
    times = np.arange(0.0, 0.5 * FRAMES + 0.5, 0.5)
    if ground == "spectral":
        e = sl.catalogue.gray_scott(times=times)
        return e, sl.simulate(e, 1, seed=seed)
    dish = LatticeDish((0.0, float(SIDE)), (0.0, float(SIDE)), boundary="periodic")
    bumps = {"u": lambda x, y: 1.0 - 0.5 * _bump(x, y), "v": lambda x, y: 0.3 * _bump(x, y)}
    e = sl.catalogue.gray_scott(SIDE**2, times=times, domain=dish, initial=bumps)
    return e, sl.simulate(e, 1, grid=dish.grid(SIDE), seed=seed)


def _bump(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.exp(-((x - 15.0) ** 2 + (y - 15.0) ** 2) / 20.0)


def cases() -> list[tuple[str, str, float, int]]:
    """Equation, ground, step and number of each data set, the cheap ones first."""
    out = [("fronts", g, r, k) for k in range(SETS) for g in ("lattice", "spectral") for r in RATES]
    return out + [("spots", g, 0.5, k) for k in range(1) for g in ("lattice", "spectral")]


def make(work: Path, sets: int, kinds: list[str]) -> None:
    """Data as arrays, and the fits of this package."""
    work.mkdir(parents=True, exist_ok=True)
    path = work / "spdelaw.jsonl"
    done = (
        {json.loads(line)["name"] for line in path.read_text().splitlines()}
        if path.exists()
        else ()
    )
    for kind, ground, rate, k in cases():
        name = f"{kind}-{ground}-{rate:g}-{k}"
        if name in done or k >= sets or kind not in kinds:
            continue
        seed = 300_000 + k
        e, fields = fronts(ground, rate, seed) if kind == "fronts" else point_slider(ground, seed)
        _write_data(work / f"{name}.npz", kind, ground, rate, e, fields)
        cpu = time.process_time()
        found = fit_fronts(e, fields) if kind == "fronts" else fit_spots(e, fields)
        found |= {"name": name, "method": "spdelaw", "cpu": time.process_time() - cpu}
        with path.open("a") as file:
            file.write(json.dumps(found) + "\n")


def _write_data(
    path: Path, kind: str, ground: str, rate: float, e: sl.Semilinear, fields: Any
) -> None:
    values = fields.values[0]
    if kind == "fronts":
        values, shape, dx = values[:, :, None], (POINTS,), 2.0 * np.pi / POINTS
        truth = {"lap u": 0.05, **e.terms}
    else:
        shape = values.shape[2:]
        dx = (SIDE if ground == "lattice" else 64.0) / shape[0]
        values = values.reshape(len(values), 2, -1).transpose(0, 2, 1)
        truth = {"u: lap u": 0.16, "v: lap v": 0.08, **e.terms}
    np.savez_compressed(
        path, values=values.astype(np.float32 if kind == "spots" else float), shape=shape, dx=dx,
        dt=rate, kind=kind, truth=json.dumps(truth),
    )  # fmt: skip


def fit_fronts(e: sl.Semilinear, fields: Any) -> Record:
    """Coefficients of u and u^3, and the diffusivity."""
    law = sl.fit(fields, e.domain, e.n_modes, terms=("u", "u^3"), observation_noise="none")
    value, error = law.info["estimates"], law.info["standard_errors"]
    names = {"lap u": "nu", "u": "u", "u^3": "u^3"}
    truth = {"lap u": 0.05, **e.terms}
    return {"estimate": {k: value[n] for k, n in names.items()}, "truth": truth,
            "stderr": {k: error[n] for k, n in names.items()}}  # fmt: skip


def fit_spots(e: sl.Semilinear, fields: Any) -> Record:
    """Terms chosen from all monomials up to degree 3 in each equation, and their coefficients."""
    found = sl.discover(fields, e.domain, e.n_modes, LIBRARY, bootstrap=0, observation_noise="none")
    value, error = found.law.info["estimates"], found.law.info["standard_errors"]
    names = {"u: lap u": "nu u", "v: lap v": "nu v"} | {name: name for name in found.terms}
    truth = {"u: lap u": 0.16, "v: lap v": 0.08, **e.terms}
    return {"estimate": {k: value[n] for k, n in names.items()}, "truth": truth,
            "stderr": {k: error[n] for k, n in names.items()}}  # fmt: skip


def report(work: Path) -> None:
    """Write ``results/sfi.json`` and ``.md`` from what is there."""
    lines = [line for f in sorted(work.glob("*.jsonl")) for line in f.read_text().splitlines()]
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in map(json.loads, lines):
        kind, ground, rate, _ = record["name"].split("-")
        groups.setdefault((kind, ground, rate, record["method"]), []).append(record)
    fits = [
        {"case": key, **_fronts_row(r)} for key, r in sorted(groups.items()) if key[0] == "fronts"
    ]
    terms = [
        {"case": key, **_spots_row(r)} for key, r in sorted(groups.items()) if key[0] == "spots"
    ]
    document = {
        "command": COMMAND, "fronts": fits, "spots": terms,
        "versions": versions("numpy", "scipy") | {"StochasticForceInference": "2.0.4"},
    }  # fmt: skip
    text = _markdown(document)
    write_results("sfi", document, text)
    print(text)


def _fronts_row(records: list[Record]) -> Record:
    names = ("lap u", "u", "u^3")
    off = np.array([[r["estimate"][n] - r["truth"][n] for n in names] for r in records])
    size = np.array([abs(records[0]["truth"][n]) for n in names])
    error = np.array([[r["stderr"][n] for n in names] for r in records])
    return {
        "sets": len(records),
        "bias_percent": (100 * off.mean(0) / size).round(1).tolist(),
        "spread_percent": (100 * off.std(0) / size).round(1).tolist(),
        "coverage_percent": (100 * (np.abs(off) < Z * error).mean(0)).round(0).tolist(),
        "cpu": float(np.median([r["cpu"] for r in records])),
    }


def _spots_row(records: list[Record]) -> Record:
    rows = []
    for r in records:
        true, chosen = set(r["truth"]), set(r["estimate"])
        off = {n: abs(r["estimate"].get(n, 0.0) - v) for n, v in r["truth"].items()}
        z = [off[n] / r["stderr"][n] for n in true & chosen]
        rows.append((len(chosen - true), len(true - chosen), max(z),
                     max(100 * off[n] / abs(r["truth"][n]) for n in true)))  # fmt: skip
    extra, missed, z, percent = np.array(rows).T
    return {
        "sets": len(records), "extra": extra.tolist(), "missed": missed.tolist(),
        "largest_z": z.round(1).tolist(), "largest_percent": percent.round(1).tolist(),
        "cpu": float(np.median([r["cpu"] for r in records])),
    }  # fmt: skip


def _markdown(d: Record) -> str:
    def joined(values: list[float], form: str) -> str:
        return ", ".join(form.format(v) for v in values)

    fits = [
        [*r["case"][1:4], str(r["sets"]), joined(r["bias_percent"], "{:+.1f}"),
         joined(r["spread_percent"], "{:.1f}"), joined(r["coverage_percent"], "{:.0f}"),
         f"{r['cpu']:.1f}"] for r in d["fronts"]
    ]  # fmt: skip
    terms = [
        [r["case"][1], r["case"][3], str(r["sets"]), joined(r["extra"], "{:.0f}"),
         joined(r["missed"], "{:.0f}"), joined(r["largest_z"], "{:.1f}"),
         joined(r["largest_percent"], "{:.1f}"), f"{r['cpu']:.0f}"] for r in d["spots"]
    ]  # fmt: skip
    return "\n".join(
        [
            "# Side by side with StochasticForceInference 2.0.4",
            "",
            "Allen-Cahn, one path of 600 steps on 32 points, `u_xx`, `u` and `u^3` given: bias, "
            "spread and coverage of 95 % intervals for diffusivity, u and u^3 in this order.",
            "",
            table(["data", "step", "method", "sets", "bias [%]", "spread [%]", "coverage [%]",
                   "cpu [s]"], fits),
            "",
            f"Gray-Scott, {FRAMES} steps of 0.5, terms chosen from all monomials up to degree 3 in "
            "each equation (and Laplacians of both fields): per data set the terms too many, those "
            "missed, the largest error in standard errors and in per cent of the true terms.",
            "",
            table(["data", "method", "sets", "too many", "missed", "largest error [s.e.]",
                   "largest error [%]", "cpu [s]"], terms),
            "",
            f"Commands: `{d['command']} make --work DIR`, `python benchmarks/sfi_rival.py DIR` in "
            f"an environment with the rival, `{d['command']} report --work DIR`. Its linear fits "
            "of fronts are timed after a first call that compiles; its other fits compile every "
            "time. It works in single precision by default.",
            f"Versions: {', '.join(f'{k} {v}' for k, v in d['versions'].items())}.",
            "",
        ]
    )  # fmt: skip


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["make", "report"])
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--sets", type=int, default=SETS)
    parser.add_argument("--kinds", nargs="+", default=["fronts", "spots"])
    given = parser.parse_args()
    make(given.work, given.sets, given.kinds) if given.action == "make" else report(given.work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
