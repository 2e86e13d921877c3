"""The shell command ``spdelaw``.

Importing this package loads no library: a Ctrl-C while libraries are loaded has to meet `run`.
"""

from spdelaw.cli.entry import main, run

__all__ = ["main", "run"]
