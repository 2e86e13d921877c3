"""The door: data in, law out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from spdelaw.data import Preparation, Prepared, check_plausible, hints, labels_of
from spdelaw.domain import AbstractDomain
from spdelaw.equation import Season, whole_pairs
from spdelaw.errors import DataError, DomainError, InputError
from spdelaw.infer._assemble import assemble
from spdelaw.infer._auto_modes import choose_modes
from spdelaw.infer._bootstrap import bootstrap as run_bootstrap
from spdelaw.infer._chaos_engine import fit_chaos
from spdelaw.infer._exact import estimate
from spdelaw.infer._fitted import spectra
from spdelaw.infer._observed import ADAPTER, Observed, check_words, observe
from spdelaw.infer._per_point import estimate_per_point
from spdelaw.infer._plugins import engine_names, find_engine
from spdelaw.infer._settings import Settings
from spdelaw.infer._statistics_route import fit_statistics, statistics_of
from spdelaw.infer._time_dependence import as_forcing, check_time_dependence
from spdelaw.law import Law
from spdelaw.law._chaos import N_TIME

ENGINES = ("exact", "chaos", "amortized")


def fit(
    data: Any,
    domain: AbstractDomain,
    n_modes: int | str = "auto",
    *,
    engine: str = "exact",
    observation_noise: Any = "auto",
    initial: str = "auto",
    drift: str = "diagonal",
    noise: str = "diagonal",
    nuisance: int | str = "auto",
    fixed: Mapping[str, Any] | None = None,
    priors: Mapping[str, Any] | None = None,
    level: float = 0.95,
    bootstrap: int = 0,
    seed: int = 0,
    threads: int = 1,
    n_time: int | None = None,
    tail: str | None = None,
    noise_rank: int = 1,
    prepare: Preparation | None = None,
    forcing: Any = None,
    season: Season | None = None,
    **others: Any,
) -> Law:
    """Learn the law of a stochastic PDE from observed fields.

    Args:
        data: fields (path, time, x) or (time, x), with the domain's dims such as (x, y) in place
            of x, NaN for missing: DataArray, Dataset, NumPy or
            torch array (with ``times=`` and ``points=``), per-path times as ``path_time``.
        domain: where the fields live, for example ``sl.Interval(0, np.pi)``.
        n_modes: modes to report, or "auto" to choose by BIC.
        engine: "exact", the untruncated likelihood; "chaos", the paper's truncated expansion
            with its exact posterior (`spdelaw.law.chaos_posterior`); or "amortized", training on
            batches of paths: the paper's encoder (``preset="paper"``, needs the extra
            ``neural``), or the exact posterior as encoder (``preset="structured"``).
        observation_noise: "auto" (tested for), "none", "estimate", "per_point", or its known
            standard deviation (one, or one a point).
        initial: "auto", "deterministic" (shared), "gaussian" (shared) or "stationary".
        drift: "diagonal" (one eigenvalue a mode), "parametric" (``kappa + nu mu^s``), "normal"
            (pairs of modes that decay and turn, as transport around a ring, a disk or a sphere
            makes them) or "dense" (any stable matrix).
        noise: "diagonal", "parametric" (``scale n^-exponent``), "low_rank" (each mode its own,
            and ``noise_rank`` patterns they share) or "dense" (any covariance).
        noise_rank: number of patterns of ``noise="low_rank"``.
        nuisance: modes that are modelled but not reported; "auto" adds them where the grid
            would otherwise mix them into the reported ones.
        fixed: values to hold, such as ``{"s": 1.0}`` or ``{"eigenvalue": [1.0, np.nan, ...]}``.
        priors: such as ``{"eigenvalue": sl.LogNormal(5.0, 1.0)}``; the estimate is then MAP.
        level: of the intervals.
        bootstrap: replicates of a parametric bootstrap; 0 for the information matrix.
        seed: of the bootstrap, and of training.
        threads: for data with gaps.
        n_time: K of the chaos and amortized engines, the number of functions of time; 16 by
            default.
        tail: of the chaos engine: "modelled" (default) adds the covariance of what lies beyond
            K and is unbiased, "dropped" is the paper's model.
        prepare: what to do to the data first (`spdelaw.Preparation`); the law keeps it, applies
            it to new data and undoes it on output.
        forcing: known ``F`` in ``dX = A X dt + F dt + dW``, as fields (time, x) in the units and on
            the clock of the data, or `spdelaw.Forcing`; linear between its times. Forecasts need
            it up to their last time.
        season: `spdelaw.Season` of the noise, such as ``sl.Season(365.25, 4)`` for data in days:
            its strength in each part of the period is learned. For seasonal means see ``prepare``.
        others: ``times``, ``points``, ``variable``, ``time_unit`` for `spdelaw.as_fields`; for
            the amortized engine ``preset``, ``epochs``, ``validation``, ``progress``,
            ``checkpoint``, ``tensorboard``, ``config`` and the rest of
            `spdelaw.infer.amortized.AmortizedConfig` or `spdelaw.infer.amortized.StructuredConfig`.

    Returns:
        A `Law`.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=4), n_paths=200, seed=0)
        >>> law = sl.fit(data, domain=sl.Interval(0, np.pi), n_modes=4)
        >>> row = law.parameters.eigenvalue.sel(mode=3)
        >>> bool(row.sel(statistic="lower") < 9.0 < row.sel(statistic="upper"))
        True
    """
    plugin = None
    if engine not in ENGINES:
        known = (*ENGINES, *engine_names())
        if engine not in known:
            raise InputError(
                "engine", expected=f"one of {known}", got=repr(engine), fix="pass engine='exact'"
            )
        plugin = find_engine(engine)
    _check_domain(domain)
    own_time = None if engine == "amortized" else n_time
    _check_chaos_words(engine, n_time=own_time, tail=tail)
    settings = Settings(
        observation_noise, initial, drift, noise, nuisance, fixed, priors, level, bootstrap, seed,
        threads, noise_rank, None, season,
    )  # fmt: skip
    check_time_dependence(settings, engine, forcing=forcing, is_prepared=prepare is not None)
    fit_amortized, options = _amortized(others) if engine == "amortized" else (None, {})
    if plugin is not None:
        options = {k: others.pop(k) for k in [*others] if k not in ADAPTER}
    learned = None if prepare is None else _prepared(prepare, data, domain, others)
    fields = data if learned is None else learned.apply(data, domain.dims)
    observed = observe(fields, domain, **others)
    settings = dataclasses.replace(settings, forcing=as_forcing(forcing, domain, observed))
    if learned is None and isinstance(observed.values, np.ndarray):
        check_plausible(observed.fields)
    notes = _said(observed, learned)
    if n_modes == "auto":
        n_modes, note = choose_modes(observed, domain)
        notes.append(note)
    n = domain.check_modes(n_modes)  # type: ignore[arg-type]
    _check_size(observed, n, domain)
    spectra(domain, n, 0, settings, np.ones(n))  # refuses structures that these modes cannot have
    if drift == "normal" and (whole := whole_pairs(domain, n)) > n:
        notes.append(f"a mode lacks the partner that it turns into, and is biased: n_modes={whole}")
    if plugin is not None:
        law = plugin(observed, domain, n, settings, **options)
    elif engine == "chaos":
        k = N_TIME if n_time is None else n_time
        law = fit_chaos(observed, domain, n, settings, k, tail or "modelled")
    elif fit_amortized is not None:
        law = fit_amortized(observed, domain, n, settings, n_time=n_time, **options)
    else:
        find = estimate_per_point if settings.noise_word == "per_point" else estimate
        law = assemble(find(observed, domain, n, settings), observed, domain, settings)
    if notes:
        info = {**law.info, "warnings": [*notes, *law.info["warnings"]]}
        law = dataclasses.replace(law, info=info)
    law = run_bootstrap(law, observed, domain, settings) if bootstrap else law
    return _with_origin(law, observed, learned)


def _prepared(prepare: Any, data: Any, domain: AbstractDomain, others: dict[str, Any]) -> Prepared:
    if not isinstance(prepare, Preparation):
        raise InputError(
            "prepare", expected="a Preparation", got=type(prepare).__name__,
            fix="pass prepare=sl.Preparation(anomalies='month')",
        )  # fmt: skip
    check_words(others)
    if others:
        raise InputError(
            "keyword", expected="none for the data beside prepare", got=repr(next(iter(others))),
            fix="bring the data into shape first: sl.as_fields(data, ...)",
        )  # fmt: skip
    return prepare.learn(data, domain.dims)


def _said(observed: Observed, prepared: Prepared | None) -> list[str]:
    """What looks unintended in the data, where they are in memory."""
    known = [] if prepared is None else prepared.notes
    if not isinstance(observed.values, np.ndarray):
        return known
    return [*known, *hints(observed.fields, prepared is not None and prepared.how.is_affine)]


def _with_origin(law: Law, observed: Observed, prepared: Prepared | None) -> Law:
    """Law that knows from which date its times count, and what was done to its data."""
    name = "path_time" if "path_time" in observed.fields.coords else "time"
    attrs = observed.fields[name].attrs
    clock = {k: str(attrs[k]) for k in ("units", "calendar") if k in attrs}
    info = {**law.info, **({"time": clock} if clock else {}), "labels": labels_of(observed.fields)}
    if prepared is not None:
        info["preparation"] = prepared.how.in_words()
        if prepared.how.is_affine:
            note = "climatology, trend and scale count as known: no interval includes their error"
            info["warnings"] = [*info["warnings"], note]
    return dataclasses.replace(law, info=info, preparation=prepared)


def update(
    law: Law,
    data: Any,
    *,
    fixed: Mapping[str, Any] | None = None,
    priors: Mapping[str, Any] | None = None,
    **adapter: Any,
) -> Law:
    """Law of the old and the new paths together, without the old data.

    Possible where the law was learned from complete, noise-free fields: their sufficient
    statistics are kept in the law and add up.

    Args:
        law: learned before, by the statistics route.
        data: new paths on the same times.
        fixed: as in `fit`; say it again, a law does not remember what was held.
        priors: likewise.
        adapter: as in `fit`.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=40, seed=0)
        >>> first = sl.fit(data[:20], domain=sl.Interval(0, np.pi), n_modes=2)
        >>> sl.update(first, data[20:]).info["n_paths"]
        40
    """
    if not isinstance(law, Law):
        raise InputError(
            "law", expected="a Law", got=type(law).__name__, fix="pass what fit or load returned"
        )
    if law.statistics is None:
        raise InputError(
            "law", expected="a law learned from complete, noise-free fields",
            got=f"route {law.info.get('route')!r}", fix="fit old and new data together",
        )  # fmt: skip
    if law.preparation is not None:
        data, adapter = dataclasses.replace(law, forcing=None).prepared(data), {}
    observed = observe(data, law.domain, **adapter)
    new = statistics_of(observed, law.domain, law.n_modes, pairs=law.statistics.pairs is not None)
    if new is None:
        raise DataError(
            "data", expected="complete fields on one clock", got="missing values or own times",
            fix="fit old and new data together",
        )  # fmt: skip
    settings = Settings(
        initial=law.state.initial_kind, drift=law.info["drift"], noise=law.info["noise"],
        level=float(law.parameters.attrs["interval_level"]),
        fixed=fixed, priors=priors, noise_rank=law.info.get("noise_rank", 1),
        forcing=law.forcing,
    )  # fmt: skip
    fitted = fit_statistics(law.statistics + new, law.domain, law.n_modes, settings, {})
    total = assemble(fitted, observed, law.domain, settings)
    info = {**total.info, "n_paths": fitted.statistics.n_paths}  # type: ignore[union-attr]
    kept = {key: law.info[key] for key in ("time", "preparation") if key in law.info}
    return dataclasses.replace(total, info=info | kept, preparation=law.preparation)


def _check_chaos_words(engine: str, **words: Any) -> None:
    for what, value in words.items():
        if value is not None and engine != "chaos":
            raise InputError(
                what, expected="engine='chaos', which alone truncates", got=f"engine={engine!r}",
                fix=f"leave {what} out, or pass engine='chaos'",
            )  # fmt: skip


def _amortized(others: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The engine and its own keywords, taken out of all others."""
    from spdelaw.infer.amortized import fit_amortized

    return fit_amortized, {k: others.pop(k) for k in [*others] if k not in ADAPTER}


def _check_domain(domain: Any) -> None:
    if not isinstance(domain, AbstractDomain):
        raise DomainError(
            "domain", expected="a domain such as sl.Interval(0, np.pi)",
            got=type(domain).__name__, fix="pass domain=sl.Interval(a, b)",
        )  # fmt: skip


def _check_size(observed: Observed, n_modes: int, domain: AbstractDomain) -> None:
    points = observed.points
    # Points where every mode vanishes, such as Dirichlet ends, tell nothing.
    n = int(np.linalg.matrix_rank(domain.eigenfunctions(points, min(n_modes, len(points)))))
    if n_modes > n:
        raise DataError(
            "n_modes", expected=f"at most {n} modes on these {len(points)} points",
            got=str(n_modes), fix=f"pass n_modes={max(1, n // 2)}",
        )  # fmt: skip
    if observed.n_paths * (observed.times.shape[-1] - 1) < 3:
        raise DataError(
            "data", expected="at least three transitions between times",
            got=f"{observed.n_paths} paths of {observed.times.shape[-1]} times",
            fix="observe longer, or more paths",
        )  # fmt: skip
    if not np.isfinite(observed.span) or observed.span <= 0:
        raise DataError(
            "time", expected="times that advance", got=f"a span of {observed.span}",
            fix="check the time coordinate",
        )  # fmt: skip
