"""A request on its way out, and what may be given as its content."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from trilane.client._flow.content import ANNOUNCING
from trilane.client._flow.uploading import Outgoing

if TYPE_CHECKING:
    from trilane._core import Exchange
    from trilane.client._early import Early
    from trilane.client._flow.request import Field
    from trilane.client.http._sockets import SocketExchange

Content: TypeAlias = Any
"""`bytes`, `str` (sent as Latin-1), anything with the buffer protocol, a file, an iterable."""

_LARGE: Final = 1 << 20
_SLICE: Final = 1 << 16

_is_name = re.compile(rb"[^:\s][^:\r\n]*").fullmatch
_is_split = re.compile(rb"\n(?![ \t])|\r(?![ \t\n])").search
_fold = re.compile(rb"[ \t]*\r?\n[ \t]+").sub


class Request(Outgoing):
    """One request: what was asked for, where its content comes from, and what became of it."""

    __slots__ = (
        "authority",
        "content",
        "exchange",
        "failed",
        "fields",
        "held",
        "left",
        "length",
        "method",
        "raw",
        "repeated",
        "streaming",
        "target",
    )

    def __init__(self, method: str, target: str, authority: str | None) -> None:
        super().__init__()
        self.method = method
        self.target = target
        self.authority = authority
        self.fields: list[Field] = []
        self.content: bytes | Iterator[bytes] | None = None
        self.length: int | None = None
        """Bytes of streamed content, or None: not announced."""
        self.left: int | None = None
        """Bytes still to come through `HTTPConnection.send`."""
        self.streaming = False
        self.raw = False
        self.held: list[bytes] = []
        """Content given by `HTTPConnection.send` while the request waits for its turn."""
        self.exchange: Exchange | SocketExchange | Early | None = None
        self.failed: Exception | None = None
        """What kept it from being sent when its turn came."""
        self.repeated = False

    def _content(self) -> Iterator[bytes]:
        content = self.content
        if content is None or isinstance(content, bytes):
            return iter((content,) if content else ())
        return content


def field(name: str | bytes, values: Iterable[str | bytes | int]) -> tuple[bytes, bytes]:
    """A field, refused where it would be read as more than one.

    Several values were lines of one folded field in `http.client`. A sender must not fold (RFC 9112
    §5.2), so they are joined by a blank, which is what a recipient makes of a fold.

    Raises:
        ValueError: a name or a value that has line breaks, or a name with a colon or blank ahead.
    """
    key = name.encode("ascii") if isinstance(name, str) else name
    if not _is_name(key):
        msg = f"Invalid header name {key!r}"
        raise ValueError(msg)
    parts = []
    for value in values:
        part = str(value).encode("latin-1") if isinstance(value, str | int) else value
        if _is_split(part):
            msg = f"Invalid header value {part!r}"
            raise ValueError(msg)
        parts.append(_fold(b" ", part))
    return key, b" ".join(parts).strip(b" \t")


def length_of(content: Content, method: str) -> int | None:
    """Bytes of the content, or None where that is not known before it has been read."""
    if content is None:
        return 0 if method.upper() in ANNOUNCING else None
    if hasattr(content, "read"):
        return None
    if isinstance(content, str):
        return len(content)
    try:
        return memoryview(content).nbytes
    except TypeError:
        return None


def encoded(text: str) -> bytes:
    """Text as content, in Latin-1 as `http.client` sends it.

    Raises:
        UnicodeEncodeError: it has other characters; the message says what to do.
    """
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as error:
        wrong = text[error.start : error.end]
        reason = (
            f"Body ({wrong!r:.20}) is not valid Latin-1. Use body.encode('utf-8') "
            "if you want to send it encoded in UTF-8."
        )
        raise UnicodeEncodeError(
            error.encoding, error.object, error.start, error.end, reason
        ) from None


def prepared(content: Content, blocksize: int) -> bytes | Iterator[bytes]:
    """Content as what `submit` takes at once, or as blocks, none of them empty.

    Raises:
        TypeError: it is none of what `Content` names.
    """
    if isinstance(content, bytes) and len(content) <= _LARGE:
        return content
    if isinstance(content, str):
        return prepared(encoded(content), blocksize)
    if hasattr(content, "read"):
        return _of_file(content, blocksize)
    try:
        view = memoryview(content)
    except TypeError:
        pass
    else:
        if view.nbytes <= _LARGE:
            return view.tobytes()
        flat = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
        return (bytes(flat[at : at + _SLICE]) for at in range(0, flat.nbytes, _SLICE))
    try:
        blocks = iter(content)
    except TypeError:
        msg = f"content is bytes, str, a file or an iterable of these, not {type(content)!r}"
        raise TypeError(msg) from None
    return (_block(block) for block in blocks if len(block))


def _block(block: str | bytes | bytearray | memoryview) -> bytes:
    if isinstance(block, str):
        return encoded(block)
    return block if isinstance(block, bytes) else bytes(block)


def _of_file(file: Any, blocksize: int) -> Iterator[bytes]:
    # Only what says that it is text is encoded: as in http.client, other objects give bytes.
    text = isinstance(file, io.TextIOBase)
    while block := file.read(blocksize):
        yield block.encode("latin-1") if text else _block(block)


def in_chunks(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Blocks in the chunked coding (RFC 9112 §7.1), for a request that names codings of its own."""
    for block in blocks:
        yield b"%X\r\n%b\r\n" % (len(block), block)
    yield b"0\r\n\r\n"
