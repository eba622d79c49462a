"""A request, ready to be sent on any connection and perhaps more than once. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from trilane.client._flow.content import ANNOUNCING, Block, Content, Upload, upload
from trilane.client._flow.uploading import Outgoing
from trilane.client.errors import InvalidRequest

if TYPE_CHECKING:
    from trilane._core import Connection, Exchange
    from trilane.client._flow.options import Progress

Field: TypeAlias = tuple[str | bytes, str | bytes]
Fields: TypeAlias = Mapping[str, str] | Iterable[Field]

Pair = TypeVar("Pair")

OF_SENDING: Final = frozenset({"content-length", "expect", "transfer-encoding"})
"""Fields that say how to send."""
FOR_PROXIES: Final = "proxy-authorization"
"""What tells a proxy who asks (RFC 9110 §11.7.2), and nobody behind it."""
SECRETS: Final = frozenset({"authorization", "cookie", FOR_PROXIES})
"""Fields that say who asks: none of them is stored or pickled as it is."""
_CONTINUE: Final = "100-continue"
_BELIEVED: Final = OF_SENDING | {FOR_PROXIES}
_READ: Final = _BELIEVED | {name.encode() for name in _BELIEVED}
"""Fields of which a request has to know, by names of either type."""


class Request(Outgoing):
    """What `_core.Connection.submit` wants, and the content that follows.

    The native part reads `host` and `content-length` among the fields, adds what frames the
    message, and keeps the fields of a connection (`connection`, `te`) from HTTP/2 and HTTP/3.
    """

    for_proxy = False
    """Whether there is a field among them that is for a proxy alone; `believe` looks."""
    body: bytes | None = None
    """Content that goes along with the head."""
    upload: Upload | None = None
    """Content that follows it."""
    length: int | None = None
    """Bytes of `upload`, where known and not among the fields."""

    def __init__(
        self,
        method: str,
        target: str,
        authority: str,
        fields: Sequence[Field] = (),
        content: Content | Upload = None,
    ) -> None:
        """`fields` are sent as they are; see `believe` for those that say how to send."""
        self.method = method
        self.target = target
        self.authority = authority
        self.fields = fields
        if content is not None or method in ANNOUNCING:
            self.body, self.upload = upload(content, method)
            if self.upload is not None:
                self.length = self.upload.length

    @property
    def replayable(self) -> bool:
        """Whether it can be sent (again)."""
        return self.upload is None or self.upload.replayable

    @property
    def total(self) -> int | None:
        """Bytes of content, where they are known."""
        return len(self.body or b"") if self.upload is None else self.upload.length

    @property
    def is_streaming(self) -> bool:
        """Whether something follows the head."""
        return self.upload is not None or bool(self.trailers)

    def _content(self) -> Iterator[Block]:
        return iter(()) if self.upload is None else self.upload.blocks()

    def submit(
        self,
        connection: Connection,
        alt_used: str | None,
        *,
        flush: bool | None = None,
        timed: bool = False,
    ) -> Exchange:
        """Send the head, and the content that goes along with it.

        `alt_used` is where the connection goes, if that is not the origin's own address (RFC 7838
        §5); `flush` and `timed` are for `connection.submit`.

        Raises:
            Full: the connection takes no request now.
            Error: the request cannot be sent, or the connection has ended.
        """
        fields = self.fields if alt_used is None else [*self.fields, ("alt-used", alt_used)]
        streaming = self.upload is not None or bool(self.trailers)
        if not streaming and not timed:
            authority = self.authority
            return connection.submit(
                self.method, self.target, fields, self.body, authority=authority, flush=flush
            )
        return connection.submit(
            self.method,
            self.target,
            fields,
            None if streaming else self.body,
            authority=self.authority,
            streaming=streaming,
            length=self.length,
            flush=flush,
            timed=timed,
        )

    def believe(self) -> None:
        """Take what the caller's own fields say about the sending.

        `content-length` is believed of content that does not lie in memory, `transfer-encoding:
        chunked` means that the length is not told, and `expect: 100-continue` is done.

        Raises:
            InvalidRequest: another transfer coding.
        """
        fields: list[Field] = []
        for field in self.fields:
            name = lower(field[0])
            if name == "transfer-encoding":
                coding = _text(field[1])
                if coding.strip().lower() != "chunked":
                    raise InvalidRequest(f"transfer-encoding: {coding!r}: only chunked can be sent")
                self.stream()
                self.length = None
                continue
            if name == "content-length":
                self.length = None
            elif name == FOR_PROXIES:
                self.for_proxy = True
            elif name == "expect" and _text(field[1]).lower() == _CONTINUE:
                if self.body is None and self.upload is None:
                    continue  # RFC 9110 §10.1.1: not without content.
                self.stream()
                self.expects = True
            fields.append(field)
        self.fields = fields

    def tell(self, progress: Progress | None) -> None:
        """Call `progress` as content is sent, which then follows the head, also what is short."""
        if progress is not None:
            self.stream()
            self.progress = progress

    def add(self, fields: Sequence[Field]) -> None:
        """Add those fields that it does not have."""
        if fields:
            self.fields = with_defaults(fields, list(self.fields))

    def expect_continue(self) -> None:
        """Announce that the content waits for the server's consent (RFC 9110 §10.1.1)."""
        self.stream()
        self.expects = self.upload is not None
        if self.expects:
            self.add([("expect", _CONTINUE)])

    def follow(self, trailers: Sequence[tuple[str, str]]) -> None:
        """Send trailers after the content, whose length HTTP/1.1 then cannot tell before."""
        if trailers:
            self.stream()
            self.trailers = trailers
            self.length = None

    def stream(self) -> None:
        """Send content after the head, also where it could go along with it."""
        if self.body and self.upload is None:
            self.upload = Upload(memoryview(self.body), len(self.body))
            self.length = len(self.body)
            self.body = None


def is_read(fields: Iterable[Field]) -> bool:
    """Whether a request has to know of one of the fields; see `Request.believe`."""
    return any(field[0].lower() in _READ for field in fields)


def pairs(fields: Mapping[Any, Any] | Iterable[Pair] | None) -> list[Pair]:
    """Fields as a list, from a mapping or from pairs."""
    if not fields:
        return []
    return list(fields.items() if isinstance(fields, Mapping) else fields)


def with_defaults(defaults: Sequence[Field], fields: list[Field]) -> list[Field]:
    """The caller's fields after those defaults that they do not replace."""
    try:
        given = {lower(name) for name, _ in fields}
    except (AttributeError, TypeError, ValueError):
        raise TypeError(_no_fields(fields)) from None
    return [default for default in defaults if lower(default[0]) not in given] + fields


def lower(name: str | bytes) -> str:
    """A field's name for comparisons."""
    return (name if isinstance(name, str) else name.decode("latin-1")).lower()


def _no_fields(given: Sequence[Any]) -> str:
    """What is wrong with what was given for fields; values may be secrets, and are not told."""
    kinds = "give a mapping of names to values, or pairs of a name and a value"
    for field in given:
        if isinstance(field, str | bytes) or not hasattr(field, "__len__"):
            return f"{field!r:.40} is no field: {kinds}"
        if len(field) != 2:
            return (
                f"a field is a pair of a name and a value, and one has {len(field)} items: {kinds}"
            )
        if not isinstance(field[0], str | bytes):
            return f"the name of a field is {field[0]!r:.40}: give str or bytes"
    return kinds


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
