"""The door: data in, law out."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import instance, probability, whole
from spdelaw.data import (
    ADAPTER,
    OBSERVATION_STD,
    Observed,
    Preparation,
    check_not_filled,
    check_times,
    hints,
    labels_of,
    observe,
    observed_fields,
    place_of,
    with_value_noise,
)
from spdelaw.domain import AbstractDomain
from spdelaw.equation import whole_pairs
from spdelaw.errors import DataError, DomainError, InputError
from spdelaw.infer._auto_modes import choose_modes
from spdelaw.infer._bootstrap import bootstrap as run_bootstrap
from spdelaw.infer._door import clear_errors
from spdelaw.infer._engine import Engine, make_engine
from spdelaw.infer._forcing import with_forcing_on_clock
from spdelaw.infer._known_mean import known_mean, with_known_mean
from spdelaw.infer._model import WORDS, Model
from spdelaw.infer._parametrise import drift_coordinates, noise_coordinates
from spdelaw.infer._rest import with_rest
from spdelaw.infer._semilinear_engine import ASSUMED, SemilinearEngine
from spdelaw.infer._several_fields import by_field
from spdelaw.law import VALUE_NOISE, Law


def fit(
    data: Any,
    domain: AbstractDomain,
    n_modes: int | str = "auto",
    model: Model | None = None,
    *,
    engine: str | Engine = "exact",
    prepare: Preparation | None = None,
    level: float = 0.95,
    bootstrap: int = 0,
    seed: int = 0,
    executor: Any = None,
    progress: Any = None,
    **words: Any,
) -> Law:
    """Learn the law of a stochastic PDE from observed fields, as a `spdelaw.Law`.

    Args:
        data: fields (path, time, x) or (time, x), NaN for missing: DataArray, Dataset, NumPy or
            torch array (with ``times=`` and ``points=``), per-path times as ``path_time``.
        domain: where the fields live, for example ``sl.Interval(0, np.pi)``.
        n_modes: modes to report, or "auto" to choose by BIC.
        model: `spdelaw.Model`, what is assumed; its words can be passed one by one instead.
        engine: `spdelaw.Exact`, `spdelaw.Chaos`, `spdelaw.Amortized`, or its name.
        prepare: `spdelaw.Preparation` of the data, which the law keeps and undoes on output.
        level: of the intervals.
        bootstrap: replicates of a parametric bootstrap; 0 for the information matrix.
        seed: of the bootstrap, and of training.
        executor: where lazy data and replicates are worked on: None for here, a
            ``ThreadPoolExecutor``, or a Dask ``Client``.
        progress: True, or a function that trainings and searches of over two seconds report to.
        words: of the model (`spdelaw.Model`), of the engine, or of the data (`spdelaw.as_fields`).
            ``terms=("u", "u^3")`` asks for a semilinear law (`spdelaw.Semilinear`), of two fields
            ``terms={"u": ("u", "u^3", "v"), "v": ("u", "v")}`` (`spdelaw.Fields`), n_modes of each.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=4), n_paths=200, seed=0)
        >>> law = sl.fit(data, sl.Interval(0, np.pi), 4)
        >>> law.parameters.eigenvalue.sel(statistic="estimate").values.round()
        array([ 1.,  4.,  9., 16.])
    """
    check_domain(domain)
    adapter = {name: words.pop(name) for name in ADAPTER if name in words}
    if "terms" in words:
        words["terms"], domain, n_modes = by_field("terms", words["terms"], domain, n_modes)
    if "terms" in words and isinstance(engine, str) and engine == "exact":
        engine = "semilinear"
    own = {name: words.pop(name) for name in WORDS if name in words}
    bends = engine == SemilinearEngine.name or isinstance(engine, SemilinearEngine)
    model = _model(model, ASSUMED | own if bends and model is None else own)
    engine = make_engine(engine, words)
    run: dict[str, Any] = {"level": probability("level", level), "seed": whole("seed", seed, 0)}
    run |= {"executor": executor, "progress": progress}
    place = place_of(executor)
    wanted, model = model, dataclasses.replace(model, rest="white")  # a second stage, of any engine
    engine.check(model, whole("bootstrap", bootstrap, 0))
    if model.value_noise is not None:
        _check_value_noise(engine, bootstrap)
        data, adapter = _beside(data, model.value_noise, prepare, domain, adapter), {}
        model = dataclasses.replace(model, observation_noise="auto")
    _check_prepared(data, prepare, model)
    entered = check_times(observe(data, domain, prepare, place=place, named=True, **adapter))
    if not engine.in_blocks or entered.has_own_clocks:
        entered = entered.in_memory()
    model = with_forcing_on_clock(model, entered)
    check_not_filled(entered)
    with place.guard():
        model, mean = known_mean(model, entered, "mean" in engine.honours)
        raw, model = entered.where_seen(), _where_seen(model, entered)
    observed = raw if mean is None else raw.less(mean)
    by_value = observed.std is not None and model.noise_word == "auto"
    if by_value:
        _check_value_noise(engine, bootstrap)
        model = dataclasses.replace(model, observation_noise=observed.std)
    with clear_errors(), place.guard():
        n, notes = _number_of_modes(n_modes, observed, model)
        law = engine.learn(observed, domain, n, model, **run)
    law = law.with_info(observation_noise=VALUE_NOISE) if by_value else law
    said = _said(observed, bends or "mean" in law.parameters)
    if said or notes:
        law = law.with_info(warnings=[*said, *notes, *law.info.get("warnings", [])])
    if bootstrap:
        with clear_errors():
            law = run_bootstrap(law, observed, engine, model, bootstrap, run)
    law = with_rest(law, observed, wanted)
    law = law if mean is None else with_known_mean(law, mean, raw)
    if entered.times.shape != raw.times.shape:  # it is the law at all times of the data
        law = dataclasses.replace(law, times=np.unique(entered.times))
    return _with_origin(law, observed)


def _beside(
    data: Any, std: Any, prepare: Any, domain: AbstractDomain, adapter: dict[str, Any]
) -> Any:
    """Data with the standard deviations of their values; raw where they are prepared later."""
    if isinstance(data, Observed):
        fields = with_value_noise(data.labelled, std, domain.dims)
        return observed_fields(fields, domain, data.prepared, dated=data.dated)
    if prepare is None:
        return with_value_noise(data, std, domain.dims, **adapter)
    if not isinstance(data, xr.DataArray) or not isinstance(std, xr.DataArray):
        fix = "pass both as DataArrays, or prepare them first"
        got = f"{type(data).__name__} and {type(std).__name__} beside prepare="
        raise InputError("observation_noise", expected="DataArrays", got=got, fix=fix)
    return data.assign_coords({OBSERVATION_STD: std})


def _check_value_noise(engine: Engine, bootstrap: int) -> None:
    """Refuse what has no place for standard deviations of single values."""
    if engine.name != "exact":
        got, fix = f"engine {engine.name!r}", "pass engine='exact'"
    elif bootstrap:
        got, fix = "bootstrap=", "use the intervals of the likelihood"
    else:
        return
    expected = "the exact engine alone, where each value has its own standard deviation"
    raise InputError("observation_noise", expected=expected, got=got, fix=fix)


def check_domain(domain: Any) -> None:
    """Refuse what is no domain."""
    if not isinstance(domain, AbstractDomain):
        expected, got = "a domain such as sl.Interval(0, np.pi)", type(domain).__name__
        raise DomainError("domain", expected=expected, got=got, fix="pass domain=sl.Interval(a, b)")


def _model(model: Model | None, words: dict[str, Any]) -> Model:
    """The model, or one of these words."""
    if model is None:
        return Model(**words)
    if words:
        expected = "words in the model itself, where one is given"
        fix = "move it into sl.Model(...)"
        raise InputError(next(iter(words)), expected=expected, got="a word beside model=", fix=fix)
    return instance("model", model, Model, "pass model=sl.Model(drift='dense')")


def _check_prepared(data: Any, prepare: Any, model: Model) -> None:
    """Refuse what is no preparation, and a forcing in other units than the prepared data."""
    if prepare is not None:
        instance("prepare", prepare, Preparation, "pass prepare=sl.Preparation(anomalies='month')")
    ready = isinstance(data, Observed) and data.prepared is not None
    if model.forcing is not None and (ready or prepare is not None):
        expected = "data in the units of the forcing"
        fix = "prepare the fields and the forcing alike, then fit without prepare"
        raise InputError("forcing", expected=expected, got="prepare=", fix=fix)


def _where_seen(model: Model, entered: Observed) -> Model:
    """The model with what it knows point by point, at the points that are seen."""
    known = model.observation_noise
    if np.ndim(known) != 1 or len(known) != len(entered.points):
        return model
    return dataclasses.replace(model, observation_noise=np.asarray(known)[entered.seen_points()])


def _said(observed: Observed, has_mean: bool) -> list[str]:
    """What looks unintended in the data, where they are in memory.

    A law that bends is about the field itself: its mean is no mistake.
    """
    prepared = observed.prepared
    known = [] if prepared is None else prepared.notes
    if observed.is_lazy:
        return known
    affine = prepared is not None and prepared.how.is_affine
    return [*known, *hints(observed.fields, affine, has_mean, observed.reading)]


def _number_of_modes(n_modes: Any, observed: Observed, model: Model) -> tuple[int, list[str]]:
    """Modes to report, with what is to be said about them."""
    domain, notes = observed.domain, list[str]()
    if n_modes == "auto":
        n_modes, note = choose_modes(observed, model.couples)
        notes.append(note)
    n = domain.check_modes(n_modes)
    _check_size(observed, n)
    # These refuse structures that the modes cannot have.
    drift_coordinates(model, domain, n, np.ones(n))
    noise_coordinates(model, n, np.ones(n))
    if model.drift == "normal" and (enough := whole_pairs(domain, n)) > n:
        notes.append(f"a mode lacks the partner it turns into, and is biased: n_modes={enough}")
    return n, notes


def _check_size(observed: Observed, n_modes: int) -> None:
    n_points, n_times, span = len(observed.points), observed.times.shape[-1], observed.span
    # Points where every mode vanishes, such as Dirichlet ends, tell nothing.
    n = _rank(observed.basis(min(n_modes, n_points)))
    if n_modes > n:
        expected, half = f"at most {n} modes on these {n_points} points", max(1, n // 2)
        raise DataError("n_modes", expected=expected, got=str(n_modes), fix=f"pass n_modes={half}")
    if observed.n_paths * (n_times - 1) < 3:
        expected, got = "at least three transitions", f"{observed.n_paths} paths of {n_times} times"
        raise DataError("data", expected=expected, got=got, fix="observe longer, or more paths")
    if not np.isfinite(span) or span <= 0:
        expected, got = "times that advance", f"a span of {span}"
        raise DataError("time", expected=expected, got=got, fix="check the time coordinate")


def _rank(basis: np.ndarray) -> int:
    """Rank of modes at points; a Gram matrix near the identity says at once that it is full."""
    gram = basis.T @ basis
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    off = np.abs(gram / np.outer(scale, scale) - np.eye(len(gram)))
    if off.sum(1).max() < 0.5 and (np.diag(gram) > 0).all():  # diagonally dominant
        return len(gram)
    return int(np.linalg.matrix_rank(basis))


def _with_origin(law: Law, observed: Observed) -> Law:
    """Law that knows from which date its times count, and what was done to its data."""
    attrs, prepared = observed.fields[observed.clock].attrs, observed.prepared
    clock = {k: str(attrs[k]) for k in ("units", "calendar") if k in attrs}
    law = law.with_info(labels=labels_of(observed.fields), **({"time": clock} if clock else {}))
    if prepared is None:
        return law
    law = law.with_info(preparation=prepared.how.in_words())
    if prepared.how.is_affine:
        note = "climatology, trend and scale count as known: no interval includes their error"
        law = law.with_info(warnings=[*law.info.get("warnings", []), note])
    return dataclasses.replace(law, preparation=prepared)
