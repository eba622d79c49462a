"""A request's content: what callers may give, and how it is sent, perhaps more than once."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Protocol, TypeAlias, runtime_checkable

BLOCK: Final = 256 * 1024
"""Bytes of one write: what the native part buffers before it waits."""
AT_ONCE: Final = 1024 * 1024
"""Content in memory up to this size is handed over with the request."""
ANNOUNCING: Final = frozenset({"POST", "PUT", "PATCH"})
"""Methods that say `content-length: 0` where they have no content (RFC 9110 §8.6).

Some servers answer 411 without.
"""


@runtime_checkable
class Readable(Protocol):
    """A file, or what reads like one."""

    def read(self, amount: int, /) -> bytes | str:
        """Up to `amount` bytes or characters; nothing at the end."""


Block: TypeAlias = bytes | bytearray | memoryview
Content: TypeAlias = Block | str | Readable | Iterable[Block | str] | None
"""Text is sent in UTF-8. Files are sent from where they stand."""


class Upload:
    """Content that is sent in blocks after the head of the request."""

    __slots__ = ("_content", "_start", "length", "started")

    def __init__(
        self, content: memoryview | Readable | Iterable[Block | str], length: int | None
    ) -> None:
        self._content = content
        self.length = length
        """In bytes, where it is known before."""
        self.started = False
        self._start: int | None = None
        if isinstance(content, Readable):
            # Not every file can tell: a pipe raises, an object of the caller's may lack both.
            with suppress(OSError, AttributeError):
                self._start = content.tell()  # type: ignore[attr-defined]

    @property
    def replayable(self) -> bool:
        """Whether `blocks` can be called (again)."""
        if not self.started or isinstance(self._content, memoryview):
            return True
        if self._start is None:
            return False
        with suppress(OSError, AttributeError):
            return bool(self._content.seekable())  # type: ignore[union-attr]
        return False

    @property
    def is_file(self) -> bool:
        """Whether it is read, which may wait for a disk."""
        return isinstance(self._content, Readable)

    def blocks(self) -> Iterator[Block]:
        """The content from its start; no block is empty. The caller's exceptions pass through."""
        content, again = self._content, self.started
        self.started = True
        if isinstance(content, memoryview):
            return (content[at : at + BLOCK] for at in range(0, content.nbytes, BLOCK))
        if isinstance(content, Readable):
            if again and self._start is not None:
                content.seek(self._start)  # type: ignore[attr-defined]
            return _read(content)
        return (block for block in map(_encoded, content) if len(block))


def upload(content: Content | Upload, method: str) -> tuple[bytes | None, Upload | None]:
    """Content as what goes along with the head, or as what follows it; one of the two is None.

    Raises:
        TypeError: it is none of what `Content` names.
    """
    if content is None:
        return (b"" if method in ANNOUNCING else None), None
    if isinstance(content, str):
        content = content.encode()
    if isinstance(content, bytes | bytearray | memoryview):
        view = memoryview(content)
        if view.nbytes <= AT_ONCE:
            return bytes(view), None
        flat = view.cast("B") if view.contiguous else memoryview(view.tobytes())
        return None, Upload(flat, flat.nbytes)
    if isinstance(content, Upload):
        return None, content
    if isinstance(content, Readable):
        return None, Upload(content, _length(content))
    # A mapping can be iterated too, and never is what was meant: a form has to be encoded first.
    if isinstance(content, Mapping) or not hasattr(content, "__iter__"):
        raise TypeError(
            f"content is bytes, str, a file or an iterable of bytes, not {type(content).__name__}"
        )
    return None, Upload(content, None)


def _read(file: Readable) -> Iterator[Block]:
    while block := file.read(BLOCK):
        yield _encoded(block)


def _encoded(block: Block | str) -> Block:
    return block.encode() if isinstance(block, str) else block


def _length(file: Readable) -> int | None:
    """What is left of a file, in bytes; None where only reading it would tell."""
    if isinstance(file, io.TextIOBase):
        return None
    try:
        here: int = file.tell()  # type: ignore[attr-defined]
        try:
            end: int = os.fstat(file.fileno()).st_size  # type: ignore[attr-defined]
        except (OSError, AttributeError):
            # Not what `seek` gives: files of the caller's own may give nothing.
            file.seek(0, os.SEEK_END)  # type: ignore[attr-defined]
            end = file.tell()  # type: ignore[attr-defined]
            file.seek(here)  # type: ignore[attr-defined]
    except (OSError, AttributeError, ValueError):
        return None
    # A device says 0 and still has bytes.
    return end - here if end > here else None
