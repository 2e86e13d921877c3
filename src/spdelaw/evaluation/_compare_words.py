"""A comparison in words: rows of a table, one sentence, and plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.evaluation._nested import NestedTest
from spdelaw.law import Law

if TYPE_CHECKING:
    from spdelaw.evaluation._compare import Comparison

#: Differences of BIC up to which laws are not told apart, and from which on it is clear.
CLOSE, CLEAR = 2.0, 10.0
#: Differences below this share of a score are rounding.
NOTHING = 1e-6
#: Most modes of a parameter that the table shows.
SHOWN = 6


def rows_of(found: Comparison) -> list[list[str]]:
    """Likelihoods, tests, scores and parameters: a name and a cell per law."""
    return [*_likelihood_rows(found), *_test_rows(found), *_score_rows(found), *_parameters(found)]


def _likelihood_rows(found: Comparison) -> list[list[str]]:
    if found.likelihood is None:
        return []
    words = {"log_likelihood": "log-likelihood", "n_parameters": "parameters", "aic": "AIC",
             "bic": "BIC"}  # fmt: skip
    return [
        [word, *(f"{v:.6g}" if name == "n_parameters" else f"{v:.2f}" for v in values)]
        for name, word in words.items()
        for values in [found.likelihood[name].values]
    ]


def _test_rows(found: Comparison) -> list[list[str]]:
    rows = []
    for test in found.tests:
        cells = [""] * len(found.names)
        cells[test.smaller] = f"{test.statistic:.2f}, {test.degrees} d.f., p = {test.p_value:.2g}"
        rows.append([f"ratio test in {found.names[test.larger]}", *cells])
    return rows


def _score_rows(found: Comparison) -> list[list[str]]:
    if found.scores is None:
        return []
    rows = []
    for score in found.scores["score"].values:
        part = found.scores.sel(score=score)
        cells = []
        for value, (gap, low, high) in zip(part.value.values, part.difference.values, strict=True):
            more = "" if gap == 0 else f" ({gap:+.3g} [{low:+.3g}, {high:+.3g}])"
            cells.append(f"{value:.4g}{more}")
        rows.append([str(score), *cells])
    return rows


def _parameters(found: Comparison) -> list[list[str]]:
    rows = []
    for name, table in found.parameters.data_vars.items():
        extra = [d for d in table.dims if d not in ("law", "statistic")]
        if len(extra) > 1:
            continue
        for index in range(min(table.sizes[extra[0]], SHOWN) if extra else 1):
            part = table.isel({extra[0]: index}) if extra else table
            cells = [_cell(part.sel(law=law).transpose("statistic").values) for law in found.names]
            if all(cell in ("0", "") for cell in cells) and str(name).startswith("initial"):
                continue  # a start at the mean
            label = str(name).replace("_", " ")
            rows.append([f"{label} {index + 1}" if extra else label, *cells])
    return rows


def _cell(values: np.ndarray) -> str:
    estimate, stderr, low, high = values
    if not np.isfinite(estimate):
        return ""
    return f"{estimate:.4g}" if stderr == 0 else f"{estimate:.4g} [{low:.4g}, {high:.4g}]"


def sentence_of(
    names: tuple[str, ...],
    likelihood: xr.Dataset | None,
    tests: list[NestedTest],
    scores: xr.Dataset | None,
    laws: list[Law],
    level: float,
) -> tuple[int, str]:
    """The law to use, and the sentence that says so: new data count more than criteria."""
    if scores is not None and scores.sizes["score"]:
        return _by_scores(names, scores, laws, level)
    if likelihood is None:
        return 0, "Nothing could be compared."
    return _by_criterion(names, likelihood, tests)


def _by_scores(
    names: tuple[str, ...], scores: xr.Dataset, laws: list[Law], level: float
) -> tuple[int, str]:
    """The best by the first score, or the simplest law that no score tells from it."""
    score = str(scores["score"].values[0])
    best = int(np.flatnonzero(scores["difference"].values[0, :, 0] == 0)[0])
    open_ones = _not_ruled_out(scores, best)
    told = f"{100 * level:g} % interval"
    if len(open_ones) == 1:
        others = _listed([names[i] for i in range(len(names)) if i != best])
        return best, (
            f"Use {names[best]}: its {score} on these data is better than that of {others} "
            f"({told}).{_against(scores, best)}"
        )
    count = [float(law.info.get("n_parameters", np.inf)) for law in laws]
    simplest = min(open_ones, key=lambda i: (count[i], i != best))
    others = _listed([names[i] for i in open_ones if i != simplest])
    return simplest, (
        f"Use {names[simplest]}, the simplest that no score on these data rules out: it is not "
        f"told apart from {others} ({told})."
    )


def _not_ruled_out(scores: xr.Dataset, best: int) -> list[int]:
    """Laws that are not worse than the best of any score; the best by the first always stays."""
    gaps, kept = scores["difference"].values, [best]
    for law in range(gaps.shape[1]):
        away = (gaps[:, law, 1] > 0) | (gaps[:, law, 2] < 0)
        size = np.abs(gaps[:, law, 0]) > NOTHING * np.abs(scores["value"].values[:, law])
        if law != best and not (away & size).any():
            kept.append(law)
    return kept


def _against(scores: xr.Dataset, best: int) -> str:
    """Scores by which another law is better than the one that is chosen, in a sentence."""
    gaps = scores["difference"].values[:, best]
    away = (gaps[:, 1] > 0) | (gaps[:, 2] < 0)
    size = np.abs(gaps[:, 0]) > NOTHING * np.abs(scores["value"].values[:, best])
    worse = [str(name) for name in scores["score"].values[away & size]]
    said = "says" if len(worse) == 1 else "say"
    return f" {_listed(worse)} {said} otherwise: choose by what it is for." if worse else ""


def _by_criterion(
    names: tuple[str, ...], likelihood: xr.Dataset, tests: list[NestedTest]
) -> tuple[int, str]:
    bic = likelihood["bic"].values
    order = np.argsort(bic, kind="stable")
    best, second = int(order[0]), int(order[1])
    gap = float(bic[second] - bic[best])
    sure = "clearly" if gap >= CLEAR else ("probably" if gap >= CLOSE else "by a hair")
    for test in tests:
        if {test.smaller, test.larger} == {best, second}:
            words = "; the likelihood-ratio test has p = "
            return best, (
                f"Use {names[best]}, {sure}: its BIC is {gap:.1f} below that of "
                f"{names[second]}{words}{test.p_value:.2g}; new data would tell more."
            )
    return best, (
        f"Use {names[best]}, {sure}: its BIC is {gap:.1f} below that of {names[second]}; new data "
        "would tell more."
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def plain(found: Comparison) -> dict[str, Any]:
    """The whole comparison as plain types."""
    return {
        "laws": list(found.names),
        "use": found.names[found.best],
        "sentence": found.sentence,
        "level": found.level,
        "likelihood": _of(found.likelihood),
        "tests": [
            {
                **test._asdict(),
                "smaller": found.names[test.smaller],
                "larger": found.names[test.larger],
            }
            for test in found.tests
        ],
        "scores": _of(found.scores),
        "parameters": _of(found.parameters),
        "notes": list(found.notes),
    }


def _of(dataset: xr.Dataset | None) -> dict[str, Any] | None:
    if dataset is None:
        return None
    parts = {str(n): _numbers(v.values) for n, v in {**dataset.coords, **dataset.data_vars}.items()}
    return parts | {str(k): v for k, v in dataset.attrs.items()}


def _numbers(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return [_numbers(v) for v in values.tolist()] if values.ndim else _numbers(values.item())
    if isinstance(values, list):
        return [_numbers(v) for v in values]
    return None if isinstance(values, float) and not np.isfinite(values) else values
