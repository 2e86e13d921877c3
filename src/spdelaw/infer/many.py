"""Many fits of one kind, and a fit as an object for tools in scikit-learn's style."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.checks import checked
from spdelaw.data.executors import as_executor
from spdelaw.data.io.records import content_digest, sealed, unsealed
from spdelaw.data.io.safe_files import as_file_error, read_regular, reading, replace_file
from spdelaw.data.observed import ADAPTER
from spdelaw.domains.base import AbstractDomain
from spdelaw.errors import (
    FileError,
    IdentifiabilityWarning,
    InputError,
    SpdeLawError,
    SpdeLawWarning,
)
from spdelaw.infer.engines.registry import engine_options
from spdelaw.infer.model import WORDS
from spdelaw.infer.pipeline import fit
from spdelaw.law.io import DOCUMENT, load
from spdelaw.law.law import Law

# ---------- A fit as an object with parameters, in scikit-learn's style


#: Arguments of `fit` that have a default, with it, and the words of a model.
DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(fit).parameters.items()
    if parameter.default is not inspect.Parameter.empty
} | WORDS


class Learner:
    """`spdelaw.fit` with its settings kept: to clone, to change by name, to search over.

    It follows scikit-learn's conventions without needing it: ``get_params``, ``set_params``,
    ``fit`` that returns the learner with the law in ``law_``, and ``score``. Samples are paths,
    so cross-validation leaves out whole paths of a DataArray. For a single path use
    `spdelaw.skill`.

    Args:
        domain: as in `spdelaw.fit`.
        n_modes: likewise.
        settings: other keywords of `spdelaw.fit`, those of the engine included. Data come as
            labelled fields, so ``times`` and ``points`` are not among them.

    Attributes:
        law_: what the last ``fit`` learned.

    Example:
        >>> import spdelaw as sl
        >>> equation = sl.catalogue.heat(n_modes=3)
        >>> fields = sl.simulate(equation, 40, seed=0, observation_std=0.1)
        >>> learner = sl.Learner(equation.domain, n_modes=1)
        >>> coarse = learner.fit(fields[:30]).score(fields[30:])
        >>> learner.set_params(n_modes=3).fit(fields[:30]).score(fields[30:]) > coarse
        True
    """

    law_: Law

    def __init__(
        self, domain: AbstractDomain | None = None, n_modes: int | str = "auto", **settings: Any
    ) -> None:
        """Keep the settings; ``fit`` checks their values."""
        self._settings: dict[str, Any] = {**DEFAULTS, "domain": domain, "n_modes": n_modes}
        self.set_params(**settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting by name, with the defaults of `spdelaw.fit` where none was given.

        Args:
            deep: of no effect, as no setting has parameters of its own.
        """
        return dict(self._settings)

    def set_params(self, **settings: Any) -> Learner:
        """Change settings by name; the learner itself comes back."""
        new = {**self._settings, **settings}
        for name in settings:
            _check_name(name, new["engine"])
        self._settings = new
        return self

    def fit(self, data: Any, y: Any = None) -> Learner:
        """Learn the law of fields, as `spdelaw.fit` does.

        Args:
            data: fields (path, time, x), or with the domain's dims in place of x.
            y: ignored; scikit-learn passes it.
        """
        self.law_ = fit(data, **self._non_default())
        return self

    def _non_default(self) -> dict[str, Any]:
        """Settings that differ from the defaults."""
        items = self._settings.items()
        return {k: v for k, v in items if k not in DEFAULTS or v is not DEFAULTS[k]}

    def score(self, data: Any, y: Any = None) -> float:
        """Mean log-likelihood of a path under the learned law, in nats; higher is better.

        What lies outside the modes counts as white noise of the learned variance, so numbers for
        different ``n_modes`` and engines are on one scale.

        Args:
            data: fields, best ones that ``fit`` has not seen.
            y: ignored; scikit-learn passes it.
        """
        if not hasattr(self, "law_"):
            expected, got = "a learner that was fitted", "one that was not"
            fix = "call learner.fit(data) first"
            raise InputError("score", expected=expected, got=got, fix=fix)
        return float(self.law_.log_likelihood(data).mean())

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks an estimator about itself; it alone calls this."""
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()

    def __repr__(self) -> str:
        """Settings that differ from the defaults."""
        words = (f"{name}={value!r}" for name, value in self._non_default().items())
        return f"Learner({', '.join(words)})"


def _check_name(name: str, engine: Any) -> None:
    if name in DEFAULTS:
        return
    if name in ADAPTER:
        expected = "labelled fields, which contain it"
        fix = "convert the data first: sl.as_fields(data, ...)"
        raise InputError(name, expected=expected, got=f"the keyword {name}", fix=fix)
    if name == "terms" and engine == "exact":  # they choose their engine, as in a fit
        return
    options = engine_options(engine)
    if options is not None and name not in options:
        expected = f"one of {', '.join([*DEFAULTS, *options])}"
        raise InputError(name, expected=expected, got=repr(name), fix="see help(spdelaw.fit)")


# ---------- Many fits of one kind: locations, members, ensembles
#
# Every fit is one task, and tasks go out in batches. With a directory each law is saved after its
# batch, and a manifest says which file belongs to which label and data: a call that was interrupted
# goes on where it stopped. A directory holds laws of one domain and one set of settings; a call
# with others raises an error.


MANIFEST = "manifest.json"


@checked()
def fit_many(
    data: Any,
    domain: AbstractDomain,
    n_modes: int | str = "auto",
    *,
    over: str | None = None,
    directory: str | Path | None = None,
    batch: int = 16,
    executor: Any = None,
    progress: bool | Callable[[int, int], Any] | None = None,
    **settings: Any,
) -> dict[Any, Law]:
    """Fit the same model to many data sets, separately.

    A data set whose fit fails (`SpdeLawError`) is skipped, and a warning names it and the reason.

    Args:
        data: data sets by label, or one DataArray with a dim to iterate over.
        domain: of all of them.
        n_modes: as of `spdelaw.fit`.
        over: the dim, where ``data`` is one DataArray, such as "member".
        directory: directory in which finished laws are saved, to resume from.
        batch: number of fits that run, and are saved, together.
        executor: executor of the fits, as in `spdelaw.fit`; each fit is one task.
        progress: True for lines on standard error, or a function of (done, all).
        settings: of `spdelaw.fit`.

    Returns:
        Laws by label, in the order of the data.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> heat = sl.catalogue.heat(n_modes=2)
        >>> members = {seed: sl.simulate(heat, 40, seed=seed) for seed in (0, 1)}
        >>> laws = sl.fit_many(members, sl.Interval(0, np.pi), 2)
        >>> [laws[seed].n_modes for seed in members]
        [2, 2]
    """
    sets = _data_sets(data, over)
    settings = {"domain": domain, "n_modes": n_modes, **settings}
    store = None if directory is None else _Store.open(Path(directory), settings)
    laws = {} if store is None else store.saved_laws(sets)
    todo, failed = [label for label in sets if label not in laws], dict[Any, SpdeLawError]()
    _report_progress(progress, len(laws), len(sets))
    for first in range(0, len(todo), batch):
        labels = todo[first : first + batch]
        results = as_executor(executor).map(_fit_one, [sets[one] for one in labels], settings)
        for label, law in zip(labels, results, strict=True):
            (laws if isinstance(law, Law) else failed)[label] = law
        if store is not None:
            store.add({one: laws[one] for one in labels if one in laws}, sets)
        _report_progress(progress, len(laws) + len(failed), len(sets))
    return _laws_or_raise(sets, laws, failed)


def _fit_one(data: Any, settings: dict[str, Any]) -> Law | SpdeLawError:
    """The law of one data set, or why there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)  # it is in the notes of the law
        try:
            return fit(data, **settings)
        except SpdeLawError as error:
            return error


def _laws_or_raise(sets: Mapping, laws: dict, failed: dict[Any, SpdeLawError]) -> dict[Any, Law]:
    if failed and not laws:
        raise next(iter(failed.values()))
    if failed:
        label, why = next(iter(failed.items()))
        text = f"{len(failed)} of {len(sets)} data sets have no law, such as {label!r}: {why}"
        warnings.warn(text, SpdeLawWarning, stacklevel=3)
    return {label: laws[label] for label in sets if label in laws}


def _data_sets(data: Any, over: str | None) -> Mapping[Any, Any]:
    if over is None and isinstance(data, Mapping) and not isinstance(data, xr.Dataset) and data:
        return data
    if isinstance(data, xr.DataArray | xr.Dataset) and over in data.dims:
        labels = data[over].values if over in data.coords else np.arange(data.sizes[over])
        return {label: data.isel({over: i}, drop=True) for i, label in enumerate(labels.tolist())}
    expected = "data sets by label, or one DataArray and over= with a dim of it"
    got = f"{type(data).__name__} and over={over!r}"
    fix = 'pass {"a": fields_a, "b": fields_b}, or over="member"'
    raise InputError("data", expected=expected, got=got, fix=fix)


def _report_progress(progress: Any, done: int, total: int) -> None:
    if callable(progress):
        progress(done, total)
    elif progress:
        print(f"{done} of {total} fits", file=sys.stderr)


# ---------- The directory that a call resumes from


class _Store(NamedTuple):
    """Laws in a directory, by label: digests of their data and of the law itself.

    The file of a law has the digest of its label as its name, so that a manifest names no files.
    """

    directory: Path
    question: str
    entries: dict[str, dict[str, str]]

    @classmethod
    def open(cls, directory: Path, settings: dict[str, Any]) -> _Store:
        question = content_digest(settings)
        manifest = directory / MANIFEST
        entries = _read_manifest(manifest, question) if manifest.exists() else {}
        with as_file_error(directory):
            directory.mkdir(parents=True, exist_ok=True)
        return cls(directory, question, entries)

    def saved_laws(self, sets: Mapping) -> dict[Any, Law]:
        """Laws that the directory holds already, of the same data."""
        laws = {}
        for label, data in sets.items():
            entry = self.entries.get(str(label), {})
            if entry.get("data") != content_digest(data):
                continue
            try:
                laws[label] = load(self._file(label))
                damage = "" if entry["law"] == _law_digest(self._file(label)) else "another law"
            except (FileError, OSError) as error:
                damage = str(error)
            if damage:
                laws.pop(label, None)
                text = f"the saved law of {label!r} is damaged and is fitted again: {damage}"
                warnings.warn(text, SpdeLawWarning, stacklevel=4)
        return laws

    def add(self, laws: dict[Any, Law], sets: Mapping) -> None:
        """Save some laws, then the manifest that names them."""
        for label, law in laws.items():
            law.save(self._file(label), overwrite=True)
            digests = {"data": content_digest(sets[label]), "law": _law_digest(self._file(label))}
            self.entries[str(label)] = digests
        content = sealed({"question": self.question, "laws": self.entries})
        with replace_file(self.directory / MANIFEST) as new:
            new.write_bytes(content)

    def _file(self, label: Any) -> Path:
        return self.directory / f"{content_digest(label)[:16]}.law"


def _read_manifest(manifest: Path, question: str) -> dict[str, dict[str, str]]:
    with reading(manifest, "a manifest of fit_many of this version", "choose another directory"):
        content = unsealed(read_regular(manifest))
        saved_question = content["question"]
        laws = {
            label: {key: str(entry[key]) for key in ("data", "law")}
            for label, entry in content["laws"].items()
        }
    if saved_question != question:
        expected = "laws of the same domain, modes and settings"
        got = f"laws of other settings in {manifest.parent}"
        raise InputError("directory", expected=expected, got=got, fix="choose another directory")
    return laws


def _law_digest(law: Path) -> str:
    """Digest of the document of a law, which has the checksum of everything else."""
    return content_digest(read_regular(law / DOCUMENT))
