"""One card: errors by task, distance of the law, and whether the model fits."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import checked, one_of
from spdelaw.data.observed import Observed
from spdelaw.domains.base import table_html
from spdelaw.evaluation.checks.impact import TASKS_WITH_RIVALS, Impact, impact_of
from spdelaw.evaluation.checks.suite import is_training
from spdelaw.evaluation.checks.verdict import ModelCheck, check_observed, describe_check
from spdelaw.evaluation.rivals import rival_predictions
from spdelaw.evaluation.scores import to_plain
from spdelaw.evaluation.tasks import (
    TIERS,
    TierScore,
    law_distance,
    mean_predictor,
    projection_floor,
    score_tier,
)
from spdelaw.law.law import Law
from spdelaw.law.observations import for_training_data, less_response
from spdelaw.law.prediction import in_parts
from spdelaw.processes.linear import Linear
from spdelaw.processes.spde import SpectralSPDE

#: Answers to "does the model fit these data, and does it matter?"
ANSWERS = ("fits", "departs but predictions hold", "departs, do not rely on it")
RIVALS_BY_TIER = dict.fromkeys(TASKS_WITH_RIVALS, rival_predictions)


@dataclasses.dataclass(frozen=True, repr=False)
class Scorecard:
    """Result of `evaluate`.

    Attributes:
        tiers: scores by task.
        limits: the score of the best possible method, if it is known: the projection on the modes
            for "reconstruct", the exact mean of the truth for "predict".
        check: tests of the model on these data.
        distance: distance between the law and the truth, if a truth was passed.
        n_paths: paths that were scored.
        level: of the intervals behind ``coverage``.
        impact: errors of predictions of held-out values; None if no task holds values out.
    """

    tiers: dict[str, TierScore]
    limits: dict[str, TierScore]
    check: ModelCheck
    distance: dict[str, Any] | None
    n_paths: int
    level: float
    impact: Impact | None = None

    @property
    def answer(self) -> str:
        """One of `ANSWERS`; "departs" where no held-out values were scored."""
        if not self.check.is_checked:
            return "not checked"
        if self.check.fits:
            return "fits"
        if self.impact is None:
            return "departs"
        hold = self.impact.predictions_hold
        return "departs but predictions hold" if hold else "departs, do not rely on it"

    @property
    def verdict(self) -> str:
        """Does the model fit these data, and does it matter, in one line."""
        hold = self.impact is None or self.impact.predictions_hold
        if self.impact is None or not self.check.is_checked or (self.check.fits and hold):
            return self.check.verdict
        if self.check.fits:  # bands of a law with terms are Gaussian; little data give a poor law
            return f"{self.check.verdict}; but {self.impact}"
        matters = "its predictions hold" if hold else "do not rely on its predictions"
        return f"{self.check.verdict}; {matters}: {self.impact}"

    @property
    def advice(self) -> list[str]:
        """What to try, the most useful first; empty if the model fits."""
        return self.check.advice

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, ready for JSON; numbers that do not exist are None."""
        limits = {tier: limit._asdict() for tier, limit in self.limits.items()}
        tiers = {
            tier: score._asdict() | {"limit": limits.get(tier)}
            for tier, score in self.tiers.items()
        }
        document = {
            "n_paths": self.n_paths,
            "level": self.level,
            "tiers": tiers,
            "model_check": describe_check(self.check),
            "law": self.distance,
            "answer": self.answer,
            "impact": None if self.impact is None else self.impact.to_dict(),
            "verdict": self.verdict,
            "advice": self.advice,
        }
        return to_plain(document)

    def to_dataset(self) -> xr.Dataset:
        """Scores over ``tier`` as a table."""
        names = TierScore._fields
        data = {n: ("tier", [getattr(s, n) for s in self.tiers.values()]) for n in names}
        return xr.Dataset(data, coords={"tier": list(self.tiers)})

    def __repr__(self) -> str:
        """A table for people."""
        head = (
            f"{'tier':<12} {'rel L2':>9} {'RMSE':>9} {'CRPS':>9} {'coverage':>9}   limit (rel L2)"
        )
        rows = [
            f"{row[0]:<12} " + " ".join(f"{cell:>9}" for cell in row[1:5]) + f"   {row[5]}"
            for row in self._rows
        ]
        return "\n".join([self._title, head, *rows, *self._notes])

    def _repr_html_(self) -> str:
        """The same table for notebooks."""
        header = ["tier", "rel L2", "RMSE", "CRPS", "coverage", "limit (rel L2)"]
        return table_html(self._title, [], header, self._rows, self._notes)

    @property
    def _title(self) -> str:
        return f"Scorecard of {self.n_paths} paths, {100 * self.level:g} % intervals"

    @property
    def _rows(self) -> list[list[str]]:
        """Cells of the table, one row per tier."""
        rows = []
        for tier, s in self.tiers.items():
            limit = f"{self.limits[tier].relative_l2:.4f}" if tier in self.limits else ""
            rows.append([tier, *map(_format_number, s[:3]), f"{s.coverage:.3f}", limit])
        return rows

    @property
    def _notes(self) -> list[str]:
        """Distance from the truth, where that is given, the verdict and what to try."""
        lines = [self.verdict, *(f"- {line}" for line in self.advice)]
        if self.distance is None:
            return lines
        d = self.distance
        undetermined = f", {d['n_undetermined']} undetermined" if d["n_undetermined"] else ""
        distance = (
            f"law: KL per path {d['kl_per_path']:.4g} (limit p/2M {d['kl_limit']:.4g}), "
            f"largest error {d['largest_z']:.2f} standard errors{undetermined}"
        )
        return [distance, *lines]


@checked()
def evaluate(
    law: Law,
    data: Any,
    truth: SpectralSPDE | None = None,
    *,
    tiers: tuple[str, ...] = TIERS,
    max_paths: int = 200,
    seed: int = 0,
    level: float = 0.95,
    **adapter: Any,
) -> Scorecard:
    """Evaluate a law on data, preferably on data that were not used in the fit.

    The verdict answers two questions: is there a departure (joint false-alarm rate 1 %), and does
    it matter for predictions of held-out values? If the law has a preparation, the scores are those
    of the prepared fields. One long lazy record is scored in blocks of times; the model is checked
    on as many of them as fit into memory.

    Args:
        law: the law.
        data: fields in any form that `spdelaw.fit` takes, with at least two times; NaN for missing.
        truth: the equation behind simulated data, for the distance of the laws.
        tiers: tasks to score, of "reconstruct", "predict", "forecast" and "gaps".
        max_paths: score at most this many paths.
        seed: of the values held out by "gaps".
        level: of the intervals.
        adapter: ``times`` and ``points`` of a bare array, as of `spdelaw.Law.observe`.

    Returns:
        A `Scorecard`; print it, or take `Scorecard.to_dict`.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> equation = sl.catalogue.heat(n_modes=3)
        >>> train, test = sl.split(sl.simulate(equation, 120, seed=0), (0.8, 0.2), seed=0)
        >>> law = sl.fit(train, domain=sl.Interval(0, np.pi), n_modes=3)
        >>> sl.evaluate(law, test, truth=equation).verdict
        'the model fits: no departure found in the innovations (joint false-alarm rate 1 %)'
    """
    for tier in tiers:
        one_of("tiers", tier, TIERS)
    observed = law.observe(data, **adapter)
    if observed.n_paths > max_paths:  # no more of them is read than is scored
        observed = observed.paths(slice(max_paths))
    observed = _data_to_score(law, observed)
    on_training_data = is_training(law, observed.at_observed_times())
    law = for_training_data(law) if on_training_data else law
    observed = less_response(law, observed)
    scored = observed.at_observed_times()
    distance = None if truth is None else law_distance(law, truth)
    if truth is not None:
        truth = _as_prepared(truth, law)
    whole, law = law, law.without_preparation_and_mean
    scale = float(np.sqrt(np.nanmean(scored.values**2)))
    results = {
        tier: score_tier(law, scored, tier, seed, level, scale, RIVALS_BY_TIER.get(tier))
        for tier in tiers
    }
    held_out = {tier: table for tier, (_, table) in results.items() if tier != "reconstruct"}
    return Scorecard(
        {tier: score for tier, (score, _) in results.items()},
        _limits(law, scored, truth, tiers),
        check_observed(law, observed, whole, on_training_data),
        distance,
        observed.n_paths,
        level,
        impact_of(held_out),
    )


def _format_number(x: float) -> str:
    """Four decimals, or four digits where these would be too few or too many."""
    return f"{x:.4f}" if 0.01 <= abs(x) < 1e5 or x == 0 or not np.isfinite(x) else f"{x:.4g}"


def _data_to_score(law: Law, observed: Observed) -> Observed:
    """Data to score: paths are smoothed whole, four times; one long record stays where it is."""
    return (
        observed.surveyed() if in_parts(law, observed) else observed.in_memory()
    ).at_observed_points()


def _limits(
    law: Law, observed: Observed, truth: SpectralSPDE | None, tiers: tuple[str, ...]
) -> dict[str, TierScore]:
    limits = {}
    noisy = bool(law.observation_variance.any())
    if "reconstruct" in tiers and not noisy:
        limits["reconstruct"] = projection_floor(observed, law)
    if "predict" in tiers and truth is not None and not observed.has_own_clocks:
        limits["predict"] = mean_predictor(observed, truth)
    return limits


def _as_prepared(truth: SpectralSPDE, law: Law) -> SpectralSPDE:
    """The truth of prepared fields: without the forcing, and less the mean, of the law."""
    truth = truth.unforced if law.forcing is not None else truth
    mean = law.dynamics.mean if isinstance(law.dynamics, Linear) else None
    if mean is None:
        return truth
    centre = np.zeros(truth.n_modes) if truth.centre is None else truth.centre
    n = min(len(mean), truth.n_modes)
    return dataclasses.replace(truth, centre=centre - np.pad(mean[:n], (0, truth.n_modes - n)))
