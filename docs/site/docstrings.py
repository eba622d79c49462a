"""For mkdocstrings: what a docstring says of each argument is a list.

They have a line `name: text` for an argument, which would be read as a section of that name.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Function

_ARGUMENT = re.compile(r"^([a-z_]+(?:, [a-z_]+)*): (?=\S)", re.MULTILINE)


class Arguments(Extension):
    """Makes lines such as `name: text` items of a list."""

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Change the docstring of a function."""
        if func.docstring is not None:
            func.docstring.value = _ARGUMENT.sub(_item, func.docstring.value)


def _item(found: re.Match[str]) -> str:
    names = ", ".join(f"`{name}`" for name in found[1].split(", "))
    return f"- {names}: "
