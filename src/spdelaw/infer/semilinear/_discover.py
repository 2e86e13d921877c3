"""Which terms a field obeys.

The whole library is fitted once by the closure likelihood. Leaving out the terms E costs, by the
curvature at the maximum, ``theta_E' (Cov_EE)^-1 theta_E`` in twice the log-likelihood, so

    BIC(S) = theta_E' (Cov_EE)^-1 theta_E + |S| log n,    E = library without S,

ranks all subsets S at no cost. The best few are fitted and compared by their own likelihoods.
How sure the choice is: the same ranking with blocks of scores drawn anew (a one-step block
bootstrap).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.domain import AbstractDomain, Box, Interval
from spdelaw.errors import InputError
from spdelaw.infer.semilinear._complete import fit_complete
from spdelaw.infer.semilinear._filtered import fit_filtered
from spdelaw.infer.semilinear._result import SemilinearFit
from spdelaw.model import Collapsed

Array = np.ndarray
Terms = tuple[str, ...]
#: Terms without which a law is linear.
LINEAR = ("1", "u")
#: Subsets within this many units of the best are fitted themselves, at most `FITTED` of them.
CLOSE, FITTED = 6.0, 3
#: Largest library of which all subsets are ranked.
MOST_TERMS = 12
#: Transitions of one path that are drawn together.
BLOCK = 10


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Discovery:
    """Terms that were found, and how sure that is.

    Attributes:
        terms: the chosen terms, members of the library.
        table: best subsets with ``bic`` above the best, ``fitted`` (whether by a fit of their own)
            and ``frequency`` in the bootstrap; dim ``candidate``.
        inclusion: how often each term of the library was chosen in the bootstrap; dim ``term``.
        fit: the law with the chosen terms.
        library_fit: the law with all of them.
    """

    terms: Terms
    table: xr.Dataset
    inclusion: xr.DataArray
    fit: SemilinearFit
    library_fit: SemilinearFit

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        chosen = " and ".join(self.terms) or "no term beyond the linear operator"
        share = float(self.table["frequency"].values[0])
        text = f"The data choose {chosen}, in {100 * share:.0f} % of the resampled records"
        others = self.table["bic"].values[1:]
        if len(others):
            text += f"; the next best choice is {others[0]:.1f} units of BIC behind"
        linear = self.table["bic"].values[self.table["linear"].values]
        if len(linear) and linear.min() > 0:
            text += f", the best linear law {linear.min():.1f}"
        return text + "."

    def __repr__(self) -> str:
        """The sentence."""
        return f"Discovery: {self.sentence}"


def default_library(domain: AbstractDomain) -> Terms:
    """Powers of u, and products with first derivatives where the domain has them."""
    powers = ("1", "u", "u^2", "u^3")
    if isinstance(domain, Interval):
        return (*powers, "u u_x", "u_x^2")
    return (*powers, "|grad u|^2") if isinstance(domain, Box) else powers


def discover_complete(
    coefficients: Array, times: Array, domain: AbstractDomain, library: Sequence[str] | None = None,
    *, bootstrap: int = 200, seed: int = 0, **words: Any,
) -> Discovery:  # fmt: skip
    """Terms of complete fields; the words are those of `fit_complete`."""

    def fit(terms: Terms) -> SemilinearFit:
        return fit_complete(coefficients, times, domain, terms, **words)

    return discover(fit, _library(library, domain), bootstrap, seed)


def discover_filtered(
    collapsed: Collapsed, domain: AbstractDomain, library: Sequence[str] | None = None,
    *, bootstrap: int = 200, seed: int = 0, **words: Any,
) -> Discovery:  # fmt: skip
    """Terms of fields with gaps or noise; the words are those of `fit_filtered`."""

    def fit(terms: Terms) -> SemilinearFit:
        return fit_filtered(collapsed, domain, terms, **words)

    return discover(fit, _library(library, domain), bootstrap, seed)


def _library(library: Sequence[str] | None, domain: AbstractDomain) -> Terms:
    names = default_library(domain) if library is None else tuple(library)
    if not 1 <= len(names) <= MOST_TERMS:
        raise InputError(
            "library", expected=f"1 to {MOST_TERMS} terms", got=str(len(names)),
            fix="pass library=('u', 'u^2', 'u^3')",
        )  # fmt: skip
    return names


def discover(
    fit: Callable[[Terms], SemilinearFit], library: Terms, bootstrap: int = 200, seed: int = 0
) -> Discovery:
    """Terms of a library, given how a law with some of them is fitted."""
    whole = fit(library)
    names = whole.layout.reaction.names
    at = [whole.layout.free_names.index(name) for name in names]
    covariance, penalty = whole.covariance[np.ix_(at, at)], np.log(len(whole.scores))
    ranked = _rank(whole.x[at], covariance, penalty)
    fits = _refit(fit, names, ranked, whole)
    bic = {s: -2.0 * f.log_likelihood + len(s) * penalty for s, f in fits.items()}
    best = min(bic, key=bic.__getitem__)
    counts = _bootstrap(whole, at, covariance, penalty, bootstrap, seed)
    table = _table(names, ranked, bic, best, counts)
    included = [
        sum(n for s, n in counts.items() if k in s) / max(bootstrap, 1) for k in range(len(at))
    ]
    return Discovery(
        tuple(names[k] for k in best), table,
        xr.DataArray(included, {"term": list(names)}, ("term",)), fits[best], whole,
    )  # fmt: skip


Subset = tuple[int, ...]


def _rank(theta: Array, covariance: Array, penalty: float) -> dict[Subset, float]:
    """``BIC(S)`` of all subsets, best first."""
    n = len(theta)
    out: dict[Subset, float] = {}
    for size in range(n + 1):
        for subset in itertools.combinations(range(n), size):
            left = [k for k in range(n) if k not in subset]
            part = covariance[np.ix_(left, left)]
            cost = float(theta[left] @ np.linalg.solve(part, theta[left])) if left else 0.0
            out[subset] = cost + size * penalty
    return dict(sorted(out.items(), key=lambda item: item[1]))


def _refit(
    fit: Callable[[Terms], SemilinearFit], names: Terms, ranked: Mapping[Subset, float],
    whole: SemilinearFit,
) -> dict[Subset, SemilinearFit]:  # fmt: skip
    """Fits of the best subset and of those close to it, started from the whole library's values."""
    least = next(iter(ranked.values()))
    close = [s for s, value in ranked.items() if value <= least + CLOSE][:FITTED]
    out = {}
    for subset in close:
        terms = tuple(names[k] for k in subset)
        out[subset] = whole if len(terms) == len(names) else fit(terms)
    return out


def _bootstrap(
    whole: SemilinearFit, at: list[int], covariance: Array, penalty: float, n: int, seed: int
) -> dict[Subset, int]:
    """How often each subset is best when blocks of scores are drawn with replacement.

    A sample moves the estimate by ``Cov sum_b (w_b - 1) s_b``, block b having been drawn w_b times.
    """
    sums = _block_sums(whole.scores, whole.groups)
    generator = np.random.default_rng(seed)
    counts: dict[Subset, int] = {}
    centred = sums - sums.mean(0)
    for _ in range(n):
        drawn = generator.multinomial(len(sums), np.full(len(sums), 1.0 / len(sums)))
        theta = (whole.x + whole.covariance @ (drawn @ centred))[at]
        best = next(iter(_rank(theta, covariance, penalty)))
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
    names: Terms, ranked: Mapping[Subset, float], bic: Mapping[Subset, float], best: Subset,
    counts: Mapping[Subset, int],
) -> xr.Dataset:  # fmt: skip
    """The best subsets, those fitted first, and the best linear one."""
    shift = ranked[best] - bic[best]
    values = {s: (bic[s] if s in bic else v - shift) - bic[best] for s, v in ranked.items()}
    # Subsets that were fitted stand by their own likelihood, before those that were not.
    order = sorted(values, key=lambda s: (s != best, values[s]))
    linear = [s for s in order if all(names[k] in LINEAR for k in s)]
    shown = list(dict.fromkeys([*order[:8], *linear[:1]]))
    total = max(sum(counts.values()), 1)
    return xr.Dataset(
        {
            "terms": ("candidate", [", ".join(names[k] for k in s) or "none" for s in shown]),
            "bic": ("candidate", [values[s] for s in shown]),
            "fitted": ("candidate", [s in bic for s in shown]),
            "linear": ("candidate", [s in linear for s in shown]),
            "frequency": ("candidate", [counts.get(s, 0) / total for s in shown]),
        }
    )
