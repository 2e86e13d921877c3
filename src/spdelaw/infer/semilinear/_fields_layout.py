"""The free vector of a law of several fields.

For each field f, with the modes of the domain numbered n = 1, 2, ...,

    lambda_fn = nu_f mu_n,   q_fn = scale_f n^-exponent_f or one per mode,   theta_t per term.

There is no kappa: a damping of its own is the term ``u: u``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from spdelaw.domain import AbstractDomain, Fields
from spdelaw.equation import Closure, bound, field_of
from spdelaw.errors import InputError
from spdelaw.infer.semilinear._layout import (
    NOISES,
    OBSERVATION,
    Layout,
    check_held,
    layout_of_one,
    numbers,
)

Array = np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class FieldsLayout(Layout):
    """Which numbers of several fields are free; ``mu`` is of one field, (N / n_fields,).

    Attributes:
        fields: their names.
    """

    fields: tuple[str, ...] = ()

    @property
    def is_log(self) -> Array:
        """Which parameters are free as logarithms; (n_parameters,)."""
        return np.array(
            [name == OBSERVATION or name.startswith(("scale ", "q ")) for name in self.names]
        )

    @property
    def _sizes(self) -> tuple[int, int, int]:
        """How many diffusivities, terms and numbers of the noise of one field there are."""
        per_field = 2 if self.noise == "parametric" else len(self.mu)
        return len(self.fields), len(self.reaction.names), per_field

    def closure(self, x: Array) -> Closure:
        """The equations at x."""
        p, (n_fields, n_terms, size) = self.whole(x), self._sizes
        after = n_fields + n_terms
        noise = p[after : after + n_fields * size].reshape(n_fields, size)
        if self.noise == "parametric":
            noise = noise[:, :1] * self._index ** (-noise[:, 1:])
        rates = np.outer(p[:n_fields], self.mu)
        return Closure(self.reaction, p[n_fields:after], rates.T.ravel(), noise.T.ravel())

    def pull(
        self,
        x: Array,
        rate: Array,
        noise: Array,
        coefficient: Array,
        observation: Array | None = None,
    ) -> Array:
        """Scores by the free vector, (n, n_free), from those by the numbers of the closure."""
        n_fields = len(self.fields)
        q, parts = self.closure(x).noise, []
        for f in range(n_fields):
            parts.append((rate[:, f::n_fields] @ self.mu)[:, None])
        parts.append(coefficient)
        for f in range(n_fields):
            own = noise[:, f::n_fields] * q[f::n_fields]
            if self.noise == "parametric":
                parts += [own.sum(1)[:, None], -(own @ np.log(self._index))[:, None]]
            else:
                parts.append(own)
        if observation is not None:
            parts.append((observation * self.observation_variance(x))[:, None])
        return np.concatenate(parts, axis=1)[:, self.free]

    def alone(self, field: str, at: list[int]) -> Layout:
        """The equation of one field, the others known."""
        names = tuple(self.reaction.names[k] for k in at)
        own = dataclasses.replace(
            self.reaction, names=names, polynomials=tuple(self.reaction.polynomials[k] for k in at)
        )
        held = {"kappa": 0.0}
        for short in ("nu", "scale", "exponent"):
            if f"{short} {field}" in self.fixed:
                held[short] = self.fixed[f"{short} {field}"]
        held |= {name: self.fixed[name] for name in names if name in self.fixed}
        return Layout(self.mu, own, self.noise, ("nu", "kappa", *names), held)


def name_among_all(name: str, field: str) -> str:
    """Name of a number of one field among those of all."""
    if name.startswith("q_"):
        return f"q {field} {name[2:]}"
    return f"{name} {field}" if name in ("nu", "scale", "exponent", "kappa") else name


def layout(
    domain: AbstractDomain,
    n_modes: int,
    terms: Any,
    *,
    noise: str = "parametric",
    fixed: Mapping[str, Any] | None = None,
    observed: bool = False,
    observation_variance: float | None = None,
) -> Layout:
    """Layout of a law with these terms, of one field or of several as the domain has them.

    ``fixed`` holds parameters by name, and may hold ``s``, which is not estimated; None frees one.
    With ``observed`` the noise of observations is one more parameter, held where it is given.

    Raises:
        InputError: a word or a name is not known.
    """
    if noise not in NOISES:
        expected = f"one of {NOISES} beside terms"
        raise InputError("noise", expected=expected, got=repr(noise), fix="pass noise='parametric'")
    make: Any = _layout_of_fields if isinstance(domain, Fields) else layout_of_one
    form: Layout = make(domain, n_modes, terms, noise, fixed or {})
    if not observed:
        return form
    held = {} if observation_variance is None else {OBSERVATION: float(observation_variance)}
    names = (*form.names, OBSERVATION)
    return dataclasses.replace(form, names=names, fixed={**form.fixed, **held})


def _layout_of_fields(
    domain: Fields, n_modes: int, terms: Any, noise: str, fixed: Mapping[str, Any]
) -> FieldsLayout:
    """Layout of a law of several fields.

    A field whose scale is held at 0 has no noise of its own, and no exponent.
    """
    reaction = bound(terms, domain, n_modes)
    each = n_modes // domain.n_fields
    spectrum = ("scale {}", "exponent {}")
    if noise == "diagonal":
        spectrum = tuple(f"q {{}} {n}" for n in range(1, each + 1))  # type: ignore[assignment]
    of_noise = tuple(word.format(field) for field in domain.names for word in spectrum)
    names = (*(f"nu {field}" for field in domain.names), *reaction.names, *of_noise)
    held = {k: v for k, v in fixed.items() if not (k == "kappa" and v == 0)}
    s = held.pop("s", 1.0)
    check_held(held, names)
    held = numbers(held)
    held |= {f"exponent {f}": 0.0 for f in domain.names if held.get(f"scale {f}") == 0.0}
    _check_driven(domain, reaction.names, held)
    mu = domain.domain.eigenvalues(each) ** float(s)
    return FieldsLayout(mu, reaction, noise, names, held, domain.names)


def _check_driven(domain: Fields, terms: tuple[str, ...], held: Mapping[str, float]) -> None:
    """Refuse a field without noise that no field with noise enters: its path would be certain."""
    quiet = [f for f in domain.names if held.get(f"scale {f}") == 0.0]
    for field in quiet:
        own = [t.partition(":")[2] for t in terms if field_of(t) == field]
        loud = [f for f in domain.names if f not in quiet]
        if not any(f in text for f in loud for text in own):
            raise InputError(
                "fixed", expected=f"a term of {' or '.join(loud) or 'a field with noise'} in the "
                f"equation of {field}, which has no noise of its own", got=f"{own}",
                fix=f"leave the scale of {field} free, or add such a term",
            )  # fmt: skip
