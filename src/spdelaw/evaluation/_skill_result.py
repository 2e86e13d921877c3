"""What `spdelaw.skill` returns: scores by method and lead, forecasts, and how they came about."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import one_of
from spdelaw.domain import table_html
from spdelaw.evaluation._skill_scores import LEVELS, SCORES

#: Scores that the text shows lead by lead.
SHOWN = {"rmse": "RMSE", "crps": "CRPS", "log_score": "log score"}

#: Laws that were tried which the text names, best first.
FEW = 5

#: Part of a rival's mean square error below which a difference is none.
CLEAR = 0.01


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Skill:
    """Scores of a law's forecasts and of its rivals'.

    Attributes:
        table: Dataset with ``estimate``, ``lower`` and ``upper`` over (predictor, lead, score), and
            ``skill`` = 1 - MSE(law) / MSE(method) with ``skill_lower``, ``skill_upper``.
        forecasts: Dataset with ``mean`` and ``std`` (predictor, lead, origin, path, space) of new
            values and ``observed``, in the units of the data.
        n_modes: of the law.
        tried: for each law that was tried, in words, the CRPS of its forecasts of the end of the
            first past, relative to the climatology's; empty where nothing was to be chosen.
        about: origins, fits, domain, rest and units, as plain data.
    """

    table: xr.Dataset
    forecasts: xr.Dataset
    n_modes: int
    tried: dict[str, float]
    about: dict[str, Any]

    def score(self, name: str = "rmse") -> xr.DataArray:
        """One score over (predictor, lead, statistic)."""
        one_of("score", name, SCORES)
        rows = self.table[["estimate", "lower", "upper"]].sel(score=name, drop=True)
        return rows.to_dataarray("statistic").transpose("predictor", "lead", ...).rename(name)

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, ready for JSON; numbers that do not exist are None."""
        table = self.table
        scores = {
            str(m): {
                str(s): [_row(table.sel(predictor=m, score=s, lead=k)) for k in table.lead.values]
                for s in table.score.values
            }
            for m in table.predictor.values
        }
        gains = {
            str(m): [_row(table.sel(predictor=m, lead=k), "skill") for k in table.lead.values]
            for m in table.predictor.values[1:]
        }
        return {
            **self.about,
            "leads": table.lead.values.tolist(),
            "level": table.attrs["level"],
            "n_modes": self.n_modes,
            "tried": dict(self.tried),
            "scores": scores,
            "skill_against": gains,
            "facts": self.facts,
            "verdict": self.verdict,
        }

    @property
    def verdict(self) -> str:
        """Against which rivals the law is ahead or behind at which leads, in one line."""
        t, parts = self.table, []
        for m in t.predictor.values[1:]:
            row = t.sel(predictor=m)
            ahead = t.lead.values[((row.skill_lower > 0) & (row.skill > CLEAR)).values]
            behind = t.lead.values[((row.skill_upper < 0) & (row.skill < -CLEAR)).values]
            words = [f"ahead at lead {_listed(ahead)}"] if len(ahead) else []
            words += [f"behind at lead {_listed(behind)}"] if len(behind) else []
            parts.append(f"{m}: {', '.join(words) or 'no clear difference'}")
        return "law against " + "; ".join(parts)

    @property
    def facts(self) -> list[str]:
        """How the forecasts came about, a line each."""
        a, t = self.about, self.table
        lines = [
            f"{a['n_origins']} origins ({a['origins']}), learned anew {a['n_fits']} times; "
            f"at least {int(t.n_values.min())} values per lead",
            f"law of {self.n_modes} mode{'s' if self.n_modes > 1 else ''} on {a['domain']}, drift "
            f"{a['drift']}, rest {a['rest']}; LIM of {a['patterns']} EOFs",
        ]
        if self.tried:
            best = sorted(self.tried.items(), key=lambda item: item[1])
            words = "; ".join(f"{name}: {value:.3f}" for name, value in best[:FEW])
            more = f"; {len(best) - FEW} more" if len(best) > FEW else ""
            lines.append(f"chosen by held-out CRPS relative to climatology ({words}{more})")
        return lines

    def rows(self, score: str) -> tuple[list[str], list[list[str]]]:
        """Header and rows of one score: a method each, with intervals, by lead."""
        found = self.score(score)
        header = [SHOWN.get(score, score), *(f"lead {k}" for k in found.lead.values)]
        cells = [
            [str(m), *(_cell(v) for v in found.sel(predictor=m).values)]
            for m in found.predictor.values
        ]
        return header, cells

    def coverage_rows(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of the coverage of all methods: 50/80/95 % by lead."""
        t = self.table.estimate
        header = [f"inside {'/'.join(map(str, LEVELS))} %", *(f"lead {k}" for k in t.lead.values)]
        names = [f"coverage_{level}" for level in LEVELS]
        rows = [
            [
                str(m),
                *(
                    "/".join(
                        f"{100 * v:.0f}" for v in t.sel(predictor=m, lead=k, score=names).values
                    )
                    for k in t.lead.values
                ),
            ]
            for m in t.predictor.values
        ]
        return header, rows

    def tables(self) -> list[tuple[list[str], list[list[str]]]]:
        """All that is shown: a table per score, and the coverage."""
        return [*(self.rows(score) for score in SHOWN), self.coverage_rows()]

    @property
    def title(self) -> str:
        """What was forecast, in its unit."""
        unit = f" in {self.about['units']}" if self.about["units"] else ""
        return f"Forecasts of {self.about['variable']}{unit}"

    def __repr__(self) -> str:
        """Tables for people, with the interval of each number."""
        lines = [self.title, *(f"  {fact}" for fact in self.facts)]
        for header, rows in self.tables():
            lines += ["", *_aligned([header, *rows])]
        return "\n".join([*lines, "", self.verdict])

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        parts = [
            table_html(self.title if i == 0 else "", self.facts if i == 0 else [], header, rows, [])
            for i, (header, rows) in enumerate(self.tables())
        ]
        return f"<div>{''.join(parts)}<p>{self.verdict}</p></div>"


def _row(values: xr.Dataset, name: str = "") -> dict[str, float | None]:
    names = {"estimate": name or "estimate"}
    names |= {end: f"{name}_{end}" if name else end for end in ("lower", "upper")}
    found = {key: float(values[old]) for key, old in names.items()}
    return {key: value if np.isfinite(value) else None for key, value in found.items()}


def _cell(values: np.ndarray) -> str:
    estimate, lower, upper = values
    return f"{estimate:.3g} [{lower:.3g}, {upper:.3g}]"


def _listed(leads: np.ndarray) -> str:
    return ", ".join(str(k) for k in leads)


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
