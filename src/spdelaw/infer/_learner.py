"""A fit as an object with parameters, for tools that speak scikit-learn's language."""

from __future__ import annotations

import inspect
from typing import Any

from spdelaw.data import ADAPTER
from spdelaw.domain import AbstractDomain
from spdelaw.errors import InputError
from spdelaw.infer._engine import engine_options
from spdelaw.infer._fit import fit
from spdelaw.infer._model import WORDS
from spdelaw.law import Law

#: Arguments of `fit` that have a default, with it, and the words of a model; ``domain`` has none.
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
    `spdelaw.leave_future_out`.

    Args:
        domain: where the fields live.
        n_modes: as in `spdelaw.fit`.
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
        self, domain: AbstractDomain, n_modes: int | str = "auto", **settings: Any
    ) -> None:
        """Keep the settings; their values are checked by ``fit``."""
        self._settings: dict[str, Any] = {"domain": domain, **DEFAULTS, "n_modes": n_modes}
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
        self.law_ = fit(data, **self._said())
        return self

    def _said(self) -> dict[str, Any]:
        """Settings that differ from the defaults."""
        own = self._settings.items()
        return {k: v for k, v in own if k not in DEFAULTS or v is not DEFAULTS[k]}

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
        return f"Learner({', '.join(f'{name}={value!r}' for name, value in self._said().items())})"


def _check_name(name: str, engine: Any) -> None:
    if name in DEFAULTS or name == "domain":
        return
    if name in ADAPTER:
        expected = "labelled fields, which know it"
        fix = "bring the data into shape first: sl.as_fields(data, ...)"
        raise InputError(name, expected=expected, got=f"the keyword {name}", fix=fix)
    if name == "terms" and engine == "exact":  # they choose their engine, as in a fit
        return
    options = engine_options(engine)
    if options is not None and name not in options:
        expected = f"one of {', '.join(['domain', *DEFAULTS, *options])}"
        raise InputError(name, expected=expected, got=repr(name), fix="see help(spdelaw.fit)")
