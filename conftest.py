"""What tests and the examples in docstrings share."""

import os

# Before NumPy loads its BLAS: one thread per worker, as in the Makefile.
for _name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest  # noqa: E402


@pytest.fixture(autouse=True)
def _own_directory(request, monkeypatch, tmp_path_factory):
    """Examples in docstrings write into a directory of their own, never into the checkout."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path_factory.mktemp("doctest"))
