"""Which terms a field obeys."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import checked, one_of
from spdelaw.data.observed import ADAPTER, Observed
from spdelaw.data.prepare import Preparation
from spdelaw.domains.base import AbstractDomain, table_html
from spdelaw.domains.box import Box
from spdelaw.domains.fields import Fields
from spdelaw.domains.interval import Interval
from spdelaw.errors import ConvergenceError, DataError, InputError
from spdelaw.infer.model import Model
from spdelaw.infer.pipeline import check_domain, fit
from spdelaw.infer.semilinear.engine import Observations, SemilinearEngine, check_term_names
from spdelaw.infer.semilinear.fits import SemilinearFit
from spdelaw.infer.semilinear.layout import by_field
from spdelaw.law.law import Law
from spdelaw.processes.state_noise import STATE_NOISES
from spdelaw.processes.terms import field_of

# ---------- Selection of terms by BIC
#
# The whole library is fitted once by the closure likelihood. Leaving out the terms E costs, by the
# curvature at the maximum, ``theta_E' (Cov_EE)^-1 theta_E`` in twice the log-likelihood, so
#
#     BIC(S) = theta_E' (Cov_EE)^-1 theta_E + |S| log n,    E = library without S,
#
# ranks all subsets S at no cost. The best few are fitted and compared by their own likelihoods.
# Before, the noise is chosen the same way among additive and state-dependent ones, under a linear
# drift: over short steps the covariance of the increments hardly depends on the drift.
#
# How sure the choice is: the same ranking with bootstrap blocks of scores (a one-step block
# bootstrap).


Array = np.ndarray
Terms = tuple[str, ...]
#: Positions of some terms of a library.
Subset = tuple[int, ...]
Fits = Mapping[Subset, SemilinearFit]
#: Makes the fit of some terms.
Fitter = Callable[[Terms], SemilinearFit]
#: Terms of a linear law.
LINEAR_TERMS = ("1", "u")
#: Subsets within this many units of the best are fitted themselves, at most `MOST_FITTED` of them.
CLOSE_BIC, MOST_FITTED = 6.0, 3
#: Terms of the drift under which kinds of noise are compared.
NOISE_TERMS = ("1", "u")
#: Units of BIC by which noise that depends on the state has to be better than additive noise.
CLEAR_BIC = 6.0
#: Words for the kinds of noise.
NOISE_TEXT = {
    "none": "additive noise",
    "proportional": "noise in proportion to the field",
    "affine": "noise that grows with the field from an offset",
    "square_root": "noise that grows with the square root of the field",
}
#: Largest library of which all subsets are ranked.
MOST_TERMS = 12
#: Best subsets of each equation that are combined with those of the others.
SHORTLIST = 6
#: Candidates that the table shows, the best linear one apart.
SHOWN_CANDIDATES = 8
#: Transitions of one path that are drawn together, and blocks without which nothing is drawn.
BLOCK_LENGTH, FEWEST_BLOCKS = 10, 6


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
    largest = max(map(len, _equation_positions(names)), default=0)
    if not 1 <= largest <= MOST_TERMS:
        expected = f"1 to {MOST_TERMS} terms in an equation"
        fix = "pass library=('u', 'u^2', 'u^3')"
        raise InputError("library", expected=expected, got=str(largest), fix=fix)
    return names


def _equation_positions(names: Terms) -> list[list[int]]:
    """Positions of the terms of each equation."""
    fields = dict.fromkeys(field_of(name) for name in names)
    return [[k for k, name in enumerate(names) if field_of(name) == field] for field in fields]


def _best_linear(names: Terms, ranked: Mapping[Subset, float]) -> Subset:
    return next(s for s in ranked if _are_linear(names, s))


def _are_linear(names: Terms, subset: Subset) -> bool:
    """Whether a law with these terms is linear."""
    texts = [names[k].rpartition(":") for k in subset]
    return all(t.strip() in LINEAR_TERMS or (f and t.strip().isidentifier()) for f, _, t in texts)


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
    names = whole.layout.terms
    at = [whole.layout.names.index(name) for name in names]
    n = whole.diagnostics.get("n_values", whole.diagnostics["n_transitions"])
    covariance, penalty = whole.estimate.covariance[np.ix_(at, at)], float(np.log(n))

    def rank(x: Array) -> dict[Subset, float]:
        return _rank_subsets(x[at], covariance, penalty, names)

    ranked = rank(whole.estimate.full)
    # The best subset, those close to it, and the best linear law are fitted themselves.
    least = next(iter(ranked.values()))
    close = [s for s, value in ranked.items() if value <= least + CLOSE_BIC][:MOST_FITTED]
    fits = {tuple(range(len(names))): whole}
    for s in (*close, _best_linear(names, ranked)):
        if s not in fits:
            fits[s] = fit(tuple(names[k] for k in s))
    bic = {s: -2.0 * f.log_likelihood + len(s) * penalty for s, f in fits.items()}
    best = min(bic, key=bic.__getitem__)
    shift = ranked[best] - bic[best]
    values = {s: (bic[s] if s in bic else v - shift) - bic[best] for s, v in ranked.items()}
    # A fitted subset stands first, whatever the curvature predicts for one that was not fitted.
    order = sorted(values, key=lambda s: (s != best, max(values[s], 0.0)))
    first = dict.fromkeys([*order[:SHOWN_CANDIDATES], _best_linear(names, ranked)])
    counts = Counter(next(iter(rank(x))) for x in _resampled_estimates(whole, bootstrap, seed))
    shown = {s: max(values[s], 0.0) for s in first}
    return fits[best], *_candidate_tables(names, shown, fits, counts)


def _candidate_tables(
    names: Terms, shown: Mapping[Subset, float], fits: Fits, counts: Counter[Subset]
) -> tuple[xr.Dataset, xr.DataArray]:
    """Candidates with their BIC above the best, and how often each term was chosen."""
    total = counts.total() or np.nan
    coefficient = np.full((len(shown), len(names)), np.nan)
    for row, s in enumerate(shown):
        for k in s if s in fits else ():
            coefficient[row, k] = fits[s].values[names[k]]
    log_likelihoods = [fits[s].log_likelihood if s in fits else np.nan for s in shown]
    table = xr.Dataset(
        {
            "terms": ("candidate", [", ".join(names[k] for k in s) or "none" for s in shown]),
            "log_likelihood": ("candidate", log_likelihoods),
            "bic": ("candidate", list(shown.values())),
            "linear": ("candidate", [_are_linear(names, s) for s in shown]),
            "frequency": ("candidate", [counts[s] / total for s in shown]),
            "coefficient": (("candidate", "term"), coefficient),
        },
        {"term": list(names)},
    )
    included = [sum(n for s, n in counts.items() if k in s) / total for k in range(len(names))]
    return table, xr.DataArray(included, {"term": list(names)}, ("term",))


def _rank_subsets(
    theta: Array, covariance: Array, penalty: float, names: Terms
) -> dict[Subset, float]:
    """``BIC(S)``, best first: of all subsets, or of the best ones of several equations together.

    The noises of the equations are independent, so the cost of a term in one does not depend on
    the terms of the others.
    """
    rankings = [
        _rank_equation(theta, covariance, penalty, group) for group in _equation_positions(names)
    ]
    if len(rankings) == 1:
        return rankings[0]
    shortlists = [
        dict.fromkeys([*list(ranking)[:SHORTLIST], _best_linear(names, ranking)])
        for ranking in rankings
    ]
    out = {}
    for subsets in itertools.product(*shortlists):
        value = sum(ranking[s] for ranking, s in zip(rankings, subsets, strict=True))
        out[tuple(sorted(k for s in subsets for k in s))] = value
    return dict(sorted(out.items(), key=lambda item: item[1]))


def _rank_equation(
    theta: Array, covariance: Array, penalty: float, group: list[int]
) -> dict[Subset, float]:
    """``BIC(S)`` of all subsets of the terms of one equation, best first."""
    out: dict[Subset, float] = {}
    for size in range(len(group) + 1):
        for subset in itertools.combinations(group, size):
            left_out = [k for k in group if k not in subset]
            dropped, block = theta[left_out], covariance[np.ix_(left_out, left_out)]
            cost = float(dropped @ np.linalg.solve(block, dropped)) if left_out else 0.0
            out[subset] = cost + size * penalty
    return dict(sorted(out.items(), key=lambda item: item[1]))


def _resampled_estimates(whole: SemilinearFit, n: int, seed: int) -> Iterator[Array]:
    """Estimates of a bootstrap over blocks of `BLOCK_LENGTH` successive scores of a path.

    A sample moves the estimate by ``Cov sum_b (w_b - 1) s_b``, block b having been drawn w_b times.
    With fewer than `FEWEST_BLOCKS` blocks there are no estimates.
    """
    rows = []
    for path in np.unique(whole.groups):
        scores = whole.scores[whole.groups == path]
        rows.append(np.add.reduceat(scores, np.arange(0, len(scores), BLOCK_LENGTH), axis=0))
    sums = np.concatenate(rows)
    if len(sums) < FEWEST_BLOCKS:
        return
    generator, centred = np.random.default_rng(seed), sums - sums.mean(0)
    for _ in range(n):
        drawn = generator.multinomial(len(sums), np.full(len(sums), 1.0 / len(sums)))
        yield whole.estimate.full + whole.estimate.covariance @ (drawn @ centred)


# ---------- `discover` and its result


#: Transitions that each term of a library needs at least.
TRANSITIONS_PER_TERM = 10
#: Rows of the printed table, and widths of its columns.
TABLE_ROWS, COLUMN_WIDTHS = 6, (28, 14, 9, 7)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Discovery:
    """Chosen terms, the certainty of the choice, and the law with them.

    Attributes:
        terms: the chosen terms, members of the library.
        law: the law with these terms; its intervals do not include the uncertainty of the choice.
        table: candidates, best first, dim ``candidate``: their ``terms``, ``log_likelihood``,
            ``bic`` above the best, ``coefficient`` (over ``term``), whether they are ``linear``,
            and the ``frequency`` with which bootstrap samples select them. Candidates that were not
            fitted themselves have no likelihood, and a ``bic`` by the curvature of the library's.
        inclusion: fraction of bootstrap samples that select each term, NaN if there are too few
            data to resample; dim ``term``.
        noise_bic: BIC above the best of each kind of noise under a linear drift, by name; empty
            for several fields.
    """

    terms: tuple[str, ...]
    law: Law
    table: xr.Dataset
    inclusion: xr.DataArray
    noise_bic: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def state_noise(self) -> str:
        """Kind of the noise, as `Model.state_noise` has it."""
        return self.law.dynamics.state_noise_kind  # type: ignore[attr-defined]

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        *first, last = self.terms or ("no term beyond the linear operator",)
        chosen = f"{', '.join(first)} and {last}" if first else last
        text = f"The data select {chosen}"
        if self.table["frequency"].notnull().any():
            text += f", in {100 * float(self.table['frequency'][0]):.0f} % of the bootstrap samples"
        bic, fitted = self.table["bic"].values, np.isfinite(self.table["log_likelihood"].values)
        linear = self.table["linear"].values & fitted
        if len(bic) > 1:
            text += f"; the next best choice is {bic[1]:.1f} units of BIC behind"
        if linear.any() and bic[linear].min() > 0:
            text += f", the best linear law {bic[linear].min():.1f}"
        others = [value for kind, value in self.noise_bic.items() if kind != self.state_noise]
        if others:
            text += (
                f". They select {NOISE_TEXT[self.state_noise]}, by {min(others):.1f} units of BIC"
            )
        return text + "."

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, for JSON."""
        rows = []
        for k in range(self.table.sizes["candidate"]):
            row = self.table.isel(candidate=k)
            numbers = {
                key: _finite_or_none(row[key]) for key in ("log_likelihood", "bic", "frequency")
            }
            coefficients = row["coefficient"].dropna("term").to_series().to_dict()
            plain = {"terms": row["terms"].item(), "linear": bool(row["linear"])}
            rows.append({**plain, **numbers, "coefficients": coefficients})
        return {
            "sentence": self.sentence,
            "terms": list(self.terms),
            "state_noise": self.state_noise,
            "noise_bic": {kind: float(value) for kind, value in self.noise_bic.items()},
            "candidates": rows,
            "inclusion": {
                str(t): _finite_or_none(v) for t, v in self.inclusion.to_series().items()
            },
        }

    def __repr__(self) -> str:
        """The sentence and the table."""
        lines = [
            "  ".join(c.rjust(w) for c, w in zip(r, COLUMN_WIDTHS, strict=True)) for r in self._rows
        ]
        return "\n".join([f"Discovery: {self.sentence}", *(f"  {line}" for line in lines)])

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        header, *rows = self._rows
        return table_html("Discovery", [self.sentence], header, rows, [])

    @property
    def _rows(self) -> list[list[str]]:
        out = [["terms", "log-likelihood", "BIC", "chosen"]]
        for row in self.to_dict()["candidates"][:TABLE_ROWS]:
            log_likelihood, share = row["log_likelihood"], row["frequency"]
            shown = "" if log_likelihood is None else f"{log_likelihood:.1f}"
            chosen = "" if share is None else f"{100 * share:.0f} %"
            out.append([row["terms"], shown, f"+{row['bic']:.1f}", chosen])
        return out


def _finite_or_none(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


@checked()
def discover(
    data: Any,
    domain: AbstractDomain,
    n_modes: int | str = "auto",
    library: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    *,
    noise: str = "diagonal",
    observation_noise: Any = "auto",
    fixed: Mapping[str, Any] | None = None,
    prepare: Preparation | None = None,
    level: float = 0.95,
    bootstrap: int = 200,
    seed: int = 0,
    method: str = "auto",
    scheme: str = "exact",
    **words: Any,
) -> Discovery:
    """Choose the terms of a semilinear equation from data, and fit the law with them.

    `discover` first chooses between additive noise and noise that depends on the field. It fits
    the whole library once, and its curvature ranks all subsets by the Bayesian information
    criterion (BIC). The best subsets and the best linear law are refitted.

    Args:
        data: fields, as `spdelaw.fit` takes them, with or without gaps.
        domain: where they live.
        n_modes: modes of the law, or "auto".
        library: names of terms to choose from, such as ("u", "u^2", "u^3"); by default powers up
            to 3, and products of first derivatives where the domain has them. Of several fields
            by field, ``{"u": ("u", "v", "u v^2"), "v": (...)}``.
        noise: "diagonal", one variance per mode, or "parametric", ``scale n^-exponent``.
        observation_noise: as `spdelaw.Model` has it: "auto", "none", "estimate", or known.
        fixed: values to hold, such as ``{"nu": 0.05}``.
        prepare: `spdelaw.Preparation` of the data.
        level: of the intervals.
        bootstrap: number of block-bootstrap samples that measure how certain the choice is.
        seed: of these.
        method: "closure", "one_pass" (many modes of several fields) or "auto".
        scheme: "exact", or "semi_implicit" for complete fields simulated by this scheme.
        words: of the data (`spdelaw.as_fields`).

    Returns:
        A `Discovery`: ``terms``, ``state_noise``, ``table``, ``law``.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> equation = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(61))
        >>> fields = sl.simulate(equation, 10, seed=2)
        >>> discovery = sl.discover(fields, equation.domain, 5, library=("u", "u^2", "u^3"))
        >>> discovery.terms
        ('u', 'u^3')
    """
    for name in words:
        one_of("keyword", name, ADAPTER)
    check_domain(domain)
    library, domain, n_modes = by_field("library", library, domain, n_modes)
    if library is not None:
        check_term_names("library", library)
    names = check_library(library, domain)  # type: ignore[arg-type]
    chooser = Chooser(names, method, scheme, bootstrap, seed)
    held = {**({"kappa": 0.0} if "u" in names else {}), **(fixed or {})}
    assumptions = {"noise": noise, "observation_noise": observation_noise, "fixed": held}
    law = fit(
        data, domain, n_modes, engine=chooser, level=level, prepare=prepare, **assumptions, **words
    )
    (tables,) = chooser.tables
    result = Discovery(law.dynamics.terms, law, *tables, chooser.noise_bic)  # type: ignore[attr-defined]
    return dataclasses.replace(result, law=law.with_info(discovery=result.to_dict()))


@dataclasses.dataclass(frozen=True)
class Chooser(SemilinearEngine):
    """Fit of a whole library; ``tables`` collects table and inclusion of each choice from it."""

    bootstrap: int = 0
    seed: int = 0
    tables: list[tuple[xr.Dataset, xr.DataArray]] = dataclasses.field(default_factory=list)
    noise_bic: dict[str, float] = dataclasses.field(default_factory=dict)

    def seen(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model
    ) -> tuple[Observations, SemilinearFit]:
        """Observations of the fields, and the fit of the chosen terms to them."""
        _check_enough(observed, self.terms)
        observations, whole_fit = super().seen(observed, domain, n_modes, model)
        words, diagnostics = self.words(model), whole_fit.diagnostics
        if "burn" in diagnostics:  # one burn-in: all candidates are compared on the same values
            words["burn"] = diagnostics["burn"]
        if not isinstance(domain, Fields) and self.scheme == "exact":
            self.noise_bic.update(_compare_noises(observations, words))
        kind = min(self.noise_bic, key=lambda kind: self.noise_bic[kind], default="none")
        if kind != "none" and self.noise_bic.get("none", np.inf) > CLEAR_BIC:
            words["state_noise"] = kind
            whole_fit = observations.fit(self.terms, words)

        def fit_terms(terms: tuple[str, ...]) -> SemilinearFit:
            return observations.fit(terms, words)

        chosen, table, inclusion = select(whole_fit, fit_terms, self.bootstrap, self.seed)
        self.tables.append((table, inclusion))
        return observations, chosen


def _compare_noises(observations: Observations, words: Mapping[str, Any]) -> dict[str, float]:
    """BIC above the best of each kind of noise, under a linear drift.

    Fixed values that such a law does not have are left out. A kind whose fit fails is no candidate.
    """
    bic, names = {}, ("nu", "kappa", "s", "scale", "exponent", *NOISE_TERMS)
    fixed = {key: value for key, value in (words.get("fixed") or {}).items() if key in names}
    values = np.asarray(observations.observed.values)
    is_positive = bool(np.nanmin(values) > 0.0)
    for kind in STATE_NOISES if is_positive else STATE_NOISES[:-1]:
        with contextlib.suppress(ConvergenceError, InputError, np.linalg.LinAlgError):
            fit = observations.fit(NOISE_TERMS, {**words, "fixed": fixed, "state_noise": kind})
            n = fit.diagnostics["n_transitions"]
            bic[kind] = len(fit.layout.free) * np.log(n) - 2.0 * fit.log_likelihood
    best = min(bic.values(), default=0.0)
    return {kind: float(value - best) for kind, value in bic.items()}


def _check_enough(observed: Observed, library: Sequence[str]) -> None:
    need, got = (
        TRANSITIONS_PER_TERM * len(library),
        observed.n_paths * (observed.times.shape[-1] - 1),
    )
    if got < need:
        expected = f"at least {need} transitions to choose from {len(library)} terms"
        got = f"{got} of {observed.n_paths} paths"
        fix = "use longer records or more paths, or a smaller library"
        raise DataError("data", expected=expected, got=got, fix=fix)
