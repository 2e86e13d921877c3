"""Version of the package, kept apart so that every room may name it."""

__version__ = "0.2.0.dev0"
