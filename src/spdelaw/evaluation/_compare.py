"""Which of several laws to use, and how sure that is."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import instance, one_of, probability, whole
from spdelaw.domain import table_html
from spdelaw.errors import InputError
from spdelaw.evaluation._comparable import check_comparable
from spdelaw.evaluation._compare_scores import (
    Scores,
    bootstrap_units,
    check_same_values,
    held_out,
    log_scores,
    tier_scores,
)
from spdelaw.evaluation._compare_words import plain, rows_of, sentence_of
from spdelaw.evaluation._nested import NestedTest, nested_tests
from spdelaw.evaluation._tiers import TIERS
from spdelaw.law import Law

Array = np.ndarray

#: Tasks that laws are compared by on new data.
TASKS = ("predict", "forecast", "gaps")


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison:
    """Result of `compare`.

    Attributes:
        names: of the laws.
        likelihood: Dataset over ``law``: ``log_likelihood``, ``n_parameters``, ``aic``, ``bic`` of
            the data they were learned from; None where these are not the same numbers.
        tests: likelihood-ratio tests of laws that are special cases of others.
        scores: Dataset over ``score`` and ``law`` on the new data: ``value``, and ``difference``
            to the best law of each score with ``statistic`` = estimate, lower, upper; or None.
        parameters: Dataset of estimates and intervals side by side, over ``law``.
        notes: what was not compared, and why.
        sentence: which one to use, and how sure.
        best: number of the law to use.
        level: of the intervals.
    """

    names: tuple[str, ...]
    likelihood: xr.Dataset | None
    tests: tuple[NestedTest, ...]
    scores: xr.Dataset | None
    parameters: xr.Dataset
    notes: tuple[str, ...]
    sentence: str
    best: int
    level: float

    @property
    def table(self) -> list[list[str]]:
        """Rows of text: what is compared, and a cell per law."""
        return rows_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, ready for JSON; numbers that do not exist are None."""
        return plain(self)

    def __repr__(self) -> str:
        """The table, the tests and the sentence."""
        header, *rows = [["", *self.names], *self.table]
        widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
        lines = [
            "  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in pairs)
            for pairs in (list(enumerate(zip(row, widths, strict=True))) for row in (header, *rows))
        ]
        return "\n".join([*lines, *self.notes, self.sentence])

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        header = ["", *self.names]
        return table_html("Laws compared", [], header, self.table, [*self.notes, self.sentence])


def compare(
    *laws: Law,
    data: Any = None,
    names: tuple[str, ...] | None = None,
    tiers: tuple[str, ...] = TASKS,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Compare laws: likelihoods, nested tests, scores on new data, parameters side by side.

    Likelihoods are compared where they are densities of the same numbers. New data give what
    counts more: scores of what no law has seen, in the units of the data, with intervals of a
    bootstrap over paths or stretches of time that all laws share.

    Args:
        laws: two or more.
        data: fields or raw data that no law was learned from; NaN is missing.
        names: of the laws; a, b, c by default.
        tiers: tasks to score on the data, see `spdelaw.evaluate`.
        level: of the intervals.
        replicates: of the bootstrap.
        seed: of the bootstrap and of the values held out.

    Returns:
        A `Comparison`: print it, or take ``.table``, ``.sentence`` and ``.to_dict()``.

    Raises:
        InputError: the likelihoods are of different numbers and there are no data to score.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> heat = sl.catalogue.heat(n_modes=3)
        >>> fields = sl.simulate(heat, 60, seed=0, observation_std=0.1)
        >>> few, right = (sl.fit(fields[:40], heat.domain, n, nuisance=0) for n in (1, 3))
        >>> sl.compare(few, right, data=fields[40:], names=("few", "right")).sentence
        'Use right: its log score on these data is better than that of few (95 % interval).'
    """
    chosen = _checked(laws, tiers)
    labels = _names(names, len(chosen))
    whole("replicates", replicates, 1)
    level, seed = probability("level", level), whole("seed", seed, 0)
    notes: list[str] = []
    likelihood = _likelihood(chosen, labels, notes, refuse=data is None)
    tests = nested_tests(chosen) if likelihood is not None else []
    scores = None
    if data is not None:
        scores = _scored(chosen, labels, data, tiers, notes, (level, replicates, seed))
    best, sentence = sentence_of(labels, likelihood, tests, scores, chosen, level)
    table = _side_by_side(chosen, labels)
    return Comparison(
        labels, likelihood, tuple(tests), scores, table, tuple(notes), sentence, best, level
    )


def _checked(laws: tuple[Any, ...], tiers: tuple[str, ...]) -> list[Law]:
    for tier in tiers:
        one_of("tiers", tier, TIERS)
    if len(laws) < 2:
        expected = "at least two laws"
        raise InputError("laws", expected=expected, got=str(len(laws)), fix="pass compare(a, b)")
    return [instance("laws", law, Law, "pass laws from sl.fit or sl.load") for law in laws]


def _names(names: Any, n: int) -> tuple[str, ...]:
    if names is None:
        return tuple(chr(ord("a") + i) if n <= 26 else f"law {i + 1}" for i in range(n))
    labels = tuple(str(name) for name in names)
    if len(labels) != n or len(set(labels)) != n:
        expected = f"{n} different names"
        raise InputError("names", expected=expected, got=repr(names), fix="leave names out")
    return labels


def _likelihood(
    laws: list[Law], names: tuple[str, ...], notes: list[str], refuse: bool
) -> xr.Dataset | None:
    """Log-likelihoods and criteria of the same numbers, or None with a note."""
    try:
        numbers = check_comparable(*laws)
    except InputError as error:
        if refuse:
            raise
        notes.append(f"Likelihoods are not compared: {error}")
        return None
    value = np.array([law.info.log_likelihood for law in laws])
    count = np.array([float(law.info["n_parameters"]) for law in laws])
    rows = [law.info.n_paths * (law.info.n_times or 1) for law in laws]
    return xr.Dataset(
        {
            "log_likelihood": ("law", value),
            "n_parameters": ("law", count),
            "aic": ("law", 2.0 * count - 2.0 * value),
            "bic": ("law", np.log(rows) * count - 2.0 * value),
        },
        coords={"law": list(names)},
        attrs={"of": numbers.kind, "count": numbers.count},
    )


def _scored(
    laws: list[Law],
    names: tuple[str, ...],
    data: Any,
    tiers: tuple[str, ...],
    notes: list[str],
    settings: tuple[float, int, int],
) -> xr.Dataset:
    """Scores on new data, with intervals of their differences to the best."""
    level, replicates, seed = settings
    held = [held_out(law, data) for law in laws]
    check_same_values(held, list(names))
    found = [score for tier in tiers for score in tier_scores(laws, held, tier, seed)]
    logs = log_scores(laws, held)
    if logs is None:
        notes.append("Log scores are not compared: not all laws give the values a density.")
    else:
        found = [logs, *found]
    rows = [_with_interval(score, level, replicates, seed) for score in found]
    return xr.Dataset(
        {
            "value": (("score", "law"), np.stack([score.means for score in found])),
            "difference": (("score", "law", "statistic"), np.stack(rows)),
        },
        coords={
            "score": [score.name for score in found],
            "law": list(names),
            "statistic": ["estimate", "lower", "upper"],
        },
        attrs={"level": level},
    )


def _with_interval(score: Scores, level: float, replicates: int, seed: int) -> Array:
    """Difference of each law to the best one, with its interval; (law, 3)."""
    means = score.means
    best = int(np.argmax(means) if score.name == "log score" else np.argmin(means))
    draws = score.draws(bootstrap_units(score, replicates, seed))
    gaps = draws - draws[:, [best]]
    tails = np.quantile(gaps, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    return np.stack([means - means[best], *tails], axis=-1)


def _side_by_side(laws: list[Law], names: tuple[str, ...]) -> xr.Dataset:
    """Parameters that laws have in common by name, shape and meaning, over ``law``."""
    out = {}
    for name in dict.fromkeys(str(n) for law in laws for n in law.parameters.data_vars):
        having = [(n, law) for n, law in zip(names, laws, strict=True) if name in law.parameters]
        tables = [law.parameters[name].drop_vars("law", errors="ignore") for _, law in having]
        if len({t.dims for t in tables}) > 1 or "point" in tables[0].dims:
            continue
        joined = xr.concat(tables, dim="law", join="outer")
        out[name] = joined.assign_coords(law=[n for n, _ in having])
    return xr.merge(out.values(), join="outer").reindex(law=list(names)) if out else xr.Dataset()
