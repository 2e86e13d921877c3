"""Which terms a field obeys: the door, and what it returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import one_of, whole
from spdelaw.data import ADAPTER, Observed, Preparation
from spdelaw.domain import AbstractDomain, table_html
from spdelaw.errors import DataError
from spdelaw.infer._fit import check_domain, fit
from spdelaw.infer._model import Model
from spdelaw.infer._semilinear_engine import SemilinearEngine, check_term_names
from spdelaw.infer._semilinear_sight import Sight
from spdelaw.infer._several_fields import by_field
from spdelaw.infer.semilinear import SemilinearFit, check_library, select
from spdelaw.law import Law

#: Transitions that each term of a library needs at least.
PER_TERM = 10
#: Rows of the printed table, and widths of its columns.
ROWS, WIDTHS = 6, (28, 14, 9, 7)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Discovery:
    """Terms that a field obeys, how sure that is, and its law with them.

    Attributes:
        terms: the chosen terms, members of the library.
        law: the law with these terms; its intervals do not include that they were chosen.
        table: candidates, best first, dim ``candidate``: their ``terms``, ``log_likelihood``,
            ``bic`` above the best, ``coefficient`` (over ``term``), whether they are ``linear``,
            and the ``frequency`` with which resampled records choose them. Candidates that were not
            fitted themselves have no likelihood, and a ``bic`` by the curvature of the library's.
        inclusion: how often resampled records choose each term, NaN where there are too few to
            resample; dim ``term``.
    """

    terms: tuple[str, ...]
    law: Law
    table: xr.Dataset
    inclusion: xr.DataArray

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        *first, last = self.terms or ("no term beyond the linear operator",)
        chosen = f"{', '.join(first)} and {last}" if first else last
        text = f"The data choose {chosen}"
        if self.table["frequency"].notnull().any():
            text += f", in {100 * float(self.table['frequency'][0]):.0f} % of the resampled records"
        bic, fitted = self.table["bic"].values, np.isfinite(self.table["log_likelihood"].values)
        linear = self.table["linear"].values & fitted
        if len(bic) > 1:
            text += f"; the next best choice is {bic[1]:.1f} units of BIC behind"
        if linear.any() and bic[linear].min() > 0:
            text += f", the best linear law {bic[linear].min():.1f}"
        return text + "."

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, for JSON."""
        rows = []
        for k in range(self.table.sizes["candidate"]):
            row = self.table.isel(candidate=k)
            numbers = {key: _number(row[key]) for key in ("log_likelihood", "bic", "frequency")}
            coefficients = row["coefficient"].dropna("term").to_series().to_dict()
            plain = {"terms": row["terms"].item(), "linear": bool(row["linear"])}
            rows.append({**plain, **numbers, "coefficients": coefficients})
        return {
            "sentence": self.sentence,
            "terms": list(self.terms),
            "candidates": rows,
            "inclusion": {str(t): _number(v) for t, v in self.inclusion.to_series().items()},
        }

    def __repr__(self) -> str:
        """The sentence and the table."""
        lines = ["  ".join(c.rjust(w) for c, w in zip(r, WIDTHS, strict=True)) for r in self._rows]
        return "\n".join([f"Discovery: {self.sentence}", *(f"  {line}" for line in lines)])

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        header, *rows = self._rows
        return table_html("Discovery", [self.sentence], header, rows, [])

    @property
    def _rows(self) -> list[list[str]]:
        out = [["terms", "log-likelihood", "BIC", "chosen"]]
        for row in self.to_dict()["candidates"][:ROWS]:
            height, share = row["log_likelihood"], row["frequency"]
            shown = "" if height is None else f"{height:.1f}"
            chosen = "" if share is None else f"{100 * share:.0f} %"
            out.append([row["terms"], shown, f"+{row['bic']:.1f}", chosen])
        return out


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def discover(
    data: Any,
    domain: AbstractDomain,
    n_modes: int | str = "auto",
    library: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    *,
    noise: str = "parametric",
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
    """Learn which terms a field obeys, and its law with them.

    The whole library is fitted once; its curvature ranks all subsets by the Bayesian information
    criterion, and the best few, and the best linear law, are fitted themselves.

    Args:
        data: fields, as `spdelaw.fit` takes them, with or without gaps.
        domain: where they live.
        n_modes: modes of the law, or "auto".
        library: names of terms to choose from, such as ("u", "u^2", "u^3"); by default powers up
            to 3, and products of first derivatives where the domain has them. Of several fields
            by field, ``{"u": ("u", "v", "u v^2"), "v": (...)}``.
        noise: "parametric", ``scale n^-exponent``, or "diagonal", one variance per mode.
        observation_noise: as `spdelaw.Model` has it: "auto", "none", "estimate", or known.
        fixed: values to hold, such as ``{"nu": 0.05}``.
        prepare: `spdelaw.Preparation` of the data.
        level: of the intervals.
        bootstrap: resampled records that say how sure the choice is.
        seed: of these.
        method: "closure", "one_pass" (many modes of several fields) or "auto".
        scheme: "exact", or "semi_implicit" for complete fields that this scheme made.
        words: of the data (`spdelaw.as_fields`).

    Returns:
        A `Discovery`: ``terms``, ``table``, ``law``.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> equation = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(61))
        >>> fields = sl.simulate(equation, 10, seed=2)
        >>> found = sl.discover(fields, equation.domain, 5, library=("u", "u^2", "u^3"))
        >>> found.terms
        ('u', 'u^3')
    """
    whole("bootstrap", bootstrap, 0)
    for name in words:
        one_of("keyword", name, ADAPTER)
    check_domain(domain)
    library, domain, n_modes = by_field("library", library, domain, n_modes)
    if library is not None:
        check_term_names("library", library)
    names = check_library(library, domain)  # type: ignore[arg-type]
    chooser = Chooser(names, method, scheme, bootstrap, whole("seed", seed, 0))
    held = {**({"kappa": 0.0} if "u" in names else {}), **(fixed or {})}
    asked = {"noise": noise, "observation_noise": observation_noise, "fixed": held}
    law = fit(data, domain, n_modes, engine=chooser, level=level, prepare=prepare, **asked, **words)
    (found,) = chooser.found
    result = Discovery(law.dynamics.terms, law, *found)  # type: ignore[attr-defined]
    return dataclasses.replace(result, law=law.with_info(discovery=result.to_dict()))


@dataclasses.dataclass(frozen=True)
class Chooser(SemilinearEngine):
    """Fit of a whole library; table and inclusion of what is chosen from it go to ``found``."""

    bootstrap: int = 0
    seed: int = 0
    found: list[tuple[xr.Dataset, xr.DataArray]] = dataclasses.field(default_factory=list)

    def seen(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model
    ) -> tuple[Sight, SemilinearFit]:
        """What is seen of the fields, and the fit of the chosen terms to it."""
        _check_enough(observed, self.terms)
        sight, whole_fit = super().seen(observed, domain, n_modes, model)
        words, known = self.words(model), whole_fit.diagnostics
        if "burn" in known:  # candidates are judged by the same numbers: those after one burn-in
            words["burn"] = known["burn"]

        def again(terms: tuple[str, ...]) -> SemilinearFit:
            return sight.fit(terms, words)

        chosen, table, inclusion = select(whole_fit, again, self.bootstrap, self.seed)
        self.found.append((table, inclusion))
        return sight, chosen


def _check_enough(observed: Observed, library: Sequence[str]) -> None:
    need, got = PER_TERM * len(library), observed.n_paths * (observed.times.shape[-1] - 1)
    if got < need:
        expected = f"at least {need} transitions to choose from {len(library)} terms"
        got = f"{got} of {observed.n_paths} paths"
        fix = "bring longer records or more paths, or a smaller library"
        raise DataError("data", expected=expected, got=got, fix=fix)
