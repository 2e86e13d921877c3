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

from spdelaw.checks import one_of
from spdelaw.domain import AbstractDomain, Fields
from spdelaw.equation import bound, field_of
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


def alone(form: Layout, field: str, at: list[int]) -> Layout:
    """The equation of one field, whose terms stand at these places, the others known."""
    reaction = form.reaction
    names = tuple(reaction.names[k] for k in at)
    polynomials = tuple(reaction.polynomials[k] for k in at)
    own = dataclasses.replace(reaction, names=names, polynomials=polynomials)
    full = {short: f"{short} {field}" for short in ("nu", "scale", "exponent")}
    held = {short: form.fixed[name] for short, name in full.items() if name in form.fixed}
    held |= {name: form.fixed[name] for name in names if name in form.fixed}
    return Layout(form.mu, own, form.noise, ("nu", "kappa", *names), {"kappa": 0.0} | held)


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
    one_of("noise", noise, NOISES)
    make: Any = _layout_of_fields if isinstance(domain, Fields) else layout_of_one
    form: Layout = make(domain, n_modes, terms, noise, fixed or {})
    if not observed:
        return form
    held = {} if observation_variance is None else {OBSERVATION: float(observation_variance)}
    names = (*form.names, OBSERVATION)
    return dataclasses.replace(form, names=names, fixed={**form.fixed, **held})


def _layout_of_fields(
    domain: Fields, n_modes: int, terms: Any, noise: str, fixed: Mapping[str, Any]
) -> Layout:
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
    return Layout(mu, reaction, noise, names, held, domain.names)


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
