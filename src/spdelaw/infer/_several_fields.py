"""Terms by field at the door: one domain becomes several, short names become full ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spdelaw.domain import AbstractDomain, Fields
from spdelaw.equation import field_of, flat_terms
from spdelaw.errors import InputError
from spdelaw.infer.semilinear import SemilinearFit

#: A noise this many standard errors above zero is there.
CLEAR = 3.0


def by_field(
    what: str, terms: Any, domain: AbstractDomain, n_modes: Any
) -> tuple[Any, AbstractDomain, Any]:
    """Names, domain and modes of all fields from terms by field, or from full names ``u: u v``.

    Others as they are.
    ``n_modes`` are those of the domain that is given: of each field, where it is the domain of one.
    """
    if _are_full(terms) and not isinstance(domain, Fields):
        fields = dict.fromkeys(map(field_of, terms))
        terms = {
            f: [t.partition(":")[2].strip() for t in terms if field_of(t) == f] for f in fields
        }
    if not isinstance(terms, Mapping):
        return terms, domain, n_modes
    if not isinstance(domain, Fields):
        if len(terms) < 2:
            expected = "two fields or more, each with its terms"
            fix = f"pass {what}=('u', 'u^3') for one field"
            raise InputError(what, expected=expected, got=repr(dict(terms)), fix=fix)
        if n_modes == "auto":
            expected = f"a number beside {what} by field"
            fix = "pass the modes of each field, such as n_modes=15"
            raise InputError("n_modes", expected=expected, got="'auto'", fix=fix)
        domain = Fields(domain, tuple(terms))
        n_modes = domain.domain.check_modes(n_modes) * domain.n_fields
    return tuple(flat_terms(terms, domain.names)), domain, n_modes


def _are_full(terms: Any) -> bool:
    """Whether these are names such as ``u: u v^2``, with their field."""
    listed = isinstance(terms, Sequence) and not isinstance(terms, str)
    return listed and bool(terms) and all(isinstance(t, str) and ":" in t for t in terms)


def field_notes(fit: SemilinearFit) -> list[str]:
    """What a reader of the estimates of several fields should know."""
    out, values, errors = [], fit.values, fit.standard_errors
    for field in filter(None, fit.layout.fields):
        nu, scale = f"nu {field}", f"scale {field}"
        if values[nu] < -CLEAR * errors.get(nu, np.inf):
            out.append(
                f"nu of {field} is negative beyond its error: fine waves grow; use more modes"
            )
        if scale in errors and values[scale] < CLEAR * errors[scale]:
            out.append(
                f"{field} shows hardly any noise of its own: what moves it comes from other "
                f"fields; fixed={{'{scale}': 0}} says so"
            )
        if not any(field_of(name) == field for name in fit.layout.reaction.names):
            out.append(f"no term stands in the equation of {field}: it only diffuses")
    return out
