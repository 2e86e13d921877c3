"""Names under ``law.`` that later stages and other packages add."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from spdelaw.errors import InputError
from spdelaw.law._law import Law


def register_accessor(name: str) -> Callable[[type], type]:
    """Make ``law.name`` an instance of the decorated class, which takes the law.

    For later stages and other packages, as xarray's accessors are.

    Example:
        >>> from spdelaw.law import Law, register_accessor
        >>> @register_accessor("size")
        ... class Size:
        ...     def __init__(self, law):
        ...         self.modes = law.n_modes
        >>> isinstance(Law.size, property)
        True
        >>> del Law.size
    """

    def register(cls: type) -> type:
        taken = {field.name for field in dataclasses.fields(Law)}
        if not name.isidentifier() or hasattr(Law, name) or name in taken:
            fix = "choose another name"
            raise InputError("name", expected="a free name", got=repr(name), fix=fix)
        setattr(Law, name, property(cls))
        return cls

    return register
