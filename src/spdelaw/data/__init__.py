"""OBSERVED: the data contract, files, splits and masks; NaN is missing."""

from spdelaw.data._clock import from_dates, on_clock, to_dates
from spdelaw.data._contract import as_fields
from spdelaw.data._describe import describe
from spdelaw.data._files import has_fields, read, read_dataset, write
from spdelaw.data._fingerprint import fingerprint
from spdelaw.data._guess import guess_boundary, guess_layout, guess_unit
from spdelaw.data._mask import mask
from spdelaw.data._prepare import Preparation, Prepared
from spdelaw.data._regular import read_regular, refuse_special
from spdelaw.data._split import split
from spdelaw.data._stack import stack
from spdelaw.data._zarr import check_replaceable, replace_store

__all__ = [
    "Preparation",
    "Prepared",
    "as_fields",
    "check_replaceable",
    "describe",
    "fingerprint",
    "from_dates",
    "guess_boundary",
    "guess_layout",
    "guess_unit",
    "has_fields",
    "mask",
    "on_clock",
    "read",
    "read_dataset",
    "read_regular",
    "refuse_special",
    "replace_store",
    "split",
    "stack",
    "to_dates",
    "write",
]
