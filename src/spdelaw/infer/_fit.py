"""The door: data in, law out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError, DomainError, InputError
from spdelaw.infer._assemble import assemble
from spdelaw.infer._auto_modes import choose_modes
from spdelaw.infer._bootstrap import bootstrap as run_bootstrap
from spdelaw.infer._chaos_engine import fit_chaos
from spdelaw.infer._exact import estimate
from spdelaw.infer._observed import ADAPTER, Observed, observe
from spdelaw.infer._per_point import estimate_per_point
from spdelaw.infer._settings import Settings
from spdelaw.infer._statistics_route import fit_statistics, statistics_of
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
    **others: Any,
) -> Law:
    """Learn the law of a stochastic PDE from observed fields.

    Args:
        data: fields (path, time, x) or (time, x), NaN for missing: DataArray, Dataset, NumPy or
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
        drift: "diagonal" (one eigenvalue a mode) or "parametric" (``kappa + nu mu^s``).
        noise: "diagonal" or "parametric" (``scale n^-exponent``).
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
        others: ``times``, ``points``, ``variable``, ``time_unit`` for `spdelaw.as_fields`; for
            the amortized engine ``preset``, ``epochs``, ``validation``, ``progress``,
            ``checkpoint``, ``config`` and the rest of `spdelaw.infer.amortized.AmortizedConfig`
            or `spdelaw.infer.amortized.StructuredConfig`.

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
    if engine not in ENGINES:
        raise InputError(
            "engine", expected=f"one of {ENGINES}", got=repr(engine), fix="pass engine='exact'"
        )
    _check_domain(domain)
    own_time = None if engine == "amortized" else n_time
    _check_chaos_words(engine, n_time=own_time, tail=tail)
    settings = Settings(
        observation_noise, initial, drift, noise, nuisance, fixed, priors, level, bootstrap, seed,
        threads,
    )  # fmt: skip
    fit_amortized, options = _amortized(others) if engine == "amortized" else (None, {})
    observed = observe(data, domain, **others)
    note = None
    if n_modes == "auto":
        n_modes, note = choose_modes(observed, domain)
    n = domain.check_modes(n_modes)  # type: ignore[arg-type]
    _check_size(observed, n, domain)
    if engine == "chaos":
        k = N_TIME if n_time is None else n_time
        law = fit_chaos(observed, domain, n, settings, k, tail or "modelled")
    elif fit_amortized is not None:
        law = fit_amortized(observed, domain, n, settings, n_time=n_time, **options)
    else:
        find = estimate_per_point if settings.noise_word == "per_point" else estimate
        law = assemble(find(observed, domain, n, settings), observed, domain, settings)
    if note:
        law = dataclasses.replace(law, info={**law.info, "warnings": [note, *law.info["warnings"]]})
    return run_bootstrap(law, observed, domain, settings) if bootstrap else law


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
    observed = observe(data, law.domain, **adapter)
    new = statistics_of(observed, law.domain, law.n_modes)
    if new is None:
        raise DataError(
            "data", expected="complete fields on one clock", got="missing values or own times",
            fix="fit old and new data together",
        )  # fmt: skip
    settings = Settings(
        initial=law.state.initial_kind, drift=law.info["drift"], noise=law.info["noise"],
        level=float(law.parameters.attrs["interval_level"]),
        fixed=fixed, priors=priors,
    )  # fmt: skip
    fitted = fit_statistics(law.statistics + new, law.domain, law.n_modes, settings, {})
    total = assemble(fitted, observed, law.domain, settings)
    info = {**total.info, "n_paths": fitted.statistics.n_paths}  # type: ignore[union-attr]
    return dataclasses.replace(total, info=info)


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
