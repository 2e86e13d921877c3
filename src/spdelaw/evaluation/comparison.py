"""Which of several laws to use, and how certain that is."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw.checks import checked, one_of
from spdelaw.data.io.sources import columns_of, labelled
from spdelaw.data.observed import Observed
from spdelaw.domains.base import table_html
from spdelaw.errors import DataError, InputError
from spdelaw.evaluation.scores import (
    ENOUGH_PATHS,
    LOG_DENSITY,
    Prediction,
    ScoreTable,
    aligned,
    to_plain,
    units_of,
)
from spdelaw.evaluation.tasks import TIERS, LawPredictor, Task, tier_task
from spdelaw.law.law import Law
from spdelaw.law.likelihood import Numbers
from spdelaw.law.observations import response, subtract_mean_and_forcing

# ---------- Whether log-likelihoods are densities of the same numbers


def check_comparable(*laws: Law) -> Numbers:
    """The values whose densities the log-likelihoods of all laws are, or `InputError`.

    A density of values and one of coefficients, or densities of different data, differ by more
    than the laws do. Laws of version 0.1, of lazy data, and of `spdelaw.update` do not record these
    values.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> from spdelaw.evaluation import check_comparable
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), 20, seed=0, observation_std=0.1)
        >>> few, many = (sl.fit(data, sl.Interval(0, np.pi), n) for n in (1, 2))
        >>> check_comparable(few, many).kind
        'values'
    """
    named = [Numbers(**(law.info.log_likelihood_of or {"kind": "", "count": 0})) for law in laws]
    if not named or not all(numbers.fingerprint for numbers in named):
        expected = "laws that record the data of their log-likelihood"
        got = f"{len(named)} laws, one without this record"
        fix = "fit data in memory with this version, or compare law.log_likelihood(data)"
        raise InputError("laws", expected=expected, got=got, fix=fix)
    first, *others = named
    for other in others:
        if other != first:
            expected = f"log-likelihoods of the same values: {_describe_numbers(first)}"
            got = _describe_numbers(other)
            raise InputError("laws", expected=expected, got=got, fix=_suggest_fix(first, other))
    return first


def _describe_numbers(numbers: Numbers) -> str:
    return f"{numbers.count} {numbers.kind} of data {numbers.fingerprint[:12]}"


def _suggest_fix(one: Numbers, other: Numbers) -> str:
    if one.fingerprint != other.fingerprint:
        return "fit both to the same data with the same preparation"
    return "fit both with observation_noise='estimate', so that all values have a density"


# ---------- Likelihood-ratio tests of laws that are special cases of others
#
#     2 (log p_larger - log p_smaller)  ~  chi^2 with as many degrees as parameters differ,
#
# for laws of the same numbers with the same domain, modes, nuisance modes, start and noise of
# observation, whose drift and noise are special cases of the larger one's.


#: Words of the model, each a special case of those after it. A pair of modes that turns shares its
#: decay, so that "diagonal" is no case of "normal".
DRIFTS = ("parametric", "diagonal", "dense")
NOISES = ("parametric", "diagonal", "low_rank", "dense")


class NestedTest(NamedTuple):
    """Test of a smaller law against a larger one; both by their number."""

    smaller: int
    larger: int
    statistic: float
    degrees: int
    p_value: float


def nested_tests(laws: list[Law]) -> list[NestedTest]:
    """All pairs of laws of which one is a special case of the other."""
    pairs = [(i, j) for i in range(len(laws)) for j in range(len(laws)) if i != j]
    return [_ratio_test(i, j, laws[i], laws[j]) for i, j in pairs if is_nested(laws[i], laws[j])]


def _ratio_test(i: int, j: int, smaller: Law, larger: Law) -> NestedTest:
    gain = 2.0 * (larger.info.log_likelihood - smaller.info.log_likelihood)
    degrees = int(larger.info["n_parameters"] - smaller.info["n_parameters"])
    p = float(scipy.special.chdtrc(degrees, max(gain, 0.0)))
    return NestedTest(i, j, gain, degrees, p)


def is_nested(smaller: Law, larger: Law) -> bool:
    """Whether the first law is a special case of the second, with fewer parameters."""
    a, b = smaller.info, larger.info
    same = (
        smaller.domain == larger.domain
        and smaller.n_modes == larger.n_modes
        and (a.n_nuisance or 0) == (b.n_nuisance or 0)
        and smaller.initial.kind == larger.initial.kind
        and a.engine == b.engine == "exact"
        and _noise_of_values(smaller) == _noise_of_values(larger)
        and smaller.dynamics.name == larger.dynamics.name
    )
    if not same or a.n_parameters is None or b.n_parameters is None:
        return False
    turns = a.drift == "normal" and b.drift in ("normal", "dense")
    drift = turns or _is_special_case(a.drift, b.drift, DRIFTS)
    within = drift and _is_special_case(a.noise, b.noise, NOISES)
    return within and a.n_parameters < b.n_parameters


def _is_special_case(small: str | None, large: str | None, order: tuple[str, ...]) -> bool:
    return small in order and large in order and order.index(small) <= order.index(large)


def _noise_of_values(law: Law) -> tuple[bool, int]:
    """Whether there is noise of observation, and whether it is one number or one per point."""
    return bool(np.any(law.observation_variance)), law.observation_variance.ndim


# ---------- Scores of several laws on the same held-out values, with bootstrap intervals
#
# Log scores are log densities of the observed values as they came,
#
#     log p(X) = log p(y) - sum log s(x),    X = offset + s y,
#
# so that laws with different climatologies and scales are comparable. Errors and CRPS are in the
# units of the data. Units of the bootstrap are paths or, of few paths, stretches of time: what lies
# in one of them is drawn together, for all laws.


Array = np.ndarray

#: Values that two laws prepare from one are equal to this, relative to their size.
SAME_VALUES = 1e-6


class HeldOut(NamedTuple):
    """Data under one law, and the map back to their units at its points, (P, T, M).

    Laws may use different points of one grid: scores cover all its cells, (P, T, G).
    """

    observed: Observed
    offset: Array
    scale: Array

    @property
    def raw(self) -> Array:
        """Values in the units of the data, (P, T, G)."""
        return self.on_cells(self.offset + self.scale * self.observed.fields.values)

    def on_cells(self, values: Array) -> Array:
        """Values at the points of the law at all cells, NaN where it has no point."""
        return self.observed.places.unflatten(values).reshape(*values.shape[:2], -1)

    def predict(self, law: Law, task: Task) -> Prediction:
        """Prediction of every value in the units of the data, from those given, (P, T, G)."""
        inside = self.observed.places.inside
        cells = task.given if inside is None else task.given[..., inside]
        predictor = LawPredictor(law.without_preparation_and_mean)
        mean, std, _ = predictor.predict(self.observed.masked(cells).flat)
        return Prediction(
            self.on_cells(self.offset + self.scale * mean), self.on_cells(self.scale * std)
        )


def held_out(law: Law, data: Any) -> HeldOut:
    """Data prepared by a law, less its mean, with offset and scale of the map back."""
    observed, how = subtract_mean_and_forcing(law, data).in_memory(), law.preparation
    offset, scale = np.zeros(1), np.ones(1)
    if how is not None and how.how.is_affine:
        offset, scale = how.affine(observed.fields["time"].values, observed.points)
    if (driven := response(law, observed.times, observed.points)) is not None:
        offset = offset + scale * driven
    return HeldOut(
        observed, *(np.broadcast_to(array, observed.fields.shape) for array in (offset, scale))
    )


def check_same_values(held_out_values: list[HeldOut], names: list[str]) -> None:
    """Refuse laws whose preparation gives different values of the data."""
    first = held_out_values[0].raw
    for name, other in zip(names[1:], held_out_values[1:], strict=True):
        same = other.raw.shape == first.shape
        if same:
            in_both = np.isfinite(first) & np.isfinite(other.raw)
            gap = np.abs(other.raw - first)[in_both].max(initial=0.0)
            same = in_both.any() and gap <= SAME_VALUES * np.abs(first[in_both]).max()
        if not same:
            expected = f"the same values for {names[0]} and {name}"
            got = f"{first.shape} and {other.raw.shape} values, reduced differently"
            fix = "compare laws whose preparation selects, averages and coarsens in the same way"
            raise DataError("data", expected=expected, got=got, fix=fix)


def tier_table(
    laws: list[Law], held_out_values: list[HeldOut], tier: str, seed: int
) -> ScoreTable | None:
    """RMSE and CRPS of a tier, by unit, on the values that all laws predict; None without any."""
    raw = held_out_values[0].raw
    in_all = np.isfinite(np.stack([h.raw for h in held_out_values])).all(0)
    task = tier_task(np.where(in_all, raw, np.nan), tier, seed)
    predictions = [h.predict(law, task) for law, h in zip(laws, held_out_values, strict=True)]
    predicted = np.isfinite(np.stack([one.mean for one in predictions])).all(0)
    truth, units = np.where(task.scored & predicted, raw, np.nan), units_of(*raw.shape[:2])
    table = ScoreTable.of(predictions, truth, units[..., None], int(units.max()) + 1)
    table = table._replace(scores=table.scores[:2], sums=table.sums[..., :2])
    return table if table.counts.any() else None


def log_table(laws: list[Law], held_out_values: list[HeldOut]) -> ScoreTable | None:
    """Log density of the data by unit; None where the laws give densities of different numbers."""
    densities = [_log_density(law, h) for law, h in zip(laws, held_out_values, strict=True)]
    if len({(kind, count) for _, kind, count in densities}) > 1 or densities[0][1] != "values":
        return None
    sums = np.stack([by_unit for by_unit, _, _ in densities], axis=-1)
    counts = np.full(len(sums), densities[0][2] / len(sums))
    return ScoreTable((LOG_DENSITY,), sums[..., None], counts)


def _log_density(law: Law, held_out_values: HeldOut) -> tuple[Array, str, int]:
    """By path, or by what each stretch of time adds; with kind and count of the numbers."""
    bare, observed = law.without_preparation_and_mean, held_out_values.observed
    fields = observed.fields
    with np.errstate(invalid="ignore", divide="ignore"):
        stretched = np.where(np.isfinite(fields.values), np.log(held_out_values.scale), 0.0).sum(-1)
    whole = bare.log_likelihood(observed)
    kind, count = str(whole.attrs["of"]), int(whole.attrs["count"])
    if observed.n_paths >= ENOUGH_PATHS or observed.has_own_clocks:
        return whole.values - stretched.sum(1), kind, count
    units = units_of(*fields.shape[:2])[0]
    ends = [int(np.flatnonzero(units == u)[-1]) + 1 for u in np.unique(units)]
    ends = [e for e in ends if e >= 2]
    upto = [bare.log_likelihood(observed.at_times(slice(e))).values for e in ends[:-1]]
    steps = np.diff(np.stack([np.zeros(len(whole)), *upto, whole.values]), axis=0)
    cut = np.add.reduceat(stretched, [0, *ends[:-1]], axis=1)
    return (steps.T - cut).ravel(), kind, count


# ---------- A comparison as a table, one sentence, and plain data


#: Difference of BIC below which laws cannot be distinguished, and least one that is clear.
CLOSE_BIC, CLEAR_BIC = 2.0, 10.0
#: Differences below this share of a score are rounding.
ROUNDING = 1e-6
#: Most modes of a parameter that the table shows.
MOST_MODES_SHOWN = 6
#: Criteria with their names in the table.
CRITERIA = {
    "log_likelihood": "log-likelihood",
    "n_parameters": "parameters",
    "aic": "AIC",
    "bic": "BIC",
}


def rows_of(comparison: Comparison) -> list[list[str]]:
    """Likelihoods, tests, scores and parameters: a name and a cell per law."""
    rows = []
    if comparison.likelihood is not None:
        for name, word in CRITERIA.items():
            form = ".6g" if name == "n_parameters" else ".2f"
            rows.append([word, *(f"{v:{form}}" for v in comparison.likelihood[name].values)])
    for test in comparison.tests:
        cells = [""] * len(comparison.names)
        cells[test.smaller] = f"{test.statistic:.2f}, {test.degrees} d.f., p = {test.p_value:.2g}"
        rows.append([f"ratio test in {comparison.names[test.larger]}", *cells])
    scores = xr.Dataset(coords={"score": []}) if comparison.scores is None else comparison.scores
    for score in scores["score"].values:
        row = scores.sel(score=score)
        cells = []
        for value, (gap, low, high) in zip(row.value.values, row.difference.values, strict=True):
            more = "" if gap == 0 else f" ({gap:+.3g} [{low:+.3g}, {high:+.3g}])"
            cells.append(f"{value:.4g}{more}")
        rows.append([str(score), *cells])
    return rows + _parameter_rows(comparison)


def _parameter_rows(comparison: Comparison) -> list[list[str]]:
    rows = []
    for name, table in comparison.parameters.data_vars.items():
        extra = [d for d in table.dims if d not in ("law", "statistic")]
        if len(extra) > 1:
            continue
        for index in range(min(table.sizes[extra[0]], MOST_MODES_SHOWN) if extra else 1):
            entry = table.isel({extra[0]: index}) if extra else table
            cells = [
                _interval_text(entry.sel(law=law).transpose("statistic").values)
                for law in comparison.names
            ]
            if all(cell in ("0", "") for cell in cells) and str(name).startswith("initial"):
                continue  # a start at the mean
            label = str(name).replace("_", " ")
            rows.append([f"{label} {index + 1}" if extra else label, *cells])
    return rows


def _interval_text(values: np.ndarray) -> str:
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
    """The law to use, and why, in a sentence: new data count more than criteria."""
    if scores is not None and scores.sizes["score"]:
        return _by_scores(names, scores, laws, level)
    if likelihood is None:
        return 0, "Nothing could be compared."
    return _by_criterion(names, likelihood, tests)


def _by_scores(
    names: tuple[str, ...], scores: xr.Dataset, laws: list[Law], level: float
) -> tuple[int, str]:
    """The best by the first score, or the simplest law that no score distinguishes from it."""
    score = str(scores["score"].values[0])
    best = int(np.flatnonzero(scores["difference"].values[0, :, 0] == 0)[0])
    others = [law for law in range(len(names)) if law != best]
    open_ones = [best, *(law for law in others if not _differs(scores, law).any())]
    interval = f"{100 * level:g} % interval"
    if len(open_ones) == 1:
        return best, (
            f"Use {names[best]}: its {score} on these data is better than that of "
            f"{_join_names([names[law] for law in others])} "
            f"({interval}).{_contrary_scores(scores, best)}"
        )
    count = [float(law.info.get("n_parameters", np.inf)) for law in laws]
    simplest = min(open_ones, key=lambda i: (count[i], i != best))
    close = _join_names([names[i] for i in open_ones if i != simplest])
    return simplest, (
        f"Use {names[simplest]}, the simplest law that no score rules out: these data do not "
        f"distinguish it from {close} ({interval})."
    )


def _differs(scores: xr.Dataset, law: int) -> Array:
    """By which scores a law clearly differs from the best one of each, beyond rounding."""
    gaps, values = scores["difference"].values[:, law], scores["value"].values[:, law]
    away = (gaps[:, 1] > 0) | (gaps[:, 2] < 0)
    return away & (np.abs(gaps[:, 0]) > ROUNDING * np.abs(values))


def _contrary_scores(scores: xr.Dataset, best: int) -> str:
    """Scores by which another law is better than the one that is chosen, in a sentence."""
    worse = [str(name) for name in scores["score"].values[_differs(scores, best)]]
    verb = "says" if len(worse) == 1 else "say"
    return (
        (f" {_join_names(worse)} {verb} otherwise: choose by the purpose of the law.")
        if worse
        else ""
    )


def _by_criterion(
    names: tuple[str, ...], likelihood: xr.Dataset, tests: list[NestedTest]
) -> tuple[int, str]:
    bic = likelihood["bic"].values
    order = np.argsort(bic, kind="stable")
    best, second = int(order[0]), int(order[1])
    gap = float(bic[second] - bic[best])
    sure = (
        "clearly"
        if gap >= CLEAR_BIC
        else ("probably" if gap >= CLOSE_BIC else ("by a small margin"))
    )
    test = [f"; the likelihood-ratio test has p = {test.p_value:.2g}"
            for test in tests if {test.smaller, test.larger} == {best, second}]  # fmt: skip
    return best, (
        f"Use {names[best]}, {sure}: its BIC is {gap:.1f} below that of "
        f"{names[second]}{''.join(test)}; a comparison on new data is more reliable."
    )


def _join_names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _describe_dataset(dataset: xr.Dataset | None) -> dict[str, Any] | None:
    if dataset is None:
        return None
    return {str(n): v.values for n, v in {**dataset.coords, **dataset.data_vars}.items()} | {
        str(k): v for k, v in dataset.attrs.items()
    }


# ---------- Comparison of laws


#: Tasks that laws are compared by on new data.
TASKS = ("predict", "forecast", "gaps")


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison:
    """Result of `compare`.

    Attributes:
        names: of the laws.
        likelihood: Dataset over ``law``: ``log_likelihood``, ``n_parameters``, ``aic``, ``bic`` of
            their training data; None if these are not the same values.
        tests: likelihood-ratio tests of laws that are special cases of others.
        scores: Dataset over ``score`` and ``law`` on the new data: ``value``, and ``difference``
            to the best law of each score with ``statistic`` = estimate, lower, upper; or None.
        parameters: Dataset of estimates and intervals side by side, over ``law``.
        notes: what was not compared, and why.
        sentence: recommendation, with its certainty.
        best: number of the recommended law.
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
        tests = [
            test._asdict()
            | {"smaller": self.names[test.smaller], "larger": self.names[test.larger]}
            for test in self.tests
        ]
        document = {
            "laws": self.names,
            "use": self.names[self.best],
            "sentence": self.sentence,
            "level": self.level,
            "likelihood": _describe_dataset(self.likelihood),
            "tests": tests,
            "scores": _describe_dataset(self.scores),
            "parameters": _describe_dataset(self.parameters),
            "notes": self.notes,
        }
        return to_plain(document)

    def __repr__(self) -> str:
        """The table, the tests and the sentence."""
        lines = aligned([["", *self.names], *self.table])
        return "\n".join([*lines, *self.notes, self.sentence])

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        header = ["", *self.names]
        return table_html("Laws compared", [], header, self.table, [*self.notes, self.sentence])


@checked()
def compare(
    *laws: Law,
    data: Any = None,
    names: tuple[str, ...] | None = None,
    tiers: tuple[str, ...] = TASKS,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    **adapter: Any,
) -> Comparison:
    """Compare laws: likelihoods, nested tests, scores on new data, parameters side by side.

    Likelihoods are compared if they are densities of the same values. Scores on new data are more
    important: they are in the units of the data, with intervals from a paired bootstrap over paths
    or blocks of times.

    Args:
        laws: two or more.
        data: fields or raw data that no law was fitted to, in any form that `spdelaw.fit` takes;
            NaN is missing.
        names: of the laws; a, b, c by default.
        tiers: tasks to score on the data, see `spdelaw.evaluate`.
        level: of the intervals.
        replicates: of the bootstrap.
        seed: of the bootstrap and of the values held out.
        adapter: ``times`` and ``points`` of a bare array, as of `spdelaw.Law.observe`.

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
    chosen = _check_laws(laws, tiers)
    labels = _check_names(names, len(chosen))
    notes: list[str] = []
    likelihood = _likelihood(chosen, labels, notes, refuse=data is None)
    tests = nested_tests(chosen) if likelihood is not None else []
    scores = None
    if data is not None:
        columns = columns_of(chosen[0].info.get("labels", {}))
        data, _ = labelled(data, chosen[0].domain.dims, columns, **adapter)
        scores = _score_dataset(chosen, labels, data, tiers, notes, (level, replicates, seed))
    best, sentence = sentence_of(labels, likelihood, tests, scores, chosen, level)
    table = _side_by_side(chosen, labels)
    return Comparison(
        labels, likelihood, tuple(tests), scores, table, tuple(notes), sentence, best, level
    )


def _check_laws(laws: tuple[Any, ...], tiers: tuple[str, ...]) -> list[Law]:
    for tier in tiers:
        one_of("tiers", tier, TIERS)
    if len(laws) < 2:
        expected = "at least two laws"
        raise InputError("laws", expected=expected, got=str(len(laws)), fix="pass compare(a, b)")
    return list(laws)


def _check_names(names: Any, n: int) -> tuple[str, ...]:
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


def _score_dataset(
    laws: list[Law],
    names: tuple[str, ...],
    data: Any,
    tiers: tuple[str, ...],
    notes: list[str],
    settings: tuple[float, int, int],
) -> xr.Dataset:
    """Scores on new data, with intervals of their differences to the best."""
    level, replicates, seed = settings
    held_out_values = [held_out(law, data) for law in laws]
    check_same_values(held_out_values, list(names))
    logs = log_table(laws, held_out_values)
    if logs is None:
        notes.append("Log scores are not compared: not all laws have a density of the values.")
    tables: dict[tuple[str, ...], ScoreTable | None] = {(LOG_DENSITY,): logs}
    for tier in tiers:
        tables[f"RMSE {tier}", f"CRPS {tier}"] = tier_table(laws, held_out_values, tier, seed)
    named = {shown: table for shown, table in tables.items() if table is not None}
    rows = [table.differences(level, replicates, seed) for table in named.values()]
    means = [table.means() for table in named.values()]
    return xr.Dataset(
        {
            "value": (("score", "law"), np.concatenate(means, axis=1).T),
            "difference": (
                ("score", "law", "statistic"),
                np.concatenate(rows, axis=1).swapaxes(0, 1),
            ),
        },
        coords={
            "score": [name for shown in named for name in shown],
            "law": list(names),
            "statistic": ["estimate", "lower", "upper"],
        },
        attrs={"level": level},
    )


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
