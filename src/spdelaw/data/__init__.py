"""OBSERVED: the data contract, files, splits and masks; NaN is missing."""

from spdelaw.data._contract import as_fields
from spdelaw.data._describe import describe
from spdelaw.data._files import read, write
from spdelaw.data._fingerprint import fingerprint
from spdelaw.data._mask import mask
from spdelaw.data._split import split
from spdelaw.data._stack import stack

__all__ = ["as_fields", "describe", "fingerprint", "mask", "read", "split", "stack", "write"]
