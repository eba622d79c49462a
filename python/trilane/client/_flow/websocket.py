"""A WebSocket, but for waiting: its handshake, its messages and its end (RFC 6455). No I/O.

The frames are those of the library `websockets`, whose own protocol has no I/O either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from trilane.client._flow.preparing import for_origin
from trilane.client._flow.request import Field, Request, lower
from trilane.client._flow.routes import Route
from trilane.client.errors import (
    InvalidRequest,
    LimitExceeded,
    ReadTimeout,
    StreamRefused,
    WebSocketClosed,
)

try:
    from websockets.client import ClientProtocol
    from websockets.datastructures import Headers as LibraryHeaders
    from websockets.exceptions import InvalidHandshake, WebSocketException
    from websockets.extensions.permessage_deflate import enable_client_permessage_deflate
    from websockets.frames import Frame, Opcode
    from websockets.http11 import Response as LibraryResponse
    from websockets.protocol import State
    from websockets.typing import Subprotocol
    from websockets.uri import WebSocketURI
except ImportError as error:
    raise ImportError(
        "WebSockets need the library websockets, 14 or newer: install trilane[websocket]"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilane._core import Connection, Exchange
    from trilane.client._flow.preparing import Prepared
    from trilane.client._flow.response import BaseResponse

Message: TypeAlias = str | bytes
"""Text, or binary."""
Sendable: TypeAlias = str | bytes | bytearray | memoryview | Iterable[str] | Iterable[bytes]
"""A message, or its fragments."""

MOST_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of one message, where nothing else is said."""
_ANSWER_S: Final = 0.1
"""How often a server that reads nothing is offered the answer to its Ping."""
READ: Final = 64 * 1024
"""What is read of the connection at once."""
BLOCK: Final = 256 * 1024
"""What is written to it at once: the native part takes so much whole."""
LINGER_S: Final = 1.0
"""How long the server is given to end the connection or the stream, once both have said Close."""
CLOSE_S: Final = 10.0
"""How long it is given to say Close."""
NORMAL: Final = 1000
INTERNAL_ERROR: Final = 1011
_GOING_AWAY: Final = 1001
_INVALID_DATA: Final = 1007
_ABNORMAL: Final = 1006
_MOST_ANSWERS: Final = 1024 * 1024
"""Bytes of answers to Pings that wait because the server reads nothing."""
_OF_HTTP_1: Final = frozenset({"host", "upgrade", "connection"})
_KEY: Final = "sec-websocket-key"


class Talk:
    """One WebSocket: what is sent goes out by `output`, what comes goes in by `receive`."""

    def __init__(
        self,
        url: str,
        *,
        subprotocols: Sequence[str] = (),
        compression: bool = True,
        max_size: int | None = MOST_MESSAGE,
        ping_interval: float | None = None,
    ) -> None:
        """`url` is for messages; the others are explained by `Client.websocket`.

        Raises:
            ValueError: a setting is out of range.
            TypeError: `subprotocols` is one name.
        """
        if max_size is not None and max_size < 1:
            raise ValueError(f"max_size={max_size}: give bytes from 1 on, or None for no limit")
        if ping_interval is not None and not ping_interval > 0:
            raise ValueError(f"ping_interval={ping_interval}: give seconds above 0, or None")
        if isinstance(subprotocols, str):
            raise TypeError(f"subprotocols={subprotocols!r}: give a list of names")
        self.url = url
        self.messages: deque[Message] = deque()
        """What has come and was not taken."""
        self.cause: BaseException | None = None
        """Why the connection was lost, if it was."""
        self._protocol = ClientProtocol(
            # It is for the handshake over HTTP/1.1 alone, whose request is not taken from there.
            WebSocketURI(secure=False, host="localhost", port=80, path="/", query=""),
            extensions=enable_client_permessage_deflate(None) if compression else None,
            subprotocols=[Subprotocol(name) for name in subprotocols] or None,
            # The handshake is HTTP's; frames are all that it is given.
            state=State.OPEN,
            max_size=max_size,
        )
        # One buffer: fragments without content would cost more than they are, kept as a list.
        self._content = bytearray()
        self._is_text = False
        self._unsent = bytearray()
        self._ping_interval = ping_interval
        self._heard = 0.0
        self._asked: float | None = None

    def fields(self, version: str) -> list[Field]:
        """The fields of the handshake in a version of HTTP, but for those that switch protocols."""
        given = self._protocol.connect().headers.raw_items()
        left_out = _OF_HTTP_1 if version == "h1" else {*_OF_HTTP_1, _KEY}
        return [(name.lower(), value) for name, value in given if name.lower() not in left_out]

    def accept(self, response: BaseResponse, refused: bytes, now: float) -> None:
        """Take what the server has answered; `refused` is the begin of it where it `is_refused`.

        Raises:
            StreamRefused: it does not open a WebSocket, or not as it was asked to.
        """
        if is_refused(response):
            raise self._refusal(response, f"status {response.status}", refused)
        protocol = self._protocol
        try:
            headers = LibraryHeaders(
                [field for field in response.fields if _is_of_handshake(field[0])]
            )
            if response.version == "h1":
                protocol.process_response(LibraryResponse(response.status, "", headers))
            else:
                protocol.extensions = protocol.process_extensions(headers)
                protocol.subprotocol = protocol.process_subprotocol(headers)
        except InvalidHandshake as error:
            raise self._refusal(response, f"a wrong handshake: {error}", b"") from error
        self._heard = now

    @property
    def subprotocol(self) -> str | None:
        """What the server chose of the subprotocols; None where it chose none."""
        return self._protocol.subprotocol

    @property
    def extensions(self) -> list[str]:
        """Names of the extensions that are in use."""
        return [extension.name for extension in self._protocol.extensions]

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent: neither side has said Close."""
        return self._protocol.state is State.OPEN

    @property
    def is_over(self) -> bool:
        """Whether no more comes: the server has said Close, or the connection has ended."""
        protocol = self._protocol
        ended = protocol.state is State.CLOSED or protocol.parser_exc is not None
        return ended or protocol.close_rcvd is not None

    @property
    def code(self) -> int | None:
        """The code with which it ended; None before."""
        if not self.is_over:
            return None
        protocol = self._protocol
        if protocol.close_rcvd is not None:
            return int(protocol.close_rcvd.code)
        # What was wrong with what came, and was told to the server.
        own = protocol.close_sent
        return int(own.code) if own is not None and protocol.parser_exc is not None else _ABNORMAL

    @property
    def reason(self) -> str:
        """The server's reason for the end; empty where it gave none."""
        protocol = self._protocol
        if protocol.close_rcvd is not None:
            return protocol.close_rcvd.reason
        own = protocol.close_sent
        return own.reason if own is not None and protocol.parser_exc is not None else ""

    def closed(self) -> WebSocketClosed:
        """The error for whoever wants to send or receive after the end."""
        code, reason = self.code, self.reason
        if code is None:
            text, code = "was closed here", NORMAL
        elif code == _ABNORMAL:
            text = "ended without a Close frame" + (f": {self.cause}" if self.cause else "")
        else:
            text = f"was closed with code {code}" + (f", {reason!r}" if reason else "")
        error = WebSocketClosed(f"the WebSocket of {self.url} {text}", code=code, reason=reason)
        error.__cause__ = self.cause
        return error

    def cut(self, error: BaseException | None) -> WebSocketClosed:
        """The error for whoever sends on a connection that is lost; receiving may tell more."""
        if self.is_over:
            return self.closed()
        closed = WebSocketClosed(
            f"the connection of the WebSocket {self.url} was lost while sending"
            + (f": {error}" if error else ""),
            code=_ABNORMAL,
        )
        closed.__cause__ = error
        return closed

    @property
    def ended_well(self) -> bool:
        """Whether it ended as it should: an iteration ends then, and raises nothing."""
        return self.code in {NORMAL, _GOING_AWAY}

    def send(self, message: Sendable) -> None:
        """Send a message, in fragments where they are given.

        Raises:
            WebSocketClosed: one of both sides has said Close.
            TypeError: it is none of what `Sendable` names.
            ValueError: it has no fragments.
        """
        self._expect_open()
        protocol = self._protocol
        if isinstance(message, str):
            protocol.send_text(message.encode())
            return
        if isinstance(message, bytes | bytearray | memoryview):
            protocol.send_binary(bytes(message))
            return
        if isinstance(message, dict) or not isinstance(message, Iterable):
            raise TypeError(
                "a message is str, bytes, or an iterable of its fragments, not"
                f" {type(message).__name__}"
            )
        # All of them before the first is sent: it has to be known which is the last.
        fragments: list[str | bytes] = [*message]
        if not fragments:
            raise ValueError("a message in fragments has at least one")
        if not all(isinstance(each, type(fragments[0])) for each in fragments):
            raise TypeError("the fragments of a message are all str, or all bytes")
        for number, fragment in enumerate(fragments, 1):
            fin = number == len(fragments)
            data = fragment.encode() if isinstance(fragment, str) else bytes(fragment)
            if number > 1:
                protocol.send_continuation(data, fin)
            elif isinstance(fragment, str):
                protocol.send_text(data, fin)
            else:
                protocol.send_binary(data, fin)

    def ping(self, data: bytes = b"") -> None:
        """Send a Ping, with up to 125 bytes.

        Raises:
            WebSocketClosed: it is over.
            InvalidRequest: the data are too long.
        """
        self._expect_open()
        try:
            self._protocol.send_ping(data)
        except WebSocketException as error:
            raise InvalidRequest(f"a Ping of {len(data)} bytes: {error}") from error

    def close(self, code: int, reason: str) -> None:
        """Say Close, unless that was said.

        Raises:
            InvalidRequest: there is no such code, or the reason is too long.
        """
        if not self.is_open:
            return
        try:
            self._protocol.send_close(code, reason)
        except WebSocketException as error:
            raise InvalidRequest(f"close({code}, {reason!r}): {error}") from error

    def receive(self, data: bytes, now: float) -> None:
        """Take bytes of the server; b"" where the connection or the stream has ended.

        Raises:
            LimitExceeded: the server wants more answers than it reads.
        """
        self._heard, self._asked = now, None
        protocol = self._protocol
        if protocol.reader.eof:
            return
        if data:
            protocol.receive_data(data)
        else:
            protocol.receive_eof()
        for event in protocol.events_received():
            if isinstance(event, Frame):
                self._take(event)
        self._collect()
        if len(self._unsent) > _MOST_ANSWERS and not self.is_over:
            raise LimitExceeded(
                f"{self.url} wants answers to more Pings than it reads answers:"
                f" {len(self._unsent)} bytes wait"
            )

    def lost(self, error: BaseException, now: float) -> None:
        """The connection, or the stream, has failed."""
        self.cause = error
        self.receive(b"", now)

    def output(self) -> bytes:
        """Take what is to be sent next, up to `BLOCK` bytes."""
        self._collect()
        piece = bytes(self._unsent[:BLOCK])
        del self._unsent[:BLOCK]
        return piece

    def put_back(self, piece: bytes) -> None:
        """What could not be sent now is sent first later."""
        self._unsent[:0] = piece

    @property
    def has_output(self) -> bool:
        """Whether something is to be sent."""
        return bool(self._unsent or self._protocol.writes)

    def silence(self, now: float) -> float | None:
        """Seconds until `is_alive` is to be asked, if nothing comes; None: never."""
        if self._ping_interval is None:
            return None
        since = self._heard if self._asked is None else self._asked
        return max(since + self._ping_interval - now, 0.0)

    def wait(self, now: float, deadline: float | None) -> float | None:
        """Seconds that whoever reads may wait before there is something to do; None: any time."""
        waits = [self.silence(now), None if deadline is None else max(deadline - now, 0.0)]
        if self.has_output:
            waits.append(_ANSWER_S)
        return min((each for each in waits if each is not None), default=None)

    def is_alive(self, now: float) -> bool:
        """Whether a server that has been silent is given more time: it gets a Ping for it."""
        if self.silence(now) != 0.0:
            return True
        if self._asked is not None:
            return False
        self._asked = now
        if self.is_open:
            self._protocol.send_ping(b"")
        return True

    def dead(self) -> ReadTimeout:
        """The error for a server that is not alive."""
        return ReadTimeout(
            f"{self.url} did not answer a Ping within {self._ping_interval} s: allow more with"
            " ping_interval="
        )

    def late(self, limit: float | None) -> ReadTimeout:
        """The error for a message that does not come. The WebSocket goes on."""
        return ReadTimeout(f"{self.url} sent no message within {limit} s")

    def _expect_open(self) -> None:
        if not self.is_open:
            raise self.closed()

    def _take(self, frame: Frame) -> None:
        if frame.opcode in {Opcode.TEXT, Opcode.BINARY}:
            self._is_text = frame.opcode is Opcode.TEXT
        elif frame.opcode is not Opcode.CONT:
            return
        self._content += frame.data
        if not frame.fin:
            return
        content = bytes(self._content)
        self._content.clear()
        if not self._is_text:
            self.messages.append(content)
            return
        try:
            self.messages.append(content.decode())
        except UnicodeDecodeError as error:
            self._protocol.fail(_INVALID_DATA, f"{error.reason} at position {error.start}")
            self._protocol.parser_exc = error

    def _collect(self) -> None:
        for piece in self._protocol.data_to_send():
            self._unsent += piece

    def _refusal(self, response: BaseResponse, what: str, content: bytes) -> StreamRefused:
        return StreamRefused(
            f"{self.url} answered with {what}, and opened no WebSocket",
            content=content,
            stream_id=response.stream_id,
            error_code=response.status,
        )


class Handshake(Request):
    """The request that opens a WebSocket: by Upgrade in HTTP/1.1, else by extended CONNECT."""

    __slots__ = ("_talk",)

    def __init__(self, plain: Request, talk: Talk) -> None:
        """`plain` is the same as a GET."""
        super().__init__("GET", plain.target, plain.authority, plain.fields)
        self._talk = talk

    def submit(
        self,
        connection: Connection,
        alt_used: str | None,
        *,
        flush: bool | None = None,
        timed: bool = False,
    ) -> Exchange:
        """As `Request.submit`.

        Raises:
            VersionUnavailable: the server takes no WebSocket in HTTP/2 or HTTP/3.
        """
        own = self._talk.fields(connection.version)
        names = {lower(name) for name, _ in own}
        fields = [field for field in self.fields if lower(field[0]) not in names]
        fields += own
        if alt_used is not None:
            fields.append(("alt-used", alt_used))
        return connection.submit(
            self.method,
            self.target,
            fields,
            authority=self.authority,
            flush=flush,
            timed=timed,
            protocol="websocket",
        )


def handshake(prepared: Prepared, talk: Talk) -> Prepared:
    """The opening handshake, of the GET that it is like.

    A proxy that is handed whole requests of `http` is asked for a tunnel (RFC 6455 §4.1).

    Raises:
        InvalidRequest: there is a field for the proxy, which would go through the tunnel.
    """
    request, address, how = prepared
    if "://" not in talk.url:
        talk.url = "ws" + address.url.removeprefix("http")
    proxy = how.route.proxy
    if how.route.forwards and proxy is not None:
        if request.for_proxy:
            raise InvalidRequest(for_origin(address))
        request.target = address.target
        request.fields = [field for field in request.fields if field not in proxy.fields]
        how = how._replace(route=Route(address.origin, proxy, tunnels=True))
        prepared = prepared._replace(how=how)
    return prepared._replace(request=Handshake(request, talk))


def is_refused(response: BaseResponse) -> bool:
    """Whether the response opens no WebSocket: the begin of its content is for the error then."""
    if response.version in {"h1", "h1.0"}:
        return response.status != 101
    return not response.is_success


def _is_of_handshake(name: str) -> bool:
    lowered = name.lower()
    return lowered in {"connection", "upgrade"} or lowered.startswith("sec-websocket-")
