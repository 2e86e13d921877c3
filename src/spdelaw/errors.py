"""Errors and warnings of spdelaw.

A message states what was expected, what it got and how to fix it.
"""

from __future__ import annotations

__all__ = [
    "AliasingWarning",
    "ConvergenceError",
    "DataError",
    "DomainError",
    "EquationError",
    "ExecutorError",
    "FileError",
    "IdentifiabilityWarning",
    "InputError",
    "MissingExtraError",
    "SpdeLawError",
    "SpdeLawWarning",
]


class SpdeLawError(Exception):
    """Base of all errors of this package.

    Args:
        what: the argument, variable or file the message is about.
        expected: what would have been accepted.
        got: what was there instead.
        fix: one thing the reader can do now.
    """

    def __init__(self, what: str, *, expected: str, got: str, fix: str) -> None:
        self.what, self.expected, self.got, self.fix = what, expected, got, fix
        super().__init__(f"{what}: expected {expected}, got {got}. Fix: {fix}")

    def __reduce__(self) -> tuple:
        return _rebuild, (type(self), self.what, self.expected, self.got, self.fix)


def _rebuild(cls: type[SpdeLawError], what: str, expected: str, got: str, fix: str) -> SpdeLawError:
    return cls(what, expected=expected, got=got, fix=fix)


class InputError(SpdeLawError, ValueError):
    """An argument of a public function cannot be used."""


class DomainError(InputError):
    """A domain, or points on it, cannot be used."""


class EquationError(InputError):
    """An equation is not well posed or not fully described."""


class DataError(InputError):
    """Fields break the data contract (dims, coordinates, values)."""


class FileError(SpdeLawError, OSError):
    """A file cannot be read or written; nothing was half-written."""

    # OSError.__str__ reads errno attributes; the composed message is what we want.
    __str__ = Exception.__str__


class ConvergenceError(SpdeLawError, RuntimeError):
    """An estimate was not reached; no number is returned rather than a bad one."""


class ExecutorError(SpdeLawError, RuntimeError):
    """The workers of an executor are lost, or lack the memory."""


class MissingExtraError(SpdeLawError, ImportError):
    """An optional dependency is needed; the message pastes the pip line."""

    def __init__(self, feature: str, extra: str) -> None:
        self.feature, self.extra = feature, extra
        SpdeLawError.__init__(
            self,
            feature,
            expected=f"the optional extra '{extra}'",
            got="an environment without it",
            fix=f"pip install 'spdelaw[{extra}]'",
        )

    def __reduce__(self) -> tuple:
        return MissingExtraError, (self.feature, self.extra)


class SpdeLawWarning(UserWarning):
    """Base of all warnings of this package."""


class AliasingWarning(SpdeLawWarning):
    """Energy outside the requested modes leaks into their coefficients."""


class IdentifiabilityWarning(SpdeLawWarning):
    """The data do not distinguish some parameters, or contain no information on one."""
