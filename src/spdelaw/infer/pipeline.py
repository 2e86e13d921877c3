"""The fit: data in, law out."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.checks import checked, numbers, shown, whole
from spdelaw.data.clock import on_clock
from spdelaw.data.executors import Executor, as_executor
from spdelaw.data.fields import OBSERVATION_STD, as_fields, with_value_noise
from spdelaw.data.io.sources import labelled, open_raw
from spdelaw.data.observed import (
    ADAPTER,
    Observed,
    check_not_filled,
    check_times,
    observe,
    observed_fields,
)
from spdelaw.data.prepare import Preparation, Prepared
from spdelaw.data.quality import hints
from spdelaw.data.recognise import guess_source, prepare_as_recognised
from spdelaw.data.summary import checksum, labels_of
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.empirical import Empirical
from spdelaw.errors import ConvergenceError, DataError, DomainError, InputError, SpdeLawError
from spdelaw.infer.assemble import assemble
from spdelaw.infer.engines.candidates import choose_modes
from spdelaw.infer.engines.dynamics import DynamicsEngine
from spdelaw.infer.engines.exact import fit_statistics, statistics_of
from spdelaw.infer.engines.registry import Engine, make_engine
from spdelaw.infer.model import WORDS, Model
from spdelaw.infer.parameters import drift_coordinates, noise_coordinates
from spdelaw.infer.residuals import with_forecast_spread, with_residual
from spdelaw.infer.semilinear.engine import ASSUMED, SemilinearEngine
from spdelaw.infer.semilinear.layout import by_field
from spdelaw.infer.uncertainty import bootstrap as run_bootstrap
from spdelaw.law.law import Law, assumed
from spdelaw.law.observations import VALUE_NOISE
from spdelaw.law.parameters import Quantity, interval_table
from spdelaw.processes.forcing import Forcing
from spdelaw.processes.linear import Linear
from spdelaw.processes.operators import whole_pairs

# ---------- One clear error for whatever numerical libraries raise
#
# Their overflow warnings are suppressed: a search may try numbers that it then rejects.


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """Turn an overflow, a matrix that cannot be factorised and the like into `ConvergenceError`."""
    try:
        with np.errstate(all="ignore"):
            yield
    except SpdeLawError:
        raise
    except (ArithmeticError, ValueError) as error:  # LinAlgError is a ValueError
        raise ConvergenceError(
            "fit",
            expected="values with a finite likelihood",
            got=f"{type(error).__name__} ({error})",
            fix=(
                "check the scale of the data and the unit of time, fit fewer modes, or tie "
                "parameters (drift='parametric')"
            ),
        ) from error


# ---------- A known forcing on the modes of the domain and the clock of the data


def with_forcing_on_clock(model: Model, observed: Observed) -> Model:
    """The model with its forcing ready for these data."""
    forcing = model.forcing
    if forcing is None:
        return model
    if not isinstance(forcing, Forcing):
        forcing = _forcing_from_fields(forcing, observed)
    forcing.check_reach(float(observed.times.min()), float(observed.times.max()))
    return dataclasses.replace(model, forcing=forcing)


def _forcing_from_fields(given: Any, observed: Observed) -> Forcing:
    domain = observed.domain
    labelled = as_fields(given, dims=domain.dims)
    fields = domain.flatten(on_clock(labelled, observed.fields["time"].attrs))
    if fields.sizes["path"] != 1 or "path_time" in fields.coords:
        expected = "one field (time, x), the same for all paths"
        fix = "forcing.isel(path=0, drop=True)"
        raise DataError("forcing", expected=expected, got=f"{fields.sizes['path']} paths", fix=fix)
    values = fields.values[0]
    if not np.isfinite(values).all():
        got, fix = (
            "missing or infinite values",
            ("fill its gaps: a known forcing has no missing values"),
        )
        raise DataError("forcing", expected="a forcing without gaps", got=got, fix=fix)
    points = domain.places(fields).points
    return Forcing.from_fields(values, fields["time"].values, points, domain)


# ---------- A known mean: subtracted before a fit, and added to the law
#
# What lies in the modes becomes the mean ``m`` of the dynamics, by least squares over the points;
# the residual, a constant field, is the law's ``offset`` at its points.


Array = np.ndarray

#: Points of the mean may differ from those of the data by this part of the largest coordinate.
SAME_POINT = 1e-5


def known_mean(model: Model, observed: Observed, honoured: bool) -> tuple[Model, Array | None]:
    """The model without its known mean, and that mean at the observed points, (M,).

    Args:
        model: what is assumed.
        observed: the data, at all points that the mean may be given at.
        honoured: whether the engine supports a mean.
    """
    if model.known_mean is None:
        return model, None
    given, is_observed = model.known_mean, observed.observed_points()
    mean = (_mean_from_labelled if isinstance(given, xr.DataArray) else _mean_from_array)(
        given, observed
    )
    remaining_model = dataclasses.replace(model, mean="zero" if honoured else "auto")
    if (np.isnan(mean) & is_observed).any():
        raise _mean_error("a mean at every observed point", "missing values", "fill them")
    if np.isinf(mean).any():
        raise _mean_error("finite numbers", "infinite ones", "check the field")
    return remaining_model, mean[is_observed]


def with_known_mean(law: Law, mean: Array, observed: Observed) -> Law:
    """The law of the fields themselves; ``observed`` are those."""
    info: dict[str, Any] = {"mean": "known"}
    if isinstance(observed.values, np.ndarray) and law.info.get("log_likelihood_of"):
        fingerprint = checksum(observed.fields, observed.reading)
        info["log_likelihood_of"] = {**law.info["log_likelihood_of"], "fingerprint": fingerprint}
    law = law.with_info(**info)
    if not isinstance(law.dynamics, Linear):
        return dataclasses.replace(law, offset=mean)
    phi = law.domain.eigenfunctions(law.points, law.dynamics.n_modes)
    m = np.asarray(np.linalg.lstsq(phi, mean, rcond=None)[0])
    rows = interval_table(Quantity(m[: law.n_modes], np.zeros(law.n_modes), False), 0.95)
    table = law.parameters.assign(mean=(("mode", "statistic"), rows))
    dynamics = law.dynamics.with_mean(m)
    return dataclasses.replace(law, parameters=table, dynamics=dynamics, offset=mean - phi @ m)


def _mean_from_labelled(given: xr.DataArray, observed: Observed) -> Array:
    """A labelled mean at the points of the data."""
    domain = observed.domain
    for dim in ("time", "path"):
        if dim in given.dims:
            fix = f"mean.mean({dim!r}); for a mean that changes see sl.Preparation"
            raise _mean_error("one field, the same at all times", f"the dim {dim!r}", fix)
    fields = domain.flatten(as_fields(given.expand_dims(time=[0.0]), dims=domain.dims))
    points = domain.places(fields).points
    if points.shape != observed.points.shape or not np.allclose(
        points, observed.points, rtol=0.0, atol=SAME_POINT * np.abs(observed.points).max()
    ):
        n, got = len(observed.points), f"{len(points)} other points"
        raise _mean_error(f"the {n} points of the data", got, "mean.interp_like(data)")
    return np.asarray(fields.values[0, 0], dtype=float)


def _mean_from_array(given: Any, observed: Observed) -> Array:
    """The same of a mean without labels."""
    n, mean = len(observed.points), numbers(given)
    shape = f"shape {mean.shape}" if mean.ndim else shown(given)
    if mean.size != n or mean.ndim not in (1, len(observed.domain.dims)):
        fix = "pass mean='constant' to estimate it, or one number per point"
        raise _mean_error(f"'auto', 'zero', 'constant', or one number per point ({n})", shape, fix)
    return mean.reshape(-1)


def _mean_error(expected: str, got: str, fix: str) -> DataError:
    return DataError("mean", expected=expected, got=got, fix=fix)


# ---------- `fit`: data in, law out


#: Options of laws that hold for the field itself, not for its anomalies.
NONLINEAR_WORDS = frozenset({"terms", "dynamics", "state_noise"})


@checked()
def fit(
    data: Any,
    domain: AbstractDomain | str | None = None,
    n_modes: int | str = "auto",
    model: Model | None = None,
    *,
    engine: str | Engine = "exact",
    prepare: Preparation | None = None,
    level: float = 0.95,
    bootstrap: int = 0,
    seed: int = 0,
    executor: Any = None,
    progress: bool | Callable[[Any], Any] | None = None,
    **words: Any,
) -> Law:
    """Learn the law of a stochastic PDE from observed fields, as a `spdelaw.Law`.

    Args:
        data: fields (path, time, x) or (time, x), NaN for missing: DataArray, Dataset, NumPy or
            torch array (with ``times=`` and ``points=``), per-path times as ``path_time``.
        domain: such as ``sl.Interval(0, np.pi)``; None to guess it; "eof" for EOFs of the data.
        n_modes: modes to report, or "auto" to choose by BIC.
        model: `spdelaw.Model`, the assumptions; its options can also be passed as keywords.
        engine: `spdelaw.Exact`, `spdelaw.Chaos`, `spdelaw.Amortized`, or its name.
        prepare: `spdelaw.Preparation` of the data, which the law stores and reverses on output;
            where neither this nor a domain is stated, anomalies are chosen by the values.
        level: of the intervals.
        bootstrap: replicates of a parametric bootstrap; 0 for the information matrix.
        seed: of the bootstrap, and of training.
        executor: for lazy data and replicates: a ``ThreadPoolExecutor`` or a Dask ``Client``.
        progress: True, or a function that receives the progress of slow fits and trainings.
        words: keywords of the model (`spdelaw.Model`), of the engine, or of the data
            (`spdelaw.as_fields`). ``terms=("u", "u^3")`` fits a semilinear law
            (`spdelaw.Semilinear`; several fields: `spdelaw.Fields`), ``dynamics=`` your own.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=4), n_paths=200, seed=0)
        >>> law = sl.fit(data, sl.Interval(0, np.pi), 4)
        >>> law.parameters.eigenvalue.sel(statistic="estimate").values.round()
        array([ 1.,  4.,  9., 16.])
    """
    run = {"level": level, "seed": seed, "executor": executor, "progress": progress}
    if isinstance(domain, str) and domain == PATTERNS:
        words |= run | {"model": model, "engine": engine, "bootstrap": bootstrap}
        return fit_on_patterns(*_patterns_source(data, prepare, words), n_modes, words)
    source, words, n_modes = _open_source(data, domain, prepare, words, n_modes)
    engine, requested_model = _engine_and_model(engine, model, words)
    engine.check(requested_model, bootstrap)
    # The memory of the residuals is a second stage, after any engine.
    model = dataclasses.replace(requested_model, residual=WORDS["residual"])
    executor = as_executor(executor)
    record, raw, model, mean = _observe_source(source, engine, model, bootstrap, executor)
    observed = raw if mean is None else raw.less(mean)
    if model.mean == "auto" and observed.prepared is not None and observed.prepared.how.anomalies:
        model = dataclasses.replace(model, mean="zero")  # the climatology has it
    by_value = observed.std is not None and model.noise_word == "auto"
    if by_value:
        _check_value_noise(engine, bootstrap)
        model = dataclasses.replace(model, observation_noise=observed.std)
    n_modes = engine.n_modes(n_modes) if isinstance(engine, DynamicsEngine) else n_modes
    with clear_errors(), executor.guard():
        n, model, notes = _number_of_modes(n_modes, observed, model, engine)
        law = engine.learn(observed, observed.domain, n, model, **run)
    law = law.with_info(observation_noise=VALUE_NOISE) if by_value else law
    describes_mean = not isinstance(law.dynamics, Linear) or "mean" in law.parameters
    notes = [*source.notes, *_collect_warnings(observed, describes_mean), *notes]
    if notes:
        law = law.with_info(warnings=[*notes, *law.info.get("warnings", [])])
    if bootstrap:
        with clear_errors():
            law = run_bootstrap(law, observed, engine, model, bootstrap, run)
    law = with_residual(law, observed, requested_model)
    if requested_model.residual == "auto":
        law = with_forecast_spread(law, observed)
    law = law if mean is None else with_known_mean(law, mean, raw)
    if record.times.shape != raw.times.shape:  # it is the law at all times of the data
        law = dataclasses.replace(law, times=np.unique(record.times))
    law = _with_clock_and_preparation(law, observed)
    return law.with_info(assumed=assumed(law))


class Source(NamedTuple):
    """Data to fit, where they live, and how to read and prepare them.

    Attributes:
        data: as the user passed them, labelled where they came with times and points.
        domain: stated or guessed.
        prepare: stated or guessed; None for fields as they are.
        adapter: keywords of `spdelaw.as_fields`.
        notes: what was guessed, a sentence each.
    """

    data: Any
    domain: AbstractDomain
    prepare: Preparation | None
    adapter: dict[str, Any]
    notes: tuple[str, ...] = ()


def _open_source(
    data: Any, domain: Any, prepare: Preparation | None, words: dict[str, Any], n_modes: int | str
) -> tuple[Source, dict[str, Any], int | str]:
    """The source of the data, the other keywords, and the number of modes of all fields."""
    adapter = {name: words[name] for name in ADAPTER if name in words}
    words = {name: value for name, value in words.items() if name not in adapter}
    notes: tuple[str, ...] = ()
    if domain is None:
        data, adapter = labelled(data, **adapter)
        chooses = prepare is None and NONLINEAR_WORDS.isdisjoint(words)
        domain, prepare, adapter = _guessed(data, prepare, adapter, climate=chooses)
        notes = (f"domain guessed from the coordinates: {domain}; pass domain= for another",)
        if chooses and prepare is not None and prepare.anomalies:
            notes += (
                f"anomalies {prepare.anomalies!r} chosen by the values; pass prepare= for another "
                "preparation, sl.Preparation() for none",
            )
    check_domain(domain)
    if "terms" in words:
        words["terms"], domain, n_modes = by_field("terms", words["terms"], domain, n_modes)
    data, adapter = labelled(data, domain.dims, **adapter)
    return Source(data, domain, prepare, adapter, notes), words, n_modes


def _engine_and_model(
    engine: str | Engine, model: Model | None, words: dict[str, Any]
) -> tuple[Engine, Model]:
    """The engine that the keywords ask for, and the model of the remaining ones."""
    words = dict(words)
    state_noise = words.get("state_noise", "none" if model is None else model.state_noise)
    has_state_noise = isinstance(state_noise, str) and state_noise != "none"
    if engine == "exact" and ("terms" in words or has_state_noise):
        engine = SemilinearEngine.name
        words.setdefault("terms", ())
    if engine == "exact" and "dynamics" in words:
        engine = DynamicsEngine.name
    model_words = {name: words.pop(name) for name in WORDS if name in words}
    chosen = make_engine(engine, words)
    if isinstance(chosen, SemilinearEngine) and (chosen.terms or not has_state_noise):
        model_words = model_words if model is not None else ASSUMED | model_words
    return chosen, _model_from_words(model, model_words)


def _observe_source(
    source: Source, engine: Engine, model: Model, bootstrap: int, executor: Executor
) -> tuple[Observed, Observed, Model, Array | None]:
    """The whole record and its observed part, the model on its clock and points, a known mean."""
    data, domain, prepare, adapter, _ = source
    if model.value_noise is not None:
        _check_value_noise(engine, bootstrap)
        data = _data_with_value_noise(data, model.value_noise, prepare, domain, adapter)
        adapter, model = {}, dataclasses.replace(model, observation_noise="auto")
    _check_prepared(data, prepare, model)
    record = check_times(observe(data, domain, prepare, executor=executor, named=True, **adapter))
    if not engine.accepts_lazy or record.has_own_clocks or record.is_small:
        record = record.in_memory()
    model = with_forcing_on_clock(model, record)
    check_not_filled(record)
    with executor.guard():
        model, mean = known_mean(model, record, "mean" in engine.supports)
        return record, record.where_observed(), _where_observed(model, record), mean


# ---------- Laws on patterns of the data


#: The word for a domain of empirical orthogonal functions of the data.
PATTERNS = "eof"
#: Most patterns where their number is chosen, and values of a pattern in time for each of them.
MOST_PATTERNS, TIMES_PER_PATTERN = 20, 4


def _patterns_source(
    data: Any, prepare: Preparation | None, words: dict[str, Any]
) -> tuple[xr.DataArray, Prepared | None, tuple[str, ...]]:
    """Prepared canonical fields, their preparation and their spatial dims.

    Takes keywords of `spdelaw.as_fields` out of ``words``.
    """
    adapter = {name: words.pop(name) for name in ADAPTER if name in words}
    data, prepare = open_raw(data, None, prepare, adapter)
    if isinstance(data, Observed):
        return data.labelled, data.prepared, data.domain.dims
    layout, prepared, fields = prepare_as_recognised(data, prepare, climate=prepare is None)
    return fields, prepared, layout.dims


def fit_on_patterns(
    fields: xr.DataArray,
    prepared: Prepared | None,
    dims: tuple[str, ...],
    n_modes: int | str,
    words: dict[str, Any],
) -> Law:
    """The law of empirical orthogonal functions of prepared fields themselves.

    A dense drift is learned without noise inside the patterns, from fields whose gaps the law of
    the same patterns with a diagonal drift has filled, unless ``observation_noise`` is given: a
    matrix through gaps and noise takes minutes, and forecasts no better.
    """
    if n_modes == "auto":
        n_rows = int(np.prod(fields.shape[:2])) // TIMES_PER_PATTERN
        n = max(1, min(MOST_PATTERNS, n_rows, int(fields.notnull().any(("path", "time")).sum())))
    else:
        n = whole("n_modes", n_modes, 1)
    domain = Empirical(fields, n, dims=dims)
    observed = observed_fields(fields, domain, prepared)
    if words.get("drift") != "dense" or "observation_noise" in words:
        return fit(observed, domain, n_modes, **words)
    if observed.has_gaps:
        diagonal = words | {"drift": "diagonal", "noise": "diagonal"}
        alone = fit(observed, domain, n_modes, **diagonal)
        guess = without_preparation(alone).reconstruct(observed.flat)["mean"].values
        observed = observed.holding(observed.fields.fillna(guess))
    return fit(observed, domain, n_modes, **words, observation_noise="none")


def without_preparation(law: Law) -> Law:
    """The law for data that are prepared, whose results are in their units and without names."""
    return dataclasses.replace(law.with_info(labels={}), preparation=None)


def _data_with_value_noise(
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
        got = f"{type(data).__name__} and {type(std).__name__} together with prepare="
        raise InputError("observation_noise", expected="DataArrays", got=got, fix=fix)
    return data.assign_coords({OBSERVATION_STD: std})


def _check_value_noise(engine: Engine, bootstrap: int) -> None:
    """Raise an error where an engine does not support standard deviations of single values."""
    if engine.name != "exact":
        got, fix = f"engine {engine.name!r}", "pass engine='exact'"
    elif bootstrap:
        got, fix = "bootstrap=", "use the intervals of the likelihood"
    else:
        return
    expected = "engine='exact', if each value has its own standard deviation"
    raise InputError("observation_noise", expected=expected, got=got, fix=fix)


def _guessed(
    data: Any, prepare: Preparation | None, adapter: dict[str, Any], *, climate: bool
) -> tuple[AbstractDomain, Preparation | None, dict[str, Any]]:
    """A domain for the data, as the shell guesses it, and how to prepare and read them."""
    if isinstance(data, Observed):
        return data.domain, prepare, adapter
    stated = {name: adapter.pop(name) for name in ("variable", "time_unit") if name in adapter}
    given = dataclasses.replace(prepare or Preparation(), **stated)
    domain, guessed = guess_source(data, given, climate=climate)
    has_steps = dataclasses.replace(guessed, variable=None) != Preparation()
    return domain, guessed if has_steps or prepare or stated else None, adapter


def check_domain(domain: Any) -> None:
    """Raise a `DomainError` for anything but a domain."""
    if not isinstance(domain, AbstractDomain):
        got = repr(domain) if isinstance(domain, str) else type(domain).__name__
        expected = f"a domain such as sl.Interval(0, np.pi), or {PATTERNS!r}"
        raise DomainError("domain", expected=expected, got=got, fix="pass domain=sl.Interval(a, b)")


def _model_from_words(model: Model | None, words: dict[str, Any]) -> Model:
    """The model, or one of these words."""
    if model is None:
        return Model(**words)
    if words:
        expected = "the options inside the model"
        fix = "move it into sl.Model(...)"
        raise InputError(
            next(iter(words)), expected=expected, got=("a keyword together with model="), fix=fix
        )
    return model


def _check_prepared(data: Any, prepare: Any, model: Model) -> None:
    """Raise an error for a forcing in other units than the data."""
    ready = isinstance(data, Observed) and data.prepared is not None
    if model.forcing is not None and (ready or prepare is not None):
        expected = "data in the units of the forcing"
        fix = "prepare the fields and the forcing in the same way, then fit without prepare"
        raise InputError("forcing", expected=expected, got="prepare=", fix=fix)


def _where_observed(model: Model, full_record: Observed) -> Model:
    """The model with its noise of each point reduced to the observed points."""
    noise_std = model.observation_noise
    if np.ndim(noise_std) != 1 or len(noise_std) != len(full_record.points):
        return model
    return dataclasses.replace(
        model, observation_noise=np.asarray(noise_std)[full_record.observed_points()]
    )


def _collect_warnings(observed: Observed, has_mean: bool) -> list[str]:
    """Warnings about unintended features of the data, where they are in memory.

    A semilinear law, or dynamics of your own, describe the field itself: its mean is intended.
    """
    prepared = observed.prepared
    notes = [] if prepared is None else prepared.notes
    if observed.is_lazy:
        return notes
    affine = prepared is not None and prepared.how.is_affine
    return [*notes, *hints(observed.fields, affine, has_mean, observed.reading)]


def _number_of_modes(
    n_modes: Any, observed: Observed, model: Model, engine: Engine
) -> tuple[int, Model, list[str]]:
    """Number of modes to report, the model beside them, and notes.

    Modes that BIC left out are no nuisance modes: their residual has a memory at each point.
    """
    domain, notes = observed.domain, list[str]()
    if n_modes == "auto":
        n_modes, is_enough, note = choose_modes(observed, model.couples)
        notes.append(note)
        if is_enough and model.nuisance == "auto" and "nuisance" in engine.supports:
            model = dataclasses.replace(model, nuisance=0)
    n = domain.check_modes(n_modes)
    _check_size(observed, n, engine.takes_few_points)
    # These raise an error for structures that the modes cannot have.
    drift_coordinates(model, domain, n, np.ones(n))
    noise_coordinates(model, n, np.ones(n))
    if model.drift == "normal" and (enough := whole_pairs(domain, n)) > n:
        notes.append(f"a mode lacks its rotation partner and is biased: use n_modes={enough}")
    return n, model, notes


def _check_size(observed: Observed, n_modes: int, few_points: bool) -> None:
    n_points, n_times, span = len(observed.points), observed.times.shape[-1], observed.span
    # Points where every mode vanishes, such as Dirichlet ends, carry no information.
    n = _basis_rank(observed.basis(min(n_modes, n_points)))
    if n_modes > n and not few_points:
        expected, half = f"at most {n} modes on these {n_points} points", max(1, n // 2)
        raise DataError("n_modes", expected=expected, got=str(n_modes), fix=f"pass n_modes={half}")
    if observed.n_paths * (n_times - 1) < 3:
        expected, got = "at least three transitions", f"{observed.n_paths} paths of {n_times} times"
        raise DataError("data", expected=expected, got=got, fix="use longer records or more paths")
    if not np.isfinite(span) or span <= 0:
        expected, got = "times that advance", f"a span of {span}"
        raise DataError("time", expected=expected, got=got, fix="check the time coordinate")


def _basis_rank(basis: np.ndarray) -> int:
    """Rank of the modes at the points; full at once where the Gram matrix is near the identity."""
    gram = basis.T @ basis
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    off = np.abs(gram / np.outer(scale, scale) - np.eye(len(gram)))
    if off.sum(1).max() < 0.5 and (np.diag(gram) > 0).all():  # diagonally dominant
        return len(gram)
    return int(np.linalg.matrix_rank(basis))


def _with_clock_and_preparation(law: Law, observed: Observed) -> Law:
    """Law with the origin of its clock and the preparation of its data."""
    attrs, prepared = observed.fields[observed.clock].attrs, observed.prepared
    clock = {k: str(attrs[k]) for k in ("units", "calendar") if k in attrs}
    law = law.with_info(labels=labels_of(observed.fields), **({"time": clock} if clock else {}))
    if prepared is None:
        return law
    law = law.with_info(preparation=prepared.how.in_words())
    if prepared.how.is_affine:
        note = "climatology, trend and scale are treated as known in the intervals of parameters"
        law = law.with_info(warnings=[*law.info.get("warnings", []), note])
    return dataclasses.replace(law, preparation=prepared)


# ---------- `update`: the law of old and new paths, without the old data


FIT_TOGETHER = "fit old and new data together"


@checked()
def update(
    law: Law,
    data: Any,
    *,
    fixed: Mapping[str, Any] | None = None,
    priors: Mapping[str, Any] | None = None,
    **adapter: Any,
) -> Law:
    """Law of the old and the new paths together, without the old data.

    The law must have been fitted to complete, noise-free fields: it stores their sufficient
    statistics, which are additive.

    Args:
        law: learned before, by the statistics route.
        data: new paths on the same times.
        fixed: as in `spdelaw.Model`; pass it again, as a law does not store it.
        priors: likewise.
        adapter: ``times``, ``points``, ``variable``, ``time_unit`` for `spdelaw.as_fields`.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=40, seed=0)
        >>> first = sl.fit(data[:20], domain=sl.Interval(0, np.pi), n_modes=2)
        >>> sl.update(first, data[20:]).info["n_paths"]
        40
    """
    if law.statistics is None:
        expected = "a law learned from complete, noise-free fields"
        got = f"route {law.info.get('route')!r}"
        raise InputError("law", expected=expected, got=got, fix=FIT_TOGETHER)
    raw, fixed_mean = law.observe(data, **adapter), law.known_mean
    observed = raw if fixed_mean is None else raw.less(fixed_mean)
    pairs = law.statistics.pairs is not None
    new = statistics_of(observed, law.n_modes, pairs=pairs)
    if new is None:
        expected, got = "complete fields on one clock", "missing values or own times"
        raise DataError("data", expected=expected, got=got, fix=FIT_TOGETHER)
    model = Model(
        drift=law.info["drift"],
        noise=law.info["noise"],
        noise_rank=law.info.get("noise_rank", 1),
        initial=law.initial.kind,
        fixed=fixed,
        priors=priors,
        forcing=law.forcing,
        mean="constant" if law.info.get("mean") == "constant" else "zero",
    )
    both = law.statistics + new
    with clear_errors():
        fit = fit_statistics(both, law.domain, model)
    level = float(law.parameters.attrs["interval_level"])
    total = assemble(fit, observed, model, level)
    total = total if fixed_mean is None else with_known_mean(total, fixed_mean, raw)
    kept = {key: law.info[key] for key in ("time", "preparation") if key in law.info}
    # The fingerprint of the new data alone would name other numbers.
    of = {**total.info["log_likelihood_of"], "fingerprint": ""}
    total = total.with_info(n_paths=both.n_paths, log_likelihood_of=of, **kept)
    return dataclasses.replace(total, preparation=law.preparation)
