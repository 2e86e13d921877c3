"""Where a law comes from: a typed record that reads like a mapping.

``law.info.engine`` and ``law.info["engine"]`` are the same. What an engine of its own has to say
beyond the typed fields is kept in ``extra`` and reads the same way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

NUMBER = (int, float)


def _entry(kind: Any, of: Any = object, default: Any = None) -> Any:
    """Field of ``kind`` in a file; lists and tables have entries ``of`` a kind as well."""
    return dataclasses.field(default=default, metadata={"kind": kind, "of": of})


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Provenance(Mapping[str, Any]):
    """How a law was found; what was not reported is None, and not there as an entry.

    Attributes:
        engine: "exact", "chaos", "amortized", or the name of a plug-in.
        n_paths, n_times, n_points: size of the data.
        log_likelihood: log density of the numbers that ``log_likelihood_of`` names.
        log_likelihood_of: kind, count and fingerprint of those numbers; see `spdelaw.law.Numbers`.
        route: how the engine found the maximum.
        n_observed: observed values.
        n_parameters, n_law_parameters: free numbers in all, and those of the law alone.
        n_nuisance: modes that are modelled and not reported.
        initial_state, drift, noise: words of the model.
        n_time, tail, horizon: of the chaos expansion.
        version, versions: of this package and of those below it.
        warnings: what the law has to say about itself.
        preparation: steps that were applied to the data.
        seconds, convergence, identifiability: of the fit.
        time: unit and calendar of the clock.
        data: file and fingerprint of what was learned from.
        extra: whatever else an engine reports.
    """

    engine: str = _entry(str, default="")
    n_paths: int = _entry(int, default=0)
    log_likelihood: float = _entry(NUMBER, default=float("nan"))
    log_likelihood_of: dict[str, Any] | None = _entry(dict)
    route: str | None = _entry(str)
    n_times: int | None = _entry(int)
    n_points: int | None = _entry(int)
    n_observed: float | None = _entry(NUMBER)
    n_parameters: float | None = _entry(NUMBER)
    n_law_parameters: float | None = _entry(NUMBER)
    n_nuisance: int | None = _entry(int)
    initial_state: str | None = _entry(str)
    drift: str | None = _entry(str)
    noise: str | None = _entry(str)
    n_time: int | None = _entry(int)
    tail: str | None = _entry(str)
    horizon: float | None = _entry(NUMBER)
    version: str | None = _entry(str)
    versions: dict[str, str] | None = _entry(dict, of=str)
    warnings: list[str] | None = _entry(list, of=str)
    preparation: list[str] | None = _entry(list, of=str)
    seconds: dict[str, float] | None = _entry(dict, of=NUMBER)
    convergence: dict[str, float] | None = _entry(dict, of=NUMBER)
    identifiability: dict[str, Any] | None = _entry(dict)
    time: dict[str, str] | None = _entry(dict, of=str)
    data: dict[str, str] | None = _entry(dict, of=str)
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> Provenance:
        """Record of plain entries; those without a field of their own go to ``extra``."""
        if isinstance(entries, cls):
            return entries
        own = {key: value for key, value in entries.items() if key in FIELDS}
        return cls(**own, extra={key: entries[key] for key in entries if key not in FIELDS})

    def __getitem__(self, key: str) -> Any:
        """The entry, or KeyError where none was reported."""
        if key not in FIELDS:
            return self.extra[key]
        value = getattr(self, key)
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[str]:
        """Names of what was reported."""
        yield from (key for key in FIELDS if getattr(self, key) is not None)
        yield from self.extra

    def __len__(self) -> int:
        """Number of entries."""
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        """As a dict."""
        return repr(dict(self))


#: Typed fields by name.
FIELDS = {f.name: f.metadata for f in dataclasses.fields(Provenance) if f.name != "extra"}
#: Entries without which a file is no law.
NEEDED = ("engine", "n_paths", "log_likelihood")


def check_entries(entries: Any) -> None:
    """Raise ValueError with the first entry of a file that is not of the type of its field."""
    if not isinstance(entries, dict) or any(name not in entries for name in NEEDED):
        raise ValueError(f"expected info about {', '.join(NEEDED)}")
    for name, field in FIELDS.items():
        if name not in entries:
            continue
        value = entries[name]
        parts = value.values() if isinstance(value, dict) else value if field["kind"] is list else ()
        if not _is(value, field["kind"]) or not all(_is(part, field["of"]) for part in parts):
            raise ValueError(f"expected info about {name} of another type")


def _is(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and (kind is object or not isinstance(value, bool))
