"""Engines, which learn a law, and the registry that finds them by name.

Python and the shell find built-in engines and those of other packages. A package registers
an engine in the entry-point group ``spdelaw.engines``: a subclass of `Engine`, or a function with
the arguments of `Engine.learn` and its options after them.
"""

from __future__ import annotations

import abc
import difflib
import inspect
import warnings
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, ClassVar

from spdelaw.data.observed import ADAPTER, Observed
from spdelaw.domains.base import AbstractDomain
from spdelaw.errors import InputError
from spdelaw.infer.model import WORDS, Model
from spdelaw.law.law import Law

ENTRY_POINT_GROUP = "spdelaw.engines"
#: Arguments that `Engine.learn` gets by name.
RUN_ARGUMENTS = ("level", "seed", "executor", "progress")
#: Every keyword of `spdelaw.fit` but those of engines, and those of `spdelaw.skill`, to suggest
#: one for a misspelled one.
FIT_KEYWORDS = (
    *WORDS,
    *ADAPTER,
    *RUN_ARGUMENTS,
    "leads",
    "origins",
    "first",
    "refits",
    "most_origins",
    "domain",
    "n_modes",
    "model",
    "engine",
    "prepare",
    "bootstrap",
)


#: Attributes of engines under their names before 0.2.0.
RENAMED = {"honours": "supports", "in_blocks": "accepts_lazy"}


class Engine(abc.ABC):
    """A way to learn a law; its options are the arguments of its constructor.

    `spdelaw.fit` finds a subclass by its ``name``.

    Attributes:
        name: of the engine.
        supports: options of `spdelaw.Model` that it uses; `spdelaw.fit` refuses the others.
        accepts_lazy: whether it takes lazy values piece by piece; else they come in memory.
        takes_few_points: whether it fits more modes than points determine at one time.
    """

    name: str
    supports: frozenset[str] = frozenset()
    accepts_lazy: bool = False
    takes_few_points: bool = False
    registry: ClassVar[dict[str, type[Engine]]] = {}

    def __init_subclass__(cls, **settings: Any) -> None:
        """Enter the registry."""
        super().__init_subclass__(**settings)
        for old, new in RENAMED.items():
            if old in cls.__dict__:
                text = f"{cls.__name__}.{old} is deprecated: call the attribute {new}"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                setattr(cls, new, cls.__dict__[old])
        if "name" in cls.__dict__:
            Engine.registry[cls.name] = cls

    @abc.abstractmethod
    def learn(
        self,
        observed: Observed,
        domain: AbstractDomain,
        n_modes: int,
        model: Model,
        *,
        level: float,
        seed: int,
        executor: Any,
        progress: Any,
    ) -> Law:
        """Law of the observed fields.

        Args:
            observed: ``values`` (P, T, M), ``times``, ``points`` and the labelled ``fields``.
            domain: where they live.
            n_modes: modes to report.
            model: what is assumed; a forcing is on the clock of the data.
            level: of the intervals.
            seed: of whatever is drawn.
            executor: None, or where independent pieces of work can run, see
                `spdelaw.data.executors.as_executor`.
            progress: None, True, or a function that receives the progress of the work.
        """

    def check(self, model: Model, bootstrap: int) -> None:
        """Raise `InputError` for what this engine cannot do, before any work.

        A mean that is zero or known is subtracted before any engine gets the data.
        """
        for word, value in model.non_default().items():
            is_off_data = word == "mean" and not (isinstance(value, str) and value == "constant")
            if word not in self.supports and not is_off_data:
                expected = f"its default: engine={self.name!r} does not use it"
                fix = f"leave {word} out, or pass engine='exact'"
                raise InputError(word, expected=expected, got=repr(value), fix=fix)


class FunctionEngine(Engine):
    """An engine made of a function, which handles every option of the model itself."""

    supports = frozenset(WORDS)

    def __init__(self, name: str, function: Callable[..., Law], options: dict[str, Any]) -> None:
        self.name, self.function, self.options = name, function, options

    def learn(self, observed: Any, domain: Any, n_modes: int, model: Model, **run: Any) -> Law:
        """Call it."""
        return self.function(observed, domain, n_modes, model, **run, **self.options)


def engine_names() -> tuple[str, ...]:
    """Engines that were defined, and those of installed packages."""
    installed = sorted(entry.name for entry in entry_points(group=ENTRY_POINT_GROUP))
    return tuple(dict.fromkeys(["exact", *Engine.registry, *installed]))


def make_engine(engine: str | Engine, options: dict[str, Any]) -> Engine:
    """The engine, or the one of that name with these options; `InputError` where there is none."""
    if isinstance(engine, Engine):
        if options:
            raise _unknown_keyword(
                next(iter(options)), f"options inside {type(engine).__name__}(...)"
            )
        return engine
    factory = _find_engine(engine)
    is_class = isinstance(factory, type) and issubclass(factory, Engine)
    if not is_class:
        _check_function(engine, factory)
    _check_options(engine, factory, options)
    return factory(**options) if is_class else FunctionEngine(engine, factory, options)


def _find_engine(name: Any) -> Any:
    if isinstance(name, str) and name in Engine.registry:
        return Engine.registry[name]
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name == name:
            return entry.load()
    expected = f"one of {engine_names()}, or an engine such as sl.Exact()"
    raise InputError("engine", expected=expected, got=repr(name), fix="pass engine='exact'")


def _check_options(name: str, engine: Callable[..., Any], options: dict[str, Any]) -> None:
    """Refuse options that the engine does not have."""
    accepted = _option_names(engine)
    for option in options:
        if accepted is not None and option not in accepted:
            for other, its in Engine.registry.items():
                if option in (_option_names(its) or ()):
                    expected, got = f"engine={other!r}", f"engine={name!r}"
                    fix = f"leave {option} out, or pass {expected}"
                    raise InputError(option, expected=expected, got=got, fix=fix)
            raise _unknown_keyword(option, f"of engine={name!r} ({', '.join(accepted) or 'none'})")


def engine_options(engine: str | Engine) -> list[str] | None:
    """Names of the options of an engine by name, None where it takes any; none of an object."""
    return [] if isinstance(engine, Engine) else _option_names(_find_engine(engine))


def _option_names(engine: Callable[..., Any]) -> list[str] | None:
    """Names of the options of an engine, None where it takes any."""
    parameters = inspect.signature(engine).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return [p.name for p in parameters if p.name not in RUN_ARGUMENTS and p.default is not p.empty]


def _check_function(name: str, function: Any) -> None:
    """Refuse what is no engine, such as a function with the arguments of version 0.1."""
    try:
        inspect.signature(function).bind(*(None,) * 4, **dict.fromkeys(RUN_ARGUMENTS))
    except (TypeError, ValueError) as error:
        arguments = f"(observed, domain, n_modes, model, *, {', '.join(RUN_ARGUMENTS)})"
        expected, got = f"an Engine, or a function of {arguments}", f"{name!r}: {error}"
        fix = "add the arguments after the star; what settings had is in model and in them"
        raise InputError("engine", expected=expected, got=got, fix=fix) from error


def _unknown_keyword(word: str, expected: str) -> InputError:
    options = [name for engine in Engine.registry.values() for name in _option_names(engine) or ()]
    near = difflib.get_close_matches(word, [*FIT_KEYWORDS, *options], 1)
    advice = f"did you mean {near[0]}?" if near else "see help(spdelaw.Model) and of the engine"
    advice = f"check the spelling: {advice}" if near != [word] else f"pass it inside: {word}=..."
    words = f"a keyword of the model ({', '.join(WORDS)}), of the data ({', '.join(ADAPTER)})"
    return InputError("keyword", expected=f"{words}, or {expected}", got=repr(word), fix=advice)
