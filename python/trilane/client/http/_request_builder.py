"""Putting a request together: `request`, or `putrequest`, `putheader`, `endheaders` and `send`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http.client import CannotSendHeader, CannotSendRequest, InvalidURL
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from trilane.client._flow.request import lower, pairs
from trilane.client.http._outgoing import (
    Content,
    Request,
    field,
    in_chunks,
    length_of,
    prepared,
)
from trilane.client.http._pipeline import Pipeline
from trilane.client.http._response import HTTPResponse

if TYPE_CHECKING:
    from trilane.client._flow.request import Field
    from trilane.client.http._sockets import SocketLike

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
_UNKNOWN: Final[tuple[tuple[tuple[Any, Any], ...] | None, list[Field]]] = (None, [])
_IDENTITY: Final = ("Accept-Encoding", "identity")
_HELD: Final = 1 << 20
_READ_BY_US: Final = frozenset(
    name
    for text in ("host", "accept-encoding", "content-length", "transfer-encoding", "expect")
    for name in (text, text.encode())
)
_OVERRIDABLE: Final = (
    "putrequest",
    "putheader",
    "endheaders",
    "send",
    "_validate_method",
    "_validate_path",
    "_encode_request",
)

_control_in_method = re.compile("[\x00-\x1f]").search
_control_in_target = re.compile("[\x00-\x20\x7f]").search


class RequestBuilder(Pipeline):
    """The half of `HTTPConnection` that takes requests."""

    blocksize = 65536
    _direct: ClassVar[bool] = True
    _foreign: SocketLike | None = None

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        # What a subclass overrides is called for every request, as in http.client.
        cls._direct = all(
            getattr(cls, name) is getattr(RequestBuilder, name) for name in _OVERRIDABLE
        )

    def __init__(self) -> None:
        super().__init__()
        self._open: Request | None = None
        self._upload: Request | None = None
        # Headers that told us nothing, and what was made of them: the next are mostly the same.
        self._last_fields = _UNKNOWN

    def request(
        self,
        method: str,
        url: str,
        body: Content = None,
        headers: Mapping[Any, Any] = _NONE,
        *,
        encode_chunked: bool = False,
        trailers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ) -> int:
        """Sends a request and gives the id to get its response by.

        Args:
            method: such as `GET`.
            url: path and query.
            body: `bytes`, `str` (as Latin-1), a file, or an iterable of these, read as fast as the
                server takes it. Without a `Content-Length` in `headers`, files and iterables go in
                chunks (HTTP/1.1) or frames.
            headers: fields of the request. `Host` and `Accept-Encoding: identity` are added unless
                they are there; with `Expect: 100-continue` the body waits for the server's word.
            encode_chunked: with a `Transfer-Encoding` in `headers`: make the chunks, too.
            trailers: fields after the body.

        Raises:
            ValueError, InvalidURL: something that would not be read as it was meant.
            errors.Error, OSError: no connection could be made.
        """
        if not self._direct or self.debuglevel or self._open is not None:
            return self._request_by_parts(
                method, url, body, headers, encode_chunked, pairs(trailers)
            )
        request = self._begun(method, url or "/")
        items = tuple(headers.items())
        bare = body is None and not trailers
        known, same = self._last_fields
        if bare and items == known:
            request.fields = same
            return self._send(request)
        fields = request.fields
        identity = plain = True
        announced = coded = False
        for name, value in items:
            plain = plain and type(value) is str
            key = name.lower()
            if key in _READ_BY_US:
                key = lower(key)
                plain = plain and key == "accept-encoding"
                if key == "host":
                    request.authority = value if isinstance(value, str) else value.decode("ascii")
                    continue
                identity = identity and key != "accept-encoding"
                announced = announced or key == "content-length"
                coded = coded or key == "transfer-encoding"
                request.expects = request.expects or key == "expect"
            fields.append((name, str(value) if isinstance(value, int) else value))
        if body is not None or announced or coded or trailers:
            if trailers:
                request.trailers = pairs(trailers)
                body = b"" if body is None else body
            elif not (announced or coded) and length_of(body, method) == 0:
                # Present but empty: said for every method.
                fields.append(("Content-Length", "0"))
            self._give_content(request, body, encode_chunked or not coded)
        if identity:
            fields.insert(0, _IDENTITY)
        self._last_fields = (items, fields) if plain and bare else _UNKNOWN
        return self._send(request)

    def _begun(self, method: str, target: str) -> Request:
        """A request with its first line checked."""
        authority = None
        if not (
            target[0] == "/"
            and target.isascii()
            and target.isprintable()
            and " " not in target
            and method.isalpha()
        ):
            self._validate_method(method)
            self._validate_path(target)
            target = self._encode_request(target).decode("latin-1")
            if target.startswith("http"):
                authority = urlsplit(target).netloc or None
            elif method == "CONNECT":
                authority = target
        return Request(method, target, authority)

    def _give_content(self, request: Request, body: Content, framed: bool) -> None:
        """Decides from the fields and the body how the content is sent."""
        announced: int | None = None
        coding: str | None = None
        for name, value in request.fields:
            key = lower(name)
            if key == "content-length":
                announced = int(value)
            elif key == "transfer-encoding":
                coding = lower(value)
        content = None if body is None else prepared(body, self.blocksize)
        if coding is not None:
            request.raw = not framed or coding != "chunked"
            if framed and request.raw and content is not None:
                content = in_chunks((content,) if isinstance(content, bytes) else content)
            elif framed:
                # Written where the chunks are made.
                request.fields = [
                    one for one in request.fields if lower(one[0]) != "transfer-encoding"
                ]
        request.content = content
        if content is None:
            # It comes by send().
            request.streaming = request.raw or bool(announced)
        else:
            request.streaming = bool(
                not isinstance(content, bytes) or request.raw or request.expects or request.trailers
            )
        if request.streaming and coding is None and not request.trailers:
            known = len(content) if isinstance(content, bytes) else None
            request.length = request.left = known if announced is None else announced

    def _request_by_parts(
        self,
        method: str,
        url: str,
        body: Content,
        headers: Mapping[Any, Any],
        chunks: bool,
        trailers: list[tuple[str, str]],
    ) -> int:
        """Sends a request by the methods that a subclass may have overridden."""
        names = frozenset(lower(name) for name in headers)
        skips = {}
        if "host" in names:
            skips["skip_host"] = True
        if "accept-encoding" in names:
            skips["skip_accept_encoding"] = True
        self.putrequest(method, url, **skips)
        if "content-length" in names:
            chunks = False
        elif "transfer-encoding" not in names:
            length = None if trailers else length_of(body, method)
            chunks = length is None and body is not None
            if length is not None:
                self.putheader("Content-Length", str(length))
            elif chunks:
                self.putheader("Transfer-Encoding", "chunked")
        for name, value in headers.items():
            self.putheader(name, value)
        if trailers and self._open is not None:
            self._open.trailers = trailers
            body = b"" if body is None else body
        return self.endheaders(body, encode_chunked=chunks)

    def putrequest(
        self,
        method: str,
        url: str,
        skip_host: bool = False,  # noqa: ARG002 - a request without a host is not HTTP/1.1
        skip_accept_encoding: bool = False,
    ) -> None:
        """Begins a request; `putheader` and `endheaders` follow.

        Raises:
            CannotSendRequest: one has been begun and not ended.
        """
        if self._open is not None:
            msg = "Request-started"
            raise CannotSendRequest(msg)
        self._validate_method(method)
        self._validate_path(url or "/")
        request = self._begun(method, url or "/")
        if not skip_accept_encoding:
            request.fields.append(_IDENTITY)
        self._open = request

    def putheader(self, header: str | bytes, *values: str | bytes | int) -> None:
        """Adds a field to the request that was begun. Several values are joined by a blank.

        Raises:
            CannotSendHeader: none was begun.
            ValueError: a name or value with line breaks.
        """
        request = self._open
        if request is None:
            raise CannotSendHeader
        name, value = field(header, values)
        key = lower(name)
        if key == "host":
            request.authority = value.decode("latin-1")
            return
        request.expects = request.expects or key == "expect"
        request.fields.append((name, value))

    def endheaders(self, message_body: Content = None, *, encode_chunked: bool = False) -> int:
        """Ends the fields, sends the request, and gives the id to get its response by.

        What follows by `send` is its content, where a `Content-Length` or a `Transfer-Encoding`
        has announced one.

        Raises:
            CannotSendHeader: no request was begun.
        """
        request = self._open
        if request is None:
            raise CannotSendHeader
        self._open = None
        self._give_content(request, message_body, encode_chunked)
        request.expects = request.expects and message_body is not None
        if self.debuglevel > 0:
            print("send:", repr(f"{request.method} {request.target}"), request.fields)
        ident = self._send(request)
        self._upload = request if request.streaming and request.content is None else None
        return ident

    def send(self, data: Content, final: bool = False) -> None:
        """Sends content of the request whose fields were ended last.

        Args:
            data: as `body` of `request`.
            final: ends the content; needed where its length was not announced, and done by
                `get_response` otherwise.

        Raises:
            CannotSendRequest: no request is open for content; or it waits for its turn and more
                than 1 MiB would have to be held for it.
        """
        content = prepared(data, self.blocksize)
        blocks = (content,) if isinstance(content, bytes) else content
        if self.debuglevel > 0:
            print("send:", repr(data))
        request = self._upload
        if request is None:
            self._send_unframed(blocks)
            return
        for block in blocks:
            self._send_block(request, block)
        if final or request.left == 0:
            self._upload = None
            if request.exchange is not None:
                self._conclude(request)

    def _send_block(self, request: Request, block: bytes) -> None:
        if request.left is not None:
            request.left -= len(block)
        if request.exchange is not None:
            if request.exchange.upload_open:
                request.exchange.write(block, self._wait.seconds)
            return
        request.held.append(block)
        if sum(map(len, request.held)) > _HELD:
            msg = "the request waits for its turn: read the response before it, then send more"
            raise CannotSendRequest(msg)

    def _send_unframed(self, blocks: Iterable[bytes]) -> None:
        """Bytes outside of any request: only over a socket that is the caller's own."""
        with self._lock:
            self._ready()
        if self._foreign is None:
            msg = (
                "no request is open for content: announce it by Content-Length or "
                "Transfer-Encoding, or give it to request(body=...)"
            )
            raise CannotSendRequest(msg)
        for block in blocks:
            self._foreign.sendall(block)

    def getresponse(self) -> HTTPResponse:
        """The response to the oldest request that has none yet; see `get_response`."""
        return self.get_response()

    def _validate_method(self, method: str) -> None:
        if found := _control_in_method(method):
            msg = (
                f"method can't contain control characters. {method!r} "
                f"(found at least {found.group()!r})"
            )
            raise ValueError(msg)

    def _validate_path(self, url: str) -> None:
        self._refuse_controls(url)

    def _validate_host(self, host: str) -> None:
        self._refuse_controls(host)

    @staticmethod
    def _refuse_controls(text: str) -> None:
        if found := _control_in_target(text):
            msg = (
                f"URL can't contain control characters. {text!r} (found at least {found.group()!r})"
            )
            raise InvalidURL(msg)

    def _encode_request(self, request: str) -> bytes:
        return request.encode("ascii")
