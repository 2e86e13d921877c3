"""Scores of forecasts by lead: the law beside its rivals, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spdelaw.checks import instance, one_of
from spdelaw.evaluation import SCORES, Skill
from spdelaw.report._style import CLOSED_FORM, COLUMN, GREY, SAMPLE, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, and marks that differ in black and white too.
LOOKS = {
    "law": (SAMPLE, "o"),
    "climatology": (GREY, "s"),
    "persistence": ("#E69F00", "^"),
    "damped persistence": (CLOSED_FORM, "v"),
    "LIM": ("#009E73", "D"),
}
#: Names of the panels.
NAMES = {"rmse": "RMSE", "crps": "CRPS", "log_score": "log score [nats]"}
#: Half the width that the predictors of a lead take, relative to the smallest gap of leads.
ROOM = 0.08


def plot_skill(found: Skill, score: str | None = None) -> Figure:
    """Draw RMSE and CRPS by lead, or one score, with an interval for each predictor.

    Args:
        found: from `spdelaw.skill`.
        score: one of "rmse", "crps", "log_score", "coverage_50", "coverage_80", "coverage_95".

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> from spdelaw.report import plot_skill
        >>> calm = sl.catalogue.heat(n_modes=2, initial="stationary")
        >>> one = sl.simulate(calm, 1, np.linspace(0, 20, 101), np.linspace(0, np.pi, 9), seed=0)
        >>> figure = plot_skill(sl.skill(one, calm.domain, 2, leads=(1, 3), refits=1))
        >>> [ax.get_ylabel() for ax in figure.axes]
        ['RMSE', 'CRPS']
    """
    instance("found", found, Skill, "pass what sl.skill returned")
    scores = ("rmse", "crps") if score is None else (one_of("score", score, SCORES),)
    with style():
        figure = new_figure(1.25 * COLUMN * len(scores))
        panels = np.atleast_1d(figure.subplots(1, len(scores)))
        for ax, name in zip(panels, scores, strict=True):
            _panel(ax, found, name)
        panels[0].legend(loc="best")
    return figure


def _panel(ax: Axes, found: Skill, score: str) -> None:
    rows = found.score(score)
    leads = rows.lead.values.astype(float)
    room = ROOM * (float(np.diff(leads).min()) if len(leads) > 1 else 1.0)
    aside = np.linspace(-room, room, rows.sizes["predictor"])
    for shift, name in zip(aside, rows.predictor.values, strict=True):
        value, low, high = rows.sel(predictor=name).values.T
        colour, mark = LOOKS.get(str(name), (GREY, "x"))
        ax.errorbar(
            leads + shift, value, [np.maximum(value - low, 0), np.maximum(high - value, 0)],
            color=colour, marker=mark, markersize=4, linewidth=1.2, elinewidth=0.9, label=str(name),
        )  # fmt: skip
    if score.startswith("coverage"):
        wanted = int(score.split("_")[1])
        ax.axhline(wanted / 100, color=GREY, linestyle=":", linewidth=0.9)
    unit = found.about["units"]
    shown = NAMES.get(score, f"share inside {score.split('_')[-1]} % interval")
    in_units = f" [{unit}]" if unit and score in ("rmse", "crps") else ""
    ax.set(xlabel="lead [steps]", ylabel=shown + in_units, xticks=leads)
