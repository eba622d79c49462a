"""Content as text: its encoding, and its lines."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

_CHARSET: Final = re.compile(r';\s*charset\s*=\s*"?([^\s;"]+)', re.IGNORECASE)
DEFAULT: Final = "utf-8"
"""The encoding of content that names none."""
DefaultEncoding: TypeAlias = "str | Callable[[bytes], str | None]"
"""That of a client: one encoding, or a function that guesses it from the whole content."""
_NOT_OF_CONTENT: Final = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}
)
"""Encodings that Python has for names and for its own source, some of which replace no errors."""

BOM: Final = "\ufeff"
"""The mark that some programs begin UTF-8 with, which is no part of JSON."""


def charset(content_type: str) -> str | None:
    """The encoding that a `content-type` names, where Python knows it."""
    found = _CHARSET.search(content_type)
    return None if found is None else known(found[1])


def known(name: str) -> str | None:
    """Python's name of an encoding of content; None where it has none."""
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    # Python's codecs between bytes and bytes, such as hex, are looked up by the same function.
    is_text = getattr(codec, "_is_text_encoding", True)
    return codec.name if is_text and codec.name.replace("_", "-") not in _NOT_OF_CONTENT else None


def checked(default: DefaultEncoding) -> DefaultEncoding:
    """The default encoding of a client.

    Raises:
        ValueError: Python knows no such encoding.
        TypeError: it is neither text nor a function.
    """
    if callable(default):
        return default
    if not isinstance(default, str):
        raise TypeError(
            f"default_encoding={default!r}: give the name of an encoding, or a function that"
            " guesses it from the content"
        )
    if known(default) is None:
        raise ValueError(f"default_encoding={default!r}: Python knows no such encoding of text")
    return default


def guessed(guess: Callable[[bytes], str | None], content: bytes) -> str:
    """The encoding of all of the content, as a function guesses it; `utf-8` where it knows none.

    Raises:
        TypeError: the guess is neither a name nor None.
    """
    name = guess(content)
    if not isinstance(name, str | None):
        raise TypeError(f"default_encoding={guess!r} gave {name!r}, not an encoding's name or None")
    return (known(name) if name else None) or DEFAULT


class Lines:
    r"""Content that is cut into lines of text, at `\n`, `\r\n` and `\r`, piece by piece."""

    __slots__ = ("_length", "_most", "_parts", "_refuse", "_text")

    def __init__(
        self, encoding: str, most: int | None, refuse: Callable[[], BaseException]
    ) -> None:
        """`encoding` is one of `charset`.

        most: how long a line may be, in characters, each of which was a byte at least; None: of any
            length. A longer line raises what `refuse` gives.
        """
        self._text = io.IncrementalNewlineDecoder(
            codecs.getincrementaldecoder(encoding)(errors="replace"), translate=True
        )
        self._most = most
        self._refuse = refuse
        # The begin of the line that has not ended. Not one string: that would be copied each time.
        self._parts: list[str] = []
        self._length = 0

    def take(self, piece: bytes) -> list[str]:
        """The lines that end in the next piece of content, without their ends."""
        return self._cut(self._text.decode(piece))

    def end(self) -> list[str]:
        """What follows the last end of a line; nothing where nothing does."""
        lines = self._cut(self._text.decode(b"", final=True))
        return [*lines, "".join(self._parts)] if self._length else lines

    def _cut(self, text: str) -> list[str]:
        most = self._most
        longest = self._length + len(text)
        first, *lines = text.split("\n")
        if first:
            self._parts.append(first)
            self._length += len(first)
        if lines:
            lines.insert(0, "".join(self._parts))
            rest = lines.pop()
            self._parts = [rest] if rest else []
            self._length = len(rest)
        if most is not None and longest > most:
            # Only now may one of them be too long.
            longest = max(map(len, lines), default=0)
            if max(longest, self._length) > most:
                raise self._refuse()
        return lines


class JsonLines:
    """Values of lines each of which is JSON: NDJSON, or JSON Lines."""

    __slots__ = ("_number", "_url")

    def __init__(self, url: str) -> None:
        """`url` is for messages."""
        self._url = url
        self._number = 0

    def take(self, lines: Iterable[str]) -> Iterator[Any]:
        """The values of the next lines; blank ones have none.

        Raises:
            ValueError: a line is not JSON.
        """
        from json import loads  # noqa: PLC0415 - most content is none

        for line in lines:
            self._number += 1
            text = line.removeprefix(BOM) if self._number == 1 else line
            if not text or text.isspace():
                continue
            try:
                yield loads(text)
            except ValueError as error:
                raise ValueError(
                    f"line {self._number} of the content of {self._url} is not JSON: {error}"
                ) from error
