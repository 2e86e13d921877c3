"""Verdict and advice on data made by plain NumPy: false alarms, power, first cause, impact.

    python -m benchmarks.calibration_advice run --work advice.jsonl --seconds 3600
    python -m benchmarks.calibration_advice report --work advice.jsonl

``run`` appends one line per data set and goes on where it was stopped; ``--only NAME`` takes the
rows whose names begin so, ``--sets N`` ends a row with so many data sets. Every row has seeds of
its own. A right law is fitted to one data set and judged on another: "fits" may fail in 1 % of
them. A wrong law is judged on the data it was fitted to, which is what a user does first: the
first advice, or a warning of the fit, must name the cause.
"""

from __future__ import annotations

import dataclasses
import json
import re
import time
import warnings
import zlib
from collections.abc import Callable
from typing import Any

from benchmarks._timing import RESULTS, table, write_results
from benchmarks.calibration import options, read, run

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip

Array = np.ndarray
Random = np.random.Generator

PI, STEP, RATE = np.pi, 0.05, 0.01
#: Data sets of a row whose predictions are scored; of more the tests alone are run.
SCORED_SETS, TIERS = 60, ("predict", "forecast", "gaps")
POINTS = np.linspace(0.0, PI, 17)
INTERVAL, RING = sl.Interval(0.0, PI), sl.Interval(0.0, 2 * PI, "periodic")
STATIONARY = {"initial": "stationary", "mean": "zero", "nuisance": 0}
STATED = STATIONARY | {"observation_noise": 0.1}
NOISY = STATIONARY | {"observation_noise": "estimate"}
CLEAN = STATIONARY | {"observation_noise": "none"}


@dataclasses.dataclass(frozen=True)
class Row:
    """One kind of data.

    Attributes:
        name: for the table.
        make: fields from a generator.
        words: of the fit.
        cause: pattern that the first advice or a warning must match; none for a right law.
        n_modes, domain: of the fit.
        test: fields to judge a right law on, where these are of another size.
        turns: data sets of one round.
    """

    name: str
    make: Callable[[Random], Any]
    words: dict[str, Any] = dataclasses.field(default_factory=dict)
    cause: str = ""
    n_modes: int = 3
    domain: Any = INTERVAL
    test: Callable[[Random], Any] | None = None
    turns: int = 4


# -- data -----------------------------------------------------------------------------------


def modes(
    rng: Random,
    n_paths: int,
    n_times: int,
    rates: Any = (1.0, 4.0, 9.0),
    noise: Any = (1.0, 0.5, 0.3),
    drift: Callable[[int], float] = lambda t: 1.0,
    strength: Callable[[int], float] = lambda t: 1.0,
    even: bool = True,
) -> Array:
    """Ornstein-Uhlenbeck paths (P, T, N), step by step; uneven noise grows with the state."""
    a, q = np.asarray(rates, float), np.asarray(noise, float)
    c = np.sqrt(q / (2 * np.maximum(a, 0.05))) * rng.standard_normal((n_paths, len(a)))
    rows = [c]
    for t in range(n_times - 1):
        rate, power = a * drift(t), q * strength(t)
        f = np.exp(-rate * STEP)
        size = np.sqrt(power * (1 - f**2) / (2 * rate)) * (1.0 if even else np.sqrt(1 + 4 * c**2))
        c = f * c + size * rng.standard_normal(c.shape)
        rows.append(c)
    return np.stack(rows, 1)


def sines(n: int, points: Array = POINTS) -> Array:
    return np.sqrt(2 / PI) * np.sin(np.outer(points, np.arange(1, n + 1)))


def fields(values: Array, points: Any = POINTS) -> Any:
    return sl.as_fields(values, times=STEP * np.arange(values.shape[1]), points=points)


def heat(
    n_paths: int = 20,
    n_times: int = 61,
    std: float = 0.0,
    missing: float = 0.0,
    points: Array = POINTS,
    **words: Any,
) -> Callable[[Random], Any]:
    """Data of the right law, with observation noise and gaps."""

    def make(rng: Random) -> Any:
        c = modes(rng, n_paths, n_times, **words)
        u = c @ sines(c.shape[-1], points).T
        u = u + std * rng.standard_normal(u.shape)
        u[rng.random(u.shape) < missing] = np.nan
        return fields(u, points)

    return make


def changed(
    make: Callable[[Random], Any], edit: Callable[[Random, Array], Array | None]
) -> Callable[[Random], Any]:
    """The same data with something wrong in the values (P, T, M)."""

    def both(rng: Random) -> Any:
        u = make(rng)
        values = u.values.copy()
        out = edit(rng, values)
        return u.copy(data=values if out is None else out)

    return both


def per_value(make: Callable[[Random], Any]) -> Callable[[Random], Any]:
    """Every value with noise of a standard deviation of its own, which is stated."""

    def both(rng: Random) -> Any:
        u = make(rng)
        std = np.exp(rng.uniform(np.log(0.03), np.log(0.3), u.shape))
        noisy = u.copy(data=u.values + std * rng.standard_normal(u.shape))
        return noisy.assign_coords(observation_std=(u.dims, std))

    return both


def stuck(rng: Random, u: Array) -> None:
    u[:, u.shape[1] // 3 :, 6] = u[:, u.shape[1] // 3, None, 6]


def dead(rng: Random, u: Array) -> None:
    u[..., 6] = 0.0


def biased(rng: Random, u: Array) -> None:
    u[..., 6] += 0.5


def sensor_memory(rng: Random, u: Array) -> Array:
    e = 0.1 * rng.standard_normal(u.shape)
    for t in range(1, u.shape[1]):
        e[:, t] = 0.9 * e[:, t - 1] + np.sqrt(1 - 0.81) * e[:, t]
    return u + e


def trend(rng: Random, u: Array) -> Array:
    return u + 4.0 * (STEP * np.arange(u.shape[1]))[:, None] * np.sin(POINTS)


def slow_trend(rng: Random, u: Array) -> Array:
    return u + 1.0 * (STEP * np.arange(u.shape[1]))[:, None] * np.sin(POINTS)


def wave(n: int, period: float = 4.0) -> Array:
    return np.cos(2 * PI * STEP * np.arange(n) / period)[:, None]


def season(rng: Random, u: Array) -> Array:
    return u + 1.5 * wave(u.shape[1]) * np.sin(POINTS)


def outliers(rng: Random, u: Array) -> None:
    u[tuple(rng.integers(0, n, 4) for n in u.shape)] += 5.0


def frame(rng: Random, u: Array) -> None:
    u[rng.integers(len(u)), rng.integers(5, u.shape[1] - 5)] += 3.0


def neumann(std: float) -> Callable[[Random], Any]:
    def make(rng: Random) -> Any:
        c = modes(rng, 20, 61, (0.5, 1.0, 4.0, 9.0), (1.0, 1.0, 0.5, 0.3))
        phi = np.sqrt(2 / PI) * np.cos(np.outer(POINTS, np.arange(4)))
        phi[:, 0] /= np.sqrt(2)
        u = c @ phi.T
        return fields(u + std * rng.standard_normal(u.shape))

    return make


def allen_cahn(
    n_paths: int = 1, n_times: int = 400, quadratic: float = 0.0, n_inner: int = 20
) -> Callable[[Random], Any]:
    """``du = (0.1 u_xx + 3 u + b u^2 - 3 u^3) dt + noise`` on a ring, 8 modes, Euler steps."""

    def make(rng: Random) -> Any:
        x = np.linspace(0, 2 * PI, 32, endpoint=False)
        phi, h = RING.eigenfunctions(x, 8), STEP / n_inner
        k = np.array([0, 1, 1, 2, 2, 3, 3, 4.0])
        c, rows = 0.3 * rng.standard_normal((n_paths, 8)), []
        for _ in range(n_times):
            rows.append(c)
            for _ in range(n_inner):
                u = c @ phi.T
                g = 3.0 * u + quadratic * u**2 - 3.0 * u**3
                drift = 2 * PI / 32 * g @ phi - 0.1 * k**2 * c
                c = c + h * drift + np.sqrt(0.3 * h) * rng.standard_normal(c.shape)
        return fields(np.stack(rows, 1) @ phi.T, x)

    return make


def rotating(rng: Random) -> Any:
    """Two modes that turn by 70 radians per unit of time, seen every 0.1."""
    f = np.exp(-0.1) * np.array([[np.cos(7.0), -np.sin(7.0)], [np.sin(7.0), np.cos(7.0)]])
    c, rows = rng.standard_normal((20, 2)), []
    for _ in range(61):
        rows.append(c)
        c = c @ f.T + np.sqrt(1 - np.exp(-0.2)) * rng.standard_normal(c.shape)
    x = np.linspace(0, 2 * PI, 16, endpoint=False)
    phi = RING.eigenfunctions(x, 3)[:, 1:]
    extra = modes(rng, 20, 61, (1.0,), (1.0,)) @ RING.eigenfunctions(x, 1).T
    return sl.as_fields(np.stack(rows, 1) @ phi.T + extra, times=0.1 * np.arange(61), points=x)


NEUMANN = sl.Interval(0.0, PI, "neumann")
DOMAIN = r"another domain or boundary.*Interval\(0\.0, 3\.14\d+, '{}'\)"
TERMS = {"terms": ("u", "u^3")}
SEASON = r"a season of length (3\.9\d*|4|4\.05) in"

RIGHT = (
    Row("2 paths of 12", heat(2, 12), STATIONARY),
    Row("2 paths of 12, default options", heat(2, 12)),
    Row("5 paths of 11 against 200", heat(5, 11), STATIONARY, test=heat(200, 11)),
    Row("200 paths against 5 of 11", heat(200, 11), STATIONARY, test=heat(5, 11), turns=8),
    Row("200 paths of 11", heat(200, 11)),
    Row("20 paths of 61, default options", heat()),
    Row("20 paths of 61, noise, default options", heat(std=0.1)),
    Row("1 record of 2,000", heat(1, 2000)),
    Row("1 record of 300, noise", heat(1, 300, 0.1)),
    Row("noise stated and right", heat(std=0.1), STATED, turns=8),
    Row("noise stated per value", per_value(heat(10, 41)), STATIONARY),
    Row("noise per value, 40 % missing", per_value(heat(10, 41, missing=0.4)), STATIONARY, turns=1),
    Row("40 % missing, noise", heat(10, 41, 0.1, 0.4), NOISY, turns=1),
    Row("80 % missing, noise", heat(10, 41, 0.1, 0.8), NOISY, turns=1),
    Row("one mode", heat(rates=(1.0,), noise=(1.0,)), n_modes=1),
    Row("one mode, noise", heat(std=0.1, rates=(1.0,), noise=(1.0,)), n_modes=1),
    Row("as many points as modes", heat(std=0.1, points=np.array([0.5, 1.5, 2.5]))),
    Row("12 modes", heat(rates=np.arange(1, 13) ** 2.0, noise=1.0 / np.arange(1, 13)), n_modes=12),
    Row("a mode without noise or energy", heat(noise=(1.0, 0.0, 0.3))),
    Row("Allen-Cahn, terms u, u^3", allen_cahn(), TERMS, n_modes=8, domain=RING, turns=1),
    Row("Allen-Cahn, 10 x 61, terms", allen_cahn(10, 61), TERMS, n_modes=8, domain=RING, turns=1),
)

HALF = {"drift": lambda t: 4.0 if t >= 60 else 1.0}, {"strength": lambda t: 4.0 if t >= 60 else 1.0}
MANY = {"strength": lambda t: (1 + 0.8 * np.cos(2 * PI * STEP * t / 4.0)) ** 2}

WRONG = (
    Row("noise .001 stated for .1", heat(std=0.1), STATED | {"observation_noise": 0.001},
        "observation_noise='estimate'"),
    Row("noise .2 denied", heat(std=0.2), {"observation_noise": "none"},
        "observation_noise='estimate'"),
    Row("noise .2 denied, no nuisance", heat(std=0.2), CLEAN, "observation_noise='estimate'"),
    Row("sensor stuck", changed(heat(std=0.1), stuck), {}, r"x (= )?1\.17[0-9]"),
    Row("sensor dead", changed(heat(std=0.1), dead), {}, r"x (= )?1\.17[0-9]"),
    Row("sensor biased", changed(heat(std=0.1), biased), {}, r"x (= )?1\.17[0-9]"),
    Row("sensor biased, one record", changed(heat(1, 400, 0.1), biased), {}, r"x (= )?1\.17[0-9]"),
    Row("sensors with memory", changed(heat(), sensor_memory), {}, "correlated in time|memory"),
    Row("sensors with memory, white stated", changed(heat(), sensor_memory), NOISY,
        "(correlated|memory).*residual='memory'"),
    Row("Neumann fitted as Dirichlet", neumann(0.0), {}, DOMAIN.format("neumann"), 4),
    Row("the same with noise", neumann(0.1), {}, DOMAIN.format("neumann"), 4),
    Row("Dirichlet fitted as Neumann", heat(std=0.1), {}, DOMAIN.format("dirichlet"),
        domain=NEUMANN),
    Row("the same without noise", heat(), {}, DOMAIN.format("dirichlet"), 4, NEUMANN),
    Row("Dirichlet fitted as periodic", heat(std=0.1), {}, DOMAIN.format("dirichlet"), 4,
        sl.Interval(0.0, PI, "periodic")),
    Row("the same without noise, 6 modes", heat(), {}, DOMAIN.format("dirichlet"), 6,
        sl.Interval(0.0, PI, "periodic")),
    Row("wrong domain (-1, 4.5)", heat(std=0.1), {}, DOMAIN.format("dirichlet"), 4,
        sl.Interval(-1.0, 4.5)),
    Row("wrong domain (0, 4)", heat(), {}, DOMAIN.format("dirichlet"), 4, sl.Interval(0.0, 4.0)),
    Row("noise x 4 half way", heat(10, 121, **HALF[1]), {}, "noise changes at time (2.9|3)"),
    Row("noise x 4 half way, one record", heat(1, 121, **HALF[1]), {},
        "noise changes at time (2.[6-9]|3)"),
    Row("drift x 4 half way", heat(10, 121, **HALF[0]), {}, "drift changes at time (2.[6-9]|3)"),
    Row("drift x 4 half way, 40 paths", heat(40, 121, **HALF[0]), {},
        "drift changes at time (2.[6-9]|3)"),
    Row("trend, 10 paths", changed(heat(10), trend), {}, "a trend"),
    Row("trend, 10 paths, mean zero", changed(heat(10), trend), {"mean": "zero"}, "a trend"),
    Row("trend, 40 paths", changed(heat(40), trend), {}, "a trend"),
    Row("weak trend, 40 paths", changed(heat(40), slow_trend), {}, "a trend"),
    Row("season without dates", changed(heat(1, 800), season), {}, SEASON),
    Row("season without dates, 10 paths", changed(heat(10, 241), season), {},
        SEASON),
    Row("noise with a season", heat(1, 800, **MANY), {}, "noise with a season of length 4 "),
    Row("outliers", changed(heat(), outliers), {}, "an outlier at path .*x "),
    Row("outliers, noise", changed(heat(std=0.1), outliers), {}, "an outlier at path .*x "),
    Row("an outlier frame", changed(heat(), frame), {}, "an outlier at path .*time"),
    Row("an outlier frame, noise", changed(heat(std=0.1), frame), {}, "an outlier at path .*time"),
    Row("rounded to .5", changed(heat(), lambda _, u: np.round(2 * u) / 2), {}, "rounded to 0.5"),
    Row("rounded to .5, noise denied", changed(heat(), lambda _, u: np.round(2 * u) / 2), CLEAN,
        "rounded to 0.5"),
    Row("noise that grows with the state", heat(even=False), {}, "grows or shrinks with the field"),
    Row("a mode that grows", heat(rates=(-0.4, 4.0, 9.0)), {}, "grow"),
    Row("rotation beyond Nyquist", rotating, {"drift": "normal"}, "no rotation faster than 31",
        domain=RING),
    Row("around sin(x), mean zero", changed(heat(), lambda _, u: u + np.sin(POINTS)),
        {"mean": "zero"}, "mean='constant'"),
    Row("cubic data, linear law", allen_cahn(), {}, "term u.3", 8, RING, turns=1),
    Row("cubic data, terms u", allen_cahn(), {"terms": ("u",)}, "term u.3", 8, RING, turns=1),
    Row("quadratic data, terms u, u^3", allen_cahn(10, 100, quadratic=2.0), TERMS, "term u.2", 8,
        RING, turns=1),
    Row("terms, an outlier frame", changed(allen_cahn(), frame), TERMS, "an outlier at path", 8,
        RING, turns=1),
    Row("terms, +300", changed(allen_cahn(), lambda _, u: u + 300.0), TERMS,
        r"terms act on values around (299|300)", 8, RING, turns=1),
    Row("terms, uneven noise per point", changed(allen_cahn(), biased), TERMS, "x 1.17", 8, RING,
        turns=1),
)  # fmt: skip
ROWS = RIGHT + WRONG


# -- one data set ---------------------------------------------------------------------------


def measure(row: Row, seed: int) -> dict[str, Any]:
    """Verdict, advice and impact; an error that leaves the package is a result too."""
    rng = np.random.default_rng([zlib.crc32(row.name.encode()), seed])
    line: dict[str, Any] = {"kind": row.name, "seed": seed}
    start = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            line |= _measured(row, rng, seed < SCORED_SETS)
        texts = sorted({str(w.message) for w in caught if "spdelaw" in str(w.category)})
        line["warned"] = bool(row.cause and re.search(row.cause, " ".join(texts)))
        line["warnings"] = [text[:150] for text in texts[:3]] if row.cause else []
    except Exception as error:
        line["error"] = f"{type(error).__name__}: {error}"[:300]
        line["named"] = bool(row.cause and re.search(row.cause, str(error)))
    return line | {"seconds": round(time.process_time() - start, 3)}


def _measured(row: Row, rng: Random, is_scored: bool) -> dict[str, Any]:
    train = row.make(rng)
    law = sl.fit(train, row.domain, row.n_modes, **row.words)
    data = train if row.cause else (row.test or row.make)(rng)
    card = sl.evaluate(law, data, tiers=TIERS if is_scored else ())
    check, impact = card.check, card.impact
    p = {k: float(v) for k, v in check.overall.items() if "bands" not in k}
    alone = {str(k): float(np.nanmin(v)) * int(v.notnull().sum()) for k, v in check.p_values.items()
             if v.notnull().any()}  # fmt: skip
    return {
        "fits": check.fits,
        "answer": card.answer,
        "rejected": check.rejected[:4],
        "advice": card.advice[:3],
        "named": bool(row.cause and card.advice and re.search(row.cause, card.advice[0])),
        "noted": bool(row.cause and re.search(row.cause, str(law))),
        "p": {**{f"{k} alone": v for k, v in alone.items()}, **p},
        "impact": None
        if impact is None
        else [
            impact.task,
            list(impact.coverage),
            list(impact.coverage_error),
            impact.nats_lost,
            impact.nats_error,
            impact.rival,
        ],
    }


# -- runs and reports -----------------------------------------------------------------------


def summary(row: Row, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of the table."""
    good = [line for line in lines if "error" not in line]
    n = max(len(good), 1)
    out = {"row": row.name, "sets": len(lines), "errors": len(lines) - len(good),
           "alarms": sum(not line["fits"] for line in good) / n,
           "rely": sum(line["answer"].endswith("rely on it") for line in good) / n,
           "commits": sorted({line["commit"] for line in lines if "commit" in line}),
           "seconds": float(np.mean([line["seconds"] for line in lines]))}  # fmt: skip
    judged = [line["impact"] for line in good if line["impact"]]
    out["scored"] = len(judged)
    out["impact"] = sum(not _holds(x) for x in judged) / max(len(judged), 1)
    if row.cause:
        out["named"] = sum(
            line.get("named") or line.get("noted") or line.get("warned", False) for line in lines
        ) / len(lines)
        out["first"] = sum(line.get("named", False) for line in lines) / len(lines)
    return out


def _holds(values: list[Any]) -> bool:
    from spdelaw.evaluation.checks.impact import Impact

    task, coverage, error, lost, nats_error, rival = values
    return Impact(task, tuple(coverage), tuple(error), lost, rival, nats_error).predictions_hold


def report(lines: list[dict[str, Any]]) -> str:
    """The tables; written to ``benchmarks/results``.

    Rows that rest on more data sets than the lines have stay as they were.
    """
    kept = RESULTS / "calibration_advice.json"
    before = json.loads(kept.read_text())["rows"] if kept.exists() else []
    old_rows = {row["row"]: row for row in before}
    rows = []
    for kind in ROWS:
        own = [line for line in lines if line["kind"] == kind.name]
        old = old_rows.get(kind.name)
        if own and (old is None or len(own) >= old["sets"]):
            rows.append(summary(kind, own))
        elif old is not None:
            rows.append(old)
    first, second = [], []
    for row in rows:
        n = row["sets"]
        error = np.sqrt(RATE * (1 - RATE) / n)
        share = [f"{100 * row[k]:.1f} %" for k in ("alarms", "impact", "rely")]
        if "named" not in row:
            holds = row["alarms"] <= RATE + 3 * error and not row["errors"]
            first.append([row["row"], str(n), f"{share[0]} ± {100 * error:.1f}", *share[1:],
                          str(row["errors"]), "yes" if holds else "no"])  # fmt: skip
        else:
            first_or_said = [f"{100 * row[k]:.0f} %" for k in ("first", "named")]
            second.append([row["row"], str(n), share[0], *first_or_said, share[2],
                           str(row["errors"])])  # fmt: skip
    text = (
        "## Verdict and advice\n\n"
        f"{sum(row['sets'] for row in rows)} data sets made by plain NumPy "
        "(`python -m benchmarks.calibration_advice`), with seeds of their own in every row. A "
        "right law is judged on new data: it may fail in 1 % of the sets and three Monte-Carlo "
        "errors. A wrong law is judged on its own data. Rows of few sets show the cause, not its "
        "rate; run more sets before you quote one.\n\n"
        + table(["right law", "sets", "false alarms", "bands or skill off", "'do not rely on it'",
                 "errors", "holds"], first)
        + "\n\n"
        + table(["wrong law", "sets", "noticed", "cause first", "cause first, or in a warning",
                 "'do not rely on it'", "errors"], second)
        + "\n"
    )  # fmt: skip
    write_results(
        "calibration_advice",
        {"rows": rows, "commits": sorted({c for row in rows for c in row.get("commits", [])})},
        text,
    )
    return text


def main(arguments: list[str] | None = None) -> int:
    """Run or report."""
    given = options(__doc__).parse_args(arguments)
    if given.what == "run":
        run(given, ROWS, measure)
    else:
        print(report(read(*given.work)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
