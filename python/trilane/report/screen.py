"""A terminal, which obeys nothing of what it is shown."""

from __future__ import annotations

from collections.abc import Iterable

from rich import console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from trilane import _core


class Console(console.Console):
    """Rich's, but for control characters in titles, names and messages: they are replaced."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As Rich's; styles are no text, and stay."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(_core.for_terminal(segment.text), segment.style)
