"""OBSERVED: the data contract, files, splits and masks; NaN is missing."""

from spdelaw.data._blocks import Here, Place, is_lazy, over_blocks, place_of
from spdelaw.data._calendar import go_on, step_of
from spdelaw.data._clock import from_dates, has_dates, on_clock, to_dates
from spdelaw.data._contract import as_fields, canonical, check_values
from spdelaw.data._describe import describe
from spdelaw.data._files import has_fields, read, read_dataset, read_raw, write
from spdelaw.data._fingerprint import checksum, fingerprint
from spdelaw.data._guess import guess_layout, guess_variable, scattered_places
from spdelaw.data._guess_domain import guess_boundary, guess_domain, guess_side, guess_unit
from spdelaw.data._labels import labels_of, restore_names
from spdelaw.data._layout import infer_dims
from spdelaw.data._mask import mask
from spdelaw.data._observe import (
    ADAPTER,
    check_not_filled,
    check_times,
    observe,
    observed_fields,
)
from spdelaw.data._observed import Observed, check_change
from spdelaw.data._own_clock import extended_clocks, own_clock
from spdelaw.data._pieces import Pieces, pieces_of, slices_of
from spdelaw.data._prepare import Preparation, Prepared, learn_map
from spdelaw.data._reading import Reading
from spdelaw.data._regular import read_regular, refuse_special
from spdelaw.data._split import split
from spdelaw.data._stack import stack
from spdelaw.data._survey import Survey, in_time, look, of_both
from spdelaw.data._suspect import check_plausible, hints, suspect_fills
from spdelaw.data._table import Columns, from_table
from spdelaw.data._table_file import is_table
from spdelaw.data._value_noise import OBSERVATION_STD, value_noise, with_value_noise
from spdelaw.data._zarr import check_replaceable, replace_store

__all__ = [
    "ADAPTER",
    "OBSERVATION_STD",
    "Columns",
    "Here",
    "Observed",
    "Pieces",
    "Place",
    "Preparation",
    "Prepared",
    "Reading",
    "Survey",
    "as_fields",
    "canonical",
    "check_change",
    "check_not_filled",
    "check_plausible",
    "check_replaceable",
    "check_times",
    "check_values",
    "checksum",
    "describe",
    "extended_clocks",
    "fingerprint",
    "from_dates",
    "from_table",
    "go_on",
    "guess_boundary",
    "guess_domain",
    "guess_layout",
    "guess_side",
    "guess_unit",
    "guess_variable",
    "has_dates",
    "has_fields",
    "hints",
    "in_time",
    "infer_dims",
    "is_lazy",
    "is_table",
    "labels_of",
    "learn_map",
    "look",
    "mask",
    "observe",
    "observed_fields",
    "of_both",
    "on_clock",
    "over_blocks",
    "own_clock",
    "pieces_of",
    "place_of",
    "read",
    "read_dataset",
    "read_raw",
    "read_regular",
    "refuse_special",
    "replace_store",
    "restore_names",
    "scattered_places",
    "slices_of",
    "split",
    "stack",
    "step_of",
    "suspect_fills",
    "to_dates",
    "value_noise",
    "with_value_noise",
    "write",
]
