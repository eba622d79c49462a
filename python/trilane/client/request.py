"""A request, ready to be sent by any version of HTTP and perhaps more than once. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from .content import Content, Upload, upload
from .errors import InvalidRequest

Field: TypeAlias = tuple[str | bytes, str | bytes]
Fields: TypeAlias = Mapping[str, str] | Iterable[Field]

# Fields about one connection of HTTP/1.1, which the others must not have (RFC 9113 §8.2.2).
_OF_CONNECTION: Final = frozenset({"connection", "keep-alive", "proxy-connection", "upgrade"})
_CONTINUE: Final = ("expect", "100-continue")


class Request:
    """Method, target, fields and content: what `_core.Connection.submit` wants, and the rest."""

    __slots__ = (
        "_fields",
        "_shared",
        "authority",
        "body",
        "expects",
        "length",
        "method",
        "target",
        "trailers",
        "upload",
    )

    def __init__(
        self,
        method: str,
        target: str,
        authority: str,
        fields: Sequence[Field] = (),
        content: Content = None,
    ) -> None:
        """`fields` are sent as they are; see `believe` for those that say how to send."""
        self.method = method
        self.target = target
        self.authority = authority
        self.body: bytes | None
        """Content that goes along with the head."""
        self.upload: Upload | None
        """Content that follows it."""
        self.body, self.upload = upload(content, method)
        self.length = None if self.upload is None else self.upload.length
        """Bytes of `upload`, where known."""
        self.trailers: Sequence[tuple[str, str]] = ()
        self.expects = False
        """Whether the content waits for `100 Continue`."""
        self._fields = self._shared = fields

    def fields_for(self, version: str) -> Sequence[Field]:
        """The fields as a connection of that version takes them."""
        return self._fields if version == "h1" else self._shared

    @property
    def replayable(self) -> bool:
        """Whether it can be sent (again)."""
        return self.upload is None or self.upload.replayable

    def believe(self) -> None:
        """Take what the caller's own fields say about the sending.

        `host` becomes the authority. `content-length` is believed where the content does not tell
        its own, `transfer-encoding: chunked` means that the length is not told, and `expect:
        100-continue` is done. What concerns connections stays away from HTTP/2 and HTTP/3.

        Errors: InvalidRequest for a length that is no number and for other transfer codings.
        """
        fields: list[Field] = []
        shared: list[Field] = []
        for field in self._fields:
            name, value = _text(field[0]).lower(), field[1]
            if name == "host":
                self.authority = _text(value)
            elif name == "content-length":
                self._believe_length(_text(value))
            elif name == "transfer-encoding":
                self._believe_coding(_text(value))
            elif name == "expect" and _text(value).lower() == _CONTINUE[1]:
                self.expects = True
            else:
                fields.append(field)
                if name not in _OF_CONNECTION and (name != "te" or _text(value) == "trailers"):
                    shared.append(field)
        self._fields, self._shared = fields, shared

    def add(self, fields: Sequence[Field]) -> None:
        """Add those fields that it does not have."""
        if fields:
            self._fields = with_defaults(fields, list(self._fields))
            self._shared = with_defaults(fields, list(self._shared))

    def expect_continue(self) -> None:
        """Announce that the content waits for the server's consent (RFC 9110 §10.1.1)."""
        self.stream()
        self.expects = self.upload is not None
        if self.expects:
            self._fields = [*self._fields, _CONTINUE]
            self._shared = [*self._shared, _CONTINUE]

    def stream(self) -> None:
        """Send content after the head, also where it could go along with it."""
        if self.body and self.upload is None:
            self.upload = Upload(memoryview(self.body), len(self.body))
            self.length, self.body = len(self.body), None

    def _believe_length(self, value: str) -> None:
        if not (value.isascii() and value.isdigit()):
            raise InvalidRequest(f"content-length: {value!r} is not a number of bytes")
        if self.upload is not None and self.upload.length is None:
            self.length = int(value)

    def _believe_coding(self, value: str) -> None:
        if value.strip().lower() != "chunked":
            raise InvalidRequest(f"transfer-encoding: {value!r}: only chunked can be sent")
        self.stream()
        self.length = None


def pairs(fields: Fields | None) -> list[Field]:
    """Fields as a list, from a mapping or from pairs."""
    if not fields:
        return []
    return list(fields.items() if isinstance(fields, Mapping) else fields)


def with_defaults(defaults: Sequence[Field], fields: list[Field]) -> list[Field]:
    """The caller's fields after those defaults that they do not replace."""
    given = {_text(name).lower() for name, _ in fields}
    return [default for default in defaults if _text(default[0]).lower() not in given] + fields


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
