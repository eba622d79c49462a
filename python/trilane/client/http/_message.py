"""Fields as `http.client` shows them."""

from __future__ import annotations

from http.client import HTTPMessage

__all__ = ["HTTPMessage", "message"]


def message(fields: list[tuple[str, str]]) -> HTTPMessage:
    """A case-insensitive, multi-valued view of `fields`, which it takes as its own.

    The parser of `email` is left out: the fields have been parsed and checked, and it costs more
    than the rest of a response.
    """
    made = HTTPMessage()
    made._headers = fields  # type: ignore[attr-defined] # noqa: SLF001 - as email.message.Message does
    return made
