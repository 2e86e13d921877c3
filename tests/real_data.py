"""Where real data sets lie that are too large for the repository: beside it, or as is said."""

import os
from pathlib import Path

import pytest


def real_file(name: str) -> Path:
    """Path of a real data set: in ``SPDELAW_DATA``, or ``shared/data`` of a folder above this one.

    The test is skipped where there is none.
    """
    above = [folder / "shared" / "data" for folder in Path(__file__).resolve().parents]
    told = [Path(os.environ["SPDELAW_DATA"])] if "SPDELAW_DATA" in os.environ else []
    for folder in [*told, *above]:
        if (folder / name).is_file():
            return folder / name
    pytest.skip(f"needs {name}, in the folder that SPDELAW_DATA names")
