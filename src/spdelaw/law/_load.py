"""A law from its directory."""

from __future__ import annotations

from pathlib import Path

from spdelaw.errors import FileError, SpdeLawError
from spdelaw.law._check import check_law
from spdelaw.law._document import from_document
from spdelaw.law._law import Law
from spdelaw.law._provenance import check_entries
from spdelaw.law._store import read_law


def load(path: str | Path) -> Law:
    """Load a law that `Law.save` wrote.

    Example:
        >>> import numpy as np, spdelaw as sl, tempfile, pathlib
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=20, seed=0)
        >>> law = sl.fit(data, domain=sl.Interval(0, np.pi), n_modes=2)
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> law.save(folder / "heat.law")
        >>> bool(load(folder / "heat.law").parameters.equals(law.parameters))
        True
    """
    try:
        document, arrays, table = read_law(Path(path))
        check_entries(document["info"])
        law = Law(**from_document(document, arrays), parameters=table)
        check_law(law)
        return law
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        if isinstance(error, SpdeLawError):
            raise
        got, fix = f"{type(error).__name__}: {error}", "fit again; the directory is damaged"
        raise FileError(str(path), expected="a complete law", got=got, fix=fix) from error
