"""Show the ``Example:`` of a docstring as code; the parser knows only ``Examples:``."""

import re

import griffe


class ExampleSections(griffe.Extension):
    """Rename the section before the docstring is parsed."""

    def on_instance(self, *, obj, **_):
        """Griffe event: an object was read from the source."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(
                r"^(\s*)Example:[ ]*$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE
            )
