"""Fields as hyper shows them: in bytes, and values of one name as a list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias, TypeVar, overload

Text: TypeAlias = str | bytes
Default = TypeVar("Default")

_WHOLE: Final = frozenset(
    {
        b"date",
        b"expires",
        b"last-modified",
        b"location",
        b"proxy-authenticate",
        b"retry-after",
        b"server",
        b"set-cookie",
        b"set-cookie2",
        b"user-agent",
        b"www-authenticate",
    }
)
"""Fields that are no lists, or whose members have commas of their own (RFC 9110 §5.6.1)."""
_members = re.compile(rb'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+').findall


class HTTPHeaderMap:
    """Fields by name, in any case: `headers[b"vary"]` is a list of bytes, members of lists apart.

    It iterates over pairs of a name in lower case and one value; `iter_raw` gives what was sent.
    """

    def __init__(self, pairs: Iterable[tuple[Text, Text]] = ()) -> None:
        self._pairs = [(_bytes(name), _bytes(value)) for name, value in pairs]

    def __getitem__(self, name: Text) -> list[bytes]:
        key = _bytes(name).lower()
        found = [value for own, value in self if own == key]
        if not found:
            raise KeyError(name)
        return found

    def __setitem__(self, name: Text, value: Text) -> None:
        """Add a field: those of the same name stay."""
        self._pairs.append((_bytes(name), _bytes(value)))

    def __delitem__(self, name: Text) -> None:
        self[name]
        key = _bytes(name).lower()
        self._pairs = [pair for pair in self._pairs if pair[0].lower() != key]

    def __contains__(self, name: Text) -> bool:
        key = _bytes(name).lower()
        return any(own.lower() == key for own, _ in self._pairs)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        for name, value in self._pairs:
            key = name.lower()
            if key in _WHOLE:
                yield key, value
            else:
                for member in _members(value) or [value]:
                    yield key, member.strip()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Name and value of each, as iteration gives them."""
        return iter(self)

    def keys(self) -> Iterator[bytes]:
        """The name of each: one that has several values comes several times."""
        return (name for name, _ in self)

    def values(self) -> Iterator[bytes]:
        """The value of each."""
        return (value for _, value in self)

    @overload
    def get(self, name: Text) -> list[bytes] | None: ...
    @overload
    def get(self, name: Text, default: Default) -> list[bytes] | Default: ...
    def get(self, name: Text, default: Default | None = None) -> list[bytes] | Default | None:
        """The values of a name, or `default`."""
        try:
            return self[name]
        except KeyError:
            return default

    def iter_raw(self) -> Iterator[tuple[bytes, bytes]]:
        """The fields as they came."""
        return iter(self._pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HTTPHeaderMap) and self._pairs == other._pairs

    __hash__ = None  # type: ignore[assignment] # it changes

    def __repr__(self) -> str:
        return f"HTTPHeaderMap({self._pairs!r})"


def _bytes(text: Text) -> bytes:
    return text.encode("latin-1") if isinstance(text, str) else text
