"""Where a law comes from: a typed record that reads like a mapping.

``law.info.engine`` and ``law.info["engine"]`` are the same. Entries of an engine beyond the
typed fields are in ``extra`` and read the same way.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import platform
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from spdelaw._version import __version__

#: Note where standard errors are not of the curvature of the data.
EXPECTED_ERRORS = (
    "standard errors use the expected information, as the observed one would take too long"
)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Provenance(Mapping[str, Any]):
    """How a law was estimated. A field that was not reported is None and has no entry.

    Attributes:
        engine: "exact", "chaos", "amortized", or the name of a plug-in.
        n_paths, n_times, n_points: size of the data.
        log_likelihood: log density of the numbers that ``log_likelihood_of`` names.
        log_likelihood_of: kind, count and fingerprint of those numbers; see `spdelaw.law.Numbers`.
        route: how the engine found the maximum.
        n_observed: observed values.
        n_parameters, n_law_parameters: free numbers in all, and those of the law alone.
        n_nuisance: modes that are modelled and not reported.
        initial_state, drift, noise, mean: options of the model.
        n_time, tail, horizon: of the chaos expansion.
        version, versions: of this package and of its dependencies.
        warnings: about the fit and the data.
        preparation: steps that were applied to the data.
        converged: whether the optimiser reached a maximum; if not, ``warnings`` say what to try.
        standard_errors: of which curvature: "analytic", "differenced", or "expected" by the law,
            where one of the data would take long; "none", or "bootstrap". Of a semilinear law the
            errors themselves, by name.
        seconds, convergence, identifiability: of the fit.
        profiled: numbers whose interval is one of the profile likelihood.
        time: unit and calendar of the clock.
        labels: names and attributes of the data, which results have again.
        data: file and fingerprint of the training data.
        extra: further entries of an engine.
    """

    engine: str = ""
    n_paths: int = 0
    log_likelihood: float = math.nan
    log_likelihood_of: dict[str, Any] | None = None
    route: str | None = None
    n_times: int | None = None
    n_points: int | None = None
    n_observed: float | None = None
    n_parameters: float | None = None
    n_law_parameters: float | None = None
    n_nuisance: int | None = None
    initial_state: str | None = None
    drift: str | None = None
    noise: str | None = None
    mean: str | None = None
    n_time: int | None = None
    tail: str | None = None
    horizon: float | None = None
    version: str | None = None
    versions: dict[str, str] | None = None
    warnings: list[str] | None = None
    profiled: list[str] | None = None
    preparation: list[str] | None = None
    converged: bool | None = None
    standard_errors: str | dict[str, float] | None = None
    seconds: dict[str, float] | None = None
    convergence: dict[str, float] | None = None
    identifiability: dict[str, Any] | None = None
    time: dict[str, str] | None = None
    labels: dict[str, Any] | None = None
    data: dict[str, str] | None = None
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> Provenance:
        """Record of plain entries; those without a typed field go to ``extra``."""
        if isinstance(entries, cls):
            return entries
        typed = {key: value for key, value in entries.items() if key in TYPED_FIELDS}
        return cls(**typed, extra={key: entries[key] for key in entries if key not in TYPED_FIELDS})

    @property
    def notes(self) -> list[str]:
        """Notes for a reader of the numbers: the kind of standard errors, and warnings."""
        expected = self.standard_errors == "expected"
        return [*([EXPECTED_ERRORS] if expected else []), *(self.warnings or [])]

    @functools.cached_property
    def _entries(self) -> dict[str, Any]:
        """Reported entries."""
        return {k: v for k in TYPED_FIELDS if (v := getattr(self, k)) is not None} | self.extra

    def __getitem__(self, key: str) -> Any:
        """The entry, or KeyError where none was reported."""
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        """Names of reported entries."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Number of entries."""
        return len(self._entries)

    def __repr__(self) -> str:
        """As a dict."""
        return repr(dict(self))


def software(*packages: ModuleType) -> dict[str, Any]:
    """Entries for the versions of this package and of those below it."""
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    versions |= {package.__name__: str(package.__version__) for package in packages}
    return {"version": __version__, "versions": versions}


#: Names of the typed fields.
TYPED_FIELDS = tuple(f.name for f in dataclasses.fields(Provenance) if f.name != "extra")
#: Entries without which a file is no law.
REQUIRED_ENTRIES = ("engine", "n_paths", "log_likelihood")


def check_entries(entries: Any) -> None:
    """Raise ValueError with the first entry of a file that is not of the type of its field."""
    if not isinstance(entries, dict) or any(name not in entries for name in REQUIRED_ENTRIES):
        raise ValueError(f"expected info about {', '.join(REQUIRED_ENTRIES)}")
    hints = get_type_hints(Provenance)
    for name in TYPED_FIELDS:
        if name in entries and not _has_type(entries[name], hints[name]):
            raise ValueError(f"expected info about {name} of another type")
    _check_labels(entries.get("labels", {}))


def _check_labels(labels: dict[str, Any]) -> None:
    parts = {"name": str, "attrs": dict[str, Any], "coords": dict[str, dict[str, Any]]}
    for name, value in labels.items():
        if name not in parts or not _has_type(value, parts[name]):
            raise ValueError(f"expected labels of the data, not {name} of this type")


def _has_type(value: Any, hint: Any) -> bool:
    """Whether a value of a file has a type; integers count as floats, booleans do not."""
    kind, of = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if kind is dict:
        return isinstance(value, dict) and all(_has_type(item, of[1]) for item in value.values())
    if kind is list:
        return isinstance(value, list) and all(_has_type(item, of[0]) for item in value)
    if of:  # a union with None
        return any(_has_type(value, each) for each in of)
    accepted = (int, float) if hint is float else hint
    return isinstance(value, accepted) and (hint is bool or not isinstance(value, bool))
