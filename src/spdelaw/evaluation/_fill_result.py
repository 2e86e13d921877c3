"""What filling gives back: mean and deviation under the names of the data, and who was chosen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data import OBSERVATION_STD, Observed
from spdelaw.evaluation._fill_choice import LEVELS, Record, Trial
from spdelaw.evaluation._fill_predict import Moments
from spdelaw.law import Law, to_user

Array = np.ndarray


class Filled(NamedTuple):
    """A filled record, the law that filled it, and how it was chosen."""

    data: xr.Dataset
    law: Law
    trials: list[Trial]


def shown(
    moments: Moments, best: Trial, values: Array, smooth: bool, everywhere: bool, known: Array
) -> tuple[Array, Array]:
    """Mean and deviation as asked for; NaN where nobody ever saw a value, unless wanted."""
    mean, std = moments.mean.copy(), np.sqrt(moments.variance(best.settings))
    seen = np.isfinite(values)
    if smooth:
        std[seen] = np.sqrt(moments.state)[seen]
    else:
        mean[seen], std[seen] = values[seen], 0.0
    if not everywhere:
        mean[..., ~known], std[..., ~known] = np.nan, np.nan
    return mean, std


def labelled(mean: Array, std: Array, law: Law, own: Observed) -> xr.Dataset:
    """Mean and deviation with the dates, names and attributes of the data."""
    dims, both = ("path", "time", *own.places.dims), {"mean": mean, "std": std}
    table = {name: (dims, own.places.unflatten(values)) for name, values in both.items()}
    return named(xr.Dataset(table), law, own)


def named(table: xr.Dataset, law: Law, own: Observed) -> xr.Dataset:
    """Results on the places of the data under their names."""
    coords = {k: v for k, v in own.labelled.coords.items() if k != OBSERVATION_STD}
    table = table.assign_coords(coords)
    bare = law.bare.with_info(labels=law.info.get("labels", {}))
    result = to_user(bare, table, own.dated, own.fields)
    result.attrs.pop("observation_std", None)
    return result


def described(result: xr.Dataset, trials: list[Trial], record: Record) -> xr.Dataset:
    """The result with the trials, and a sentence about them."""
    names = [f"{t.candidate}, rest {t.rest}" for t in trials]
    result = result.assign(
        held_out_rmse=("candidate", [t.rmse for t in trials]),
        held_out_crps=("candidate", [t.crps for t in trials]),
        held_out_coverage=(("candidate", "level"), [list(t.coverage) for t in trials]),
        candidate_seconds=("candidate", [t.seconds for t in trials]),
        candidate_note=("candidate", np.array([t.note for t in trials])),
    ).assign_coords(candidate=np.array(names), level=list(LEVELS))
    return result.assign_attrs(_attrs(trials, record))


def _attrs(trials: list[Trial], record: Record) -> dict[str, Any]:
    best, held = trials[0], int(np.isfinite(record.truth).sum())
    crps = [t.crps for t in trials if np.isfinite(t.crps)]
    tried, least = len(crps), min(crps, default=np.inf)
    why = "least CRPS" if best.crps <= least else f"fewest modes near the least CRPS ({least:.4g})"
    sentence = (
        f"{best.candidate}, rest {best.rest}: {why} of {tried} candidates on {held} values "
        f"held out as gaps lie (RMSE {best.rmse:.4g}, CRPS {best.crps:.4g})"
    )
    late = sum(1 for t in trials if t.note.startswith("not tried"))
    if late:
        sentence += f"; {late} larger ones were not tried for want of time"
    return {"title": "Gaps filled by a learned law", "chosen_by": sentence, "held_out": held}
