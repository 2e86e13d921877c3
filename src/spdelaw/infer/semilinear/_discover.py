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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from spdelaw.domain import AbstractDomain, Box, Fields, Interval
from spdelaw.equation import field_of
from spdelaw.errors import InputError
from spdelaw.infer.semilinear._result import SemilinearFit

Array = np.ndarray
Terms = tuple[str, ...]
#: Positions of some terms of a library.
Subset = tuple[int, ...]
Fits = Mapping[Subset, SemilinearFit]
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


def default_library(domain: AbstractDomain) -> Terms:
    """Powers of u, and products with first derivatives where the domain has them.

    Of several fields all monomials up to degree 3.
    """
    if isinstance(domain, Fields):
        return tuple(_monomials(domain.names, 3))
    powers = ("1", "u", "u^2", "u^3")
    if isinstance(domain, Interval):
        return (*powers, "u u_x", "u_x^2")
    return (*powers, "|grad u|^2") if isinstance(domain, Box) else powers


def _monomials(names: Sequence[str], degree: int) -> list[str]:
    """``1, u, v, u^2, u v, ...`` up to a degree."""
    out = ["1"]
    for total in range(1, degree + 1):
        for chosen in itertools.combinations_with_replacement(names, total):
            powers = {name: chosen.count(name) for name in chosen}
            out.append(" ".join(n if p == 1 else f"{n}^{p}" for n, p in powers.items()))
    return out


def check_library(library: Sequence[str] | None, domain: AbstractDomain) -> Terms:
    """The library, or the default one of the domain; `InputError` where it has no right size.

    Of several fields short names stand for terms in the equation of each of them.
    """
    names = default_library(domain) if library is None else tuple(library)
    if isinstance(domain, Fields) and not any(":" in name for name in names):
        names = tuple(f"{field}: {term}" for field in domain.names for term in names)
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


def _best_linear(names: Terms, ranked: Mapping[Subset, float]) -> Subset:
    return next(s for s in ranked if _are_linear(names, s))


def _are_linear(names: Terms, subset: Subset) -> bool:
    """Whether a law with these terms is linear."""
    texts = [names[k].rpartition(":") for k in subset]
    return all(t.strip() in LINEAR or (f and t.strip().isidentifier()) for f, _, t in texts)


def select(
    whole: SemilinearFit, fit: Fitter, bootstrap: int = 200, seed: int = 0
) -> tuple[SemilinearFit, xr.Dataset, xr.DataArray]:
    """Terms of a library.

    Args:
        whole: fit of the whole library.
        fit: makes the fit of fewer terms to the same numbers.
        bootstrap: resampled records.
        seed: of these.

    Returns:
        The law with the chosen terms; the candidates, best first, dim ``candidate``: their
        ``terms``, ``bic`` above the best, ``log_likelihood`` and ``coefficient`` (over ``term``)
        where they were fitted, whether they are ``linear``, and their ``frequency`` in the
        bootstrap, NaN without one; and how often each term of the library was chosen there.
    """
    names = whole.layout.reaction.names
    at = [whole.layout.free_names.index(name) for name in names]
    n = whole.diagnostics.get("n_values", whole.diagnostics["n_transitions"])
    covariance, penalty = whole.covariance[np.ix_(at, at)], float(np.log(n))

    def rank(x: Array) -> dict[Subset, float]:
        return _rank(x[at], covariance, penalty, names)

    ranked = rank(whole.x)
    # The best subset, those close to it, and the best linear law are fitted themselves.
    least = next(iter(ranked.values()))
    close = [s for s, value in ranked.items() if value <= least + CLOSE][:FITTED]
    fits = {tuple(range(len(names))): whole}
    for s in (*close, _best_linear(names, ranked)):
        if s not in fits:
            fits[s] = fit(tuple(names[k] for k in s))
    bic = {s: -2.0 * f.log_likelihood + len(s) * penalty for s, f in fits.items()}
    best = min(bic, key=bic.__getitem__)
    shift = ranked[best] - bic[best]
    values = {s: (bic[s] if s in bic else v - shift) - bic[best] for s, v in ranked.items()}
    # What the curvature promises a subset that was not fitted is no reason to stand first.
    order = sorted(values, key=lambda s: (s != best, max(values[s], 0.0)))
    first = dict.fromkeys([*order[:SHOWN], _best_linear(names, ranked)])
    counts = Counter(next(iter(rank(x))) for x in _resampled(whole, bootstrap, seed))
    shown = {s: max(values[s], 0.0) for s in first}
    return fits[best], *_tables(names, shown, fits, counts)


def _tables(
    names: Terms, shown: Mapping[Subset, float], fits: Fits, counts: Counter[Subset]
) -> tuple[xr.Dataset, xr.DataArray]:
    """Candidates with their BIC above the best, and how often each term was chosen."""
    total = counts.total() or np.nan
    coefficient = np.full((len(shown), len(names)), np.nan)
    for row, s in enumerate(shown):
        for k in s if s in fits else ():
            coefficient[row, k] = fits[s].values[names[k]]
    height = [fits[s].log_likelihood if s in fits else np.nan for s in shown]
    table = xr.Dataset(
        {
            "terms": ("candidate", [", ".join(names[k] for k in s) or "none" for s in shown]),
            "log_likelihood": ("candidate", height),
            "bic": ("candidate", list(shown.values())),
            "linear": ("candidate", [_are_linear(names, s) for s in shown]),
            "frequency": ("candidate", [counts[s] / total for s in shown]),
            "coefficient": (("candidate", "term"), coefficient),
        },
        {"term": list(names)},
    )
    included = [sum(n for s, n in counts.items() if k in s) / total for k in range(len(names))]
    return table, xr.DataArray(included, {"term": list(names)}, ("term",))


def _rank(theta: Array, covariance: Array, penalty: float, names: Terms) -> dict[Subset, float]:
    """``BIC(S)``, best first: of all subsets, or of the best ones of several equations together.

    Equations have noise of their own, so what a term costs in one does not depend on the others.
    """
    each = [_rank_group(theta, covariance, penalty, group) for group in _groups(names)]
    if len(each) == 1:
        return each[0]
    short = [dict.fromkeys([*list(own)[:SHORT], _best_linear(names, own)]) for own in each]
    out = {}
    for parts in itertools.product(*short):
        value = sum(own[s] for own, s in zip(each, parts, strict=True))
        out[tuple(sorted(k for s in parts for k in s))] = value
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


def _resampled(whole: SemilinearFit, n: int, seed: int) -> Iterator[Array]:
    """Estimates when blocks of `BLOCK` successive scores of a path are drawn with replacement.

    A sample moves the estimate by ``Cov sum_b (w_b - 1) s_b``, block b having been drawn w_b times.
    Too few blocks say nothing, and there are none.
    """
    rows = []
    for path in np.unique(whole.groups):
        own = whole.scores[whole.groups == path]
        rows.append(np.add.reduceat(own, np.arange(0, len(own), BLOCK), axis=0))
    sums = np.concatenate(rows)
    if len(sums) < FEWEST_BLOCKS:
        return
    generator, centred = np.random.default_rng(seed), sums - sums.mean(0)
    for _ in range(n):
        drawn = generator.multinomial(len(sums), np.full(len(sums), 1.0 / len(sums)))
        yield whole.x + whole.covariance @ (drawn @ centred)
