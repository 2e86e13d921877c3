"""Settings of the test suite."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from spdelaw.data import observed

# The same examples in every run: a red test stays red until its cause is mended.
settings.register_profile(
    "spdelaw",
    derandomize=True,
    deadline=None,
    max_examples=50,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("spdelaw")


@pytest.fixture(autouse=True, scope="session")
def _small_lazy_data_stay_lazy():
    """Fits read lazy data of a few megabytes at once; the tests are about larger ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observed, "SMALL_BYTES", 0)
        yield


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The directory that holds pyproject.toml, docs and src."""
    return Path(__file__).resolve().parents[1]
