"""A law of old and new paths together, without the old data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from spdelaw.checks import instance
from spdelaw.data import observe
from spdelaw.errors import DataError, InputError
from spdelaw.infer._assemble import assemble
from spdelaw.infer._door import clear_errors
from spdelaw.infer._known_mean import with_known_mean
from spdelaw.infer._model import Model
from spdelaw.infer._statistics_route import fit_statistics, statistics_of
from spdelaw.law import Law

TOGETHER = "fit old and new data together"


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
        fixed: as in `spdelaw.Model`; say it again, a law does not remember what was held.
        priors: likewise.
        adapter: ``times``, ``points``, ``variable``, ``time_unit`` for `spdelaw.as_fields`.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=40, seed=0)
        >>> first = sl.fit(data[:20], domain=sl.Interval(0, np.pi), n_modes=2)
        >>> sl.update(first, data[20:]).info["n_paths"]
        40
    """
    instance("law", law, Law, "pass what fit or load returned")
    if law.statistics is None:
        expected = "a law learned from complete, noise-free fields"
        got = f"route {law.info.get('route')!r}"
        raise InputError("law", expected=expected, got=got, fix=TOGETHER)
    raw, known = observe(data, law.domain, law.preparation, **adapter), law.known_mean
    observed = raw if known is None else raw.less(known)
    pairs = law.statistics.pairs is not None
    new = statistics_of(observed, law.n_modes, pairs=pairs)
    if new is None:
        expected, got = "complete fields on one clock", "missing values or own times"
        raise DataError("data", expected=expected, got=got, fix=TOGETHER)
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
    total = total if known is None else with_known_mean(total, known, raw)
    kept = {key: law.info[key] for key in ("time", "preparation") if key in law.info}
    # The fingerprint of the new data alone would name other numbers.
    of = {**total.info["log_likelihood_of"], "fingerprint": ""}
    total = total.with_info(n_paths=both.n_paths, log_likelihood_of=of, **kept)
    return dataclasses.replace(total, preparation=law.preparation)
