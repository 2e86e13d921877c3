"""Which terms a field obeys.

The whole library is fitted once by the closure likelihood. Leaving out the terms E costs, by the
curvature at the maximum, ``theta_E' (Cov_EE)^-1 theta_E`` in twice the log-likelihood, so

    BIC(S) = theta_E' (Cov_EE)^-1 theta_E + |S| log n,    E = library without S,

ranks all subsets S at no cost. The best few are fitted and compared by their own likelihoods.
How sure the choice is: the same ranking with blocks of scores drawn anew (a one-step block
bootstrap).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from spdelaw.domain import AbstractDomain, Box, Fields, Interval
from spdelaw.equation import field_of
from spdelaw.errors import InputError
from spdelaw.infer.semilinear._result import SemilinearFit

Array = np.ndarray
Terms = tuple[str, ...]
#: Makes the fit of some terms.
Fitter = Callable[[Terms], SemilinearFit]
#: Terms without which a law is linear.
LINEAR = ("1", "u")
#: Subsets within this many units of the best are fitted themselves, at most `FITTED` of them.
CLOSE, FITTED = 6.0, 3
#: Largest library of which all subsets are ranked.
MOST_TERMS = 12
#: Best subsets of each equation that are tried together with those of the others.
SHORT = 6
#: Candidates that the table shows, the best linear one apart.
SHOWN = 8
#: Transitions of one path that are drawn together, and blocks without which nothing is drawn.
BLOCK, FEWEST_BLOCKS = 10, 6


class Selection(NamedTuple):
    """Terms that were chosen, and how sure that is.

    Attributes:
        terms: the chosen terms, members of the library.
        table: candidates, best first, dim ``candidate``: their ``terms``, ``bic`` above the best,
            ``log_likelihood`` and ``coefficient`` (over ``term``) where they were fitted, whether
            they are ``linear``, and their ``frequency`` in the bootstrap, NaN without one.
        inclusion: how often each term of the library was chosen in the bootstrap; dim ``term``.
        fit: the law with the chosen terms.
    """

    terms: Terms
    table: xr.Dataset
    inclusion: xr.DataArray
    fit: SemilinearFit


def default_library(domain: AbstractDomain) -> Terms:
    """Powers of u, and products with first derivatives where the domain has them.

    Of several fields all monomials up to degree 3, in each equation.
    """
    if isinstance(domain, Fields):
        return in_each(domain, _monomials(domain.names, 3))
    powers = ("1", "u", "u^2", "u^3")
    if isinstance(domain, Interval):
        return (*powers, "u u_x", "u_x^2")
    return (*powers, "|grad u|^2") if isinstance(domain, Box) else powers


def in_each(domain: Fields, library: Sequence[str]) -> Terms:
    """The same terms in the equation of every field; full names as they are."""
    if any(":" in name for name in library):
        return tuple(library)
    return tuple(f"{field}: {term}" for field in domain.names for term in library)


def _monomials(names: Sequence[str], degree: int) -> list[str]:
    """``1, u, v, u^2, u v, ...`` up to a degree."""
    out = ["1"]
    for total in range(1, degree + 1):
        for chosen in itertools.combinations_with_replacement(names, total):
            powers = {name: chosen.count(name) for name in chosen}
            out.append(" ".join(n if p == 1 else f"{n}^{p}" for n, p in powers.items()))
    return out


def check_library(library: Sequence[str] | None, domain: AbstractDomain) -> Terms:
    """The library, or the default one of the domain; `InputError` where it has no right size."""
    names = default_library(domain) if library is None else tuple(library)
    if isinstance(domain, Fields):
        names = in_each(domain, names)
    largest = max(map(len, _groups(names)), default=0)
    if not 1 <= largest <= MOST_TERMS:
        expected = f"1 to {MOST_TERMS} terms in an equation"
        fix = "pass library=('u', 'u^2', 'u^3')"
        raise InputError("library", expected=expected, got=str(largest), fix=fix)
    return names


def _groups(names: Terms) -> list[list[int]]:
    """Positions of the terms of each equation."""
    fields = dict.fromkeys(field_of(name) for name in names)
    return [[k for k, name in enumerate(names) if field_of(name) == field] for field in fields]


def _is_linear(name: str) -> bool:
    """Whether a law with this term alone is linear."""
    text = name.partition(":")[2].strip() if ":" in name else name
    return text in LINEAR or (":" in name and text.isidentifier())


def select(whole: SemilinearFit, fit: Fitter, bootstrap: int = 200, seed: int = 0) -> Selection:
    """Terms of a library.

    Args:
        whole: fit of the whole library.
        fit: makes the fit of fewer terms to the same numbers.
        bootstrap: resampled records.
        seed: of these.
    """
    names = whole.layout.reaction.names
    at = [whole.layout.free_names.index(name) for name in names]
    n = whole.diagnostics.get("n_values", whole.diagnostics["n_transitions"])
    covariance, penalty = whole.covariance[np.ix_(at, at)], np.log(n)
    ranked = _rank(whole.x[at], covariance, penalty, names)
    fits = _refit(fit, names, ranked, whole)
    bic = {s: -2.0 * f.log_likelihood + len(s) * penalty for s, f in fits.items()}
    best = min(bic, key=bic.__getitem__)
    counts = _bootstrap(whole, at, covariance, penalty, bootstrap, seed)
    total = sum(counts.values()) or np.nan
    included = [sum(n for s, n in counts.items() if k in s) / total for k in range(len(at))]
    return Selection(
        tuple(names[k] for k in best), _table(names, ranked, fits, bic, best, counts),
        xr.DataArray(included, {"term": list(names)}, ("term",)), fits[best],
    )  # fmt: skip


Subset = tuple[int, ...]


def _rank(theta: Array, covariance: Array, penalty: float, names: Terms) -> dict[Subset, float]:
    """``BIC(S)``, best first: of all subsets, or of the best ones of several equations together.

    Equations have noise of their own, so what a term costs in one does not depend on the others.
    """
    groups = _groups(names)
    each = [_rank_group(theta, covariance, penalty, group) for group in groups]
    if len(each) == 1:
        return each[0]
    short = []
    for own in each:
        linear = next(s for s in own if all(_is_linear(names[k]) for k in s))
        short.append({s: own[s] for s in [*list(own)[:SHORT], linear]})
    out = {}
    for parts in itertools.product(*(own.items() for own in short)):
        out[tuple(sorted(k for s, _ in parts for k in s))] = sum(value for _, value in parts)
    return dict(sorted(out.items(), key=lambda item: item[1]))


def _rank_group(
    theta: Array, covariance: Array, penalty: float, group: list[int]
) -> dict[Subset, float]:
    """``BIC(S)`` of all subsets of the terms of one equation, best first."""
    out: dict[Subset, float] = {}
    for size in range(len(group) + 1):
        for subset in itertools.combinations(group, size):
            left = [k for k in group if k not in subset]
            part = covariance[np.ix_(left, left)]
            cost = float(theta[left] @ np.linalg.solve(part, theta[left])) if left else 0.0
            out[subset] = cost + size * penalty
    return dict(sorted(out.items(), key=lambda item: item[1]))


def _refit(
    fit: Fitter, names: Terms, ranked: Mapping[Subset, float], whole: SemilinearFit
) -> dict[Subset, SemilinearFit]:
    """Fits of the best subset, of those close to it, and of the best linear law."""
    least = next(iter(ranked.values()))
    close = [s for s, value in ranked.items() if value <= least + CLOSE][:FITTED]
    out = {tuple(range(len(names))): whole}
    for subset in (*close, _best_linear(names, ranked)):
        if subset not in out:
            out[subset] = fit(tuple(names[k] for k in subset))
    return out


def _best_linear(names: Terms, ranked: Mapping[Subset, float]) -> Subset:
    return next(s for s in ranked if all(_is_linear(names[k]) for k in s))


def _bootstrap(
    whole: SemilinearFit, at: list[int], covariance: Array, penalty: float, n: int, seed: int
) -> dict[Subset, int]:
    """How often each subset is best when blocks of scores are drawn with replacement.

    A sample moves the estimate by ``Cov sum_b (w_b - 1) s_b``, block b having been drawn w_b times.
    Too few blocks say nothing, and nothing is counted.
    """
    sums = _block_sums(whole.scores, whole.groups)
    if len(sums) < FEWEST_BLOCKS:
        return {}
    generator = np.random.default_rng(seed)
    counts: dict[Subset, int] = {}
    centred = sums - sums.mean(0)
    for _ in range(n):
        drawn = generator.multinomial(len(sums), np.full(len(sums), 1.0 / len(sums)))
        theta = (whole.x + whole.covariance @ (drawn @ centred))[at]
        best = next(iter(_rank(theta, covariance, penalty, whole.layout.reaction.names)))
        counts[best] = counts.get(best, 0) + 1
    return counts


def _block_sums(scores: Array, groups: Array) -> Array:
    """Sums of scores over `BLOCK` successive rows of a path."""
    rows = []
    for path in np.unique(groups):
        own = scores[groups == path]
        cuts = np.arange(0, len(own), BLOCK)
        rows.append(np.add.reduceat(own, cuts, axis=0))
    return np.concatenate(rows)


def _table(
    names: Terms, ranked: Mapping[Subset, float], fits: Mapping[Subset, SemilinearFit],
    bic: Mapping[Subset, float], best: Subset, counts: Mapping[Subset, int],
) -> xr.Dataset:  # fmt: skip
    """The best subsets and the best linear one; those not fitted stand by the curvature."""
    shift = ranked[best] - bic[best]
    values = {s: (bic[s] if s in bic else v - shift) - bic[best] for s, v in ranked.items()}
    # What the curvature promises a subset that was not fitted is no reason to stand first.
    order = sorted(values, key=lambda s: (s != best, max(values[s], 0.0)))
    shown = list(dict.fromkeys([*order[:SHOWN], _best_linear(names, ranked)]))
    total = sum(counts.values()) or np.nan
    coefficient = np.full((len(shown), len(names)), np.nan)
    for row, s in enumerate(shown):
        for k in s if s in fits else ():
            coefficient[row, k] = fits[s].values[names[k]]
    height = [fits[s].log_likelihood if s in fits else np.nan for s in shown]
    return xr.Dataset(
        {
            "terms": ("candidate", [", ".join(names[k] for k in s) or "none" for s in shown]),
            "log_likelihood": ("candidate", height),
            "bic": ("candidate", [max(values[s], 0.0) for s in shown]),
            "linear": ("candidate", [all(_is_linear(names[k]) for k in s) for s in shown]),
            "frequency": ("candidate", [counts.get(s, 0) / total for s in shown]),
            "coefficient": (("candidate", "term"), coefficient),
        },
        {"term": list(names)},
    )
