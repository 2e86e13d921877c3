"""Learn the law of a stochastic PDE from observed space-time fields.

The public names are listed in ``__all__``; everything else may change. They are loaded when the
first of them is used, so that the shell can answer before NumPy and xarray are there.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from spdelaw import _moved
from spdelaw._version import __version__ as __version__

if TYPE_CHECKING:
    from spdelaw._public import *  # noqa: F403

_moved.install()


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _public = importlib.import_module("spdelaw._public")  # "from spdelaw import" would ask here
    public_names = {key: getattr(_public, key) for key in _public.__all__}
    globals().update(public_names, __all__=["__version__", *public_names])
    if name not in globals():  # nor a folder of the package, which is there by now
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))  # what completion shows: public names alone
