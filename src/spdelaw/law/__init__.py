"""RESULT: the law with its uncertainty, and what follows from it."""

from spdelaw.law._accessor import register_accessor
from spdelaw.law._chaos import N_TIME, chaos_posterior
from spdelaw.law._coordinate_root import coordinate_root
from spdelaw.law._divergence import relative_l2, rmse
from spdelaw.law._document import coordinates_dataset
from spdelaw.law._law import Law, state_space_law
from spdelaw.law._lazy import Unread, by_paths, in_paths, joined
from spdelaw.law._lazy_times import in_parts, is_record, parts_of
from spdelaw.law._likelihood import Numbers, density_entries, log_density, statistics_density
from spdelaw.law._load import load
from spdelaw.law._observations import (
    VALUE_NOISE,
    blocks_of,
    modes_at,
    noise_at,
    noisy_state_space,
    seen_by,
    started,
    undriven,
    variance_floor,
    weights_of,
)
from spdelaw.law._parameters_table import Quantity, interval_table, parameters_dataset
from spdelaw.law._provenance import Provenance, software
from spdelaw.law._rest import Rest
from spdelaw.law._states import batches, smooth_fields
from spdelaw.law._store import check_replaceable
from spdelaw.law._user_units import next_times, response, to_user, wanted_times

__all__ = [
    "N_TIME",
    "VALUE_NOISE",
    "Law",
    "Numbers",
    "Provenance",
    "Quantity",
    "Rest",
    "Unread",
    "batches",
    "blocks_of",
    "by_paths",
    "chaos_posterior",
    "check_replaceable",
    "coordinate_root",
    "coordinates_dataset",
    "density_entries",
    "in_parts",
    "in_paths",
    "interval_table",
    "is_record",
    "joined",
    "load",
    "log_density",
    "modes_at",
    "next_times",
    "noise_at",
    "noisy_state_space",
    "parameters_dataset",
    "parts_of",
    "register_accessor",
    "relative_l2",
    "response",
    "rmse",
    "seen_by",
    "smooth_fields",
    "software",
    "started",
    "state_space_law",
    "statistics_density",
    "to_user",
    "undriven",
    "variance_floor",
    "wanted_times",
    "weights_of",
]
