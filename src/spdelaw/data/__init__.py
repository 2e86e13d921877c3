"""The data contract: fields, files, preparation; NaN is missing."""

from spdelaw.data.fields import as_fields, stack
from spdelaw.data.io.files import read, write
from spdelaw.data.io.tables import from_table
from spdelaw.data.observed import Observed, observe
from spdelaw.data.prepare import Preparation
from spdelaw.data.splits import mask, split
from spdelaw.data.summary import describe

__all__ = [
    "Observed",
    "Preparation",
    "as_fields",
    "describe",
    "from_table",
    "mask",
    "observe",
    "read",
    "split",
    "stack",
    "write",
]
