# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "aioquic==1.7.2",
#     "attrs==26.1.0",
#     "certifi==2026.10.18",
#     "cffi==2.1.1; platform_python_implementation != 'PyPy'",
#     "cryptography==50.0.2",
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "pycparser==3.12; implementation_name != 'PyPy' and platform_python_implementation != 'PyPy'",
#     "pylsqpack==1.0.0",
#     "pyopenssl==26.4.0",
#     "service-identity==26.1.0",
#     "setuptools==84.2.1",
#     "typing-extensions==4.16.0; python_full_version < '3.13'",
# ]
#
# [tool.trilane]
# name = "aioquic"
# title = "aioquic"
# library = "aioquic"
# note = "one connection, whatever the strategy; its HTTP/3 in Python, its cryptography in C"
# versions = ["h3"]
# strategies = ["serial", "asyncio", "processes_asyncio", "chunks", "multiplexed"]
# ///
"""aioquic: an HTTP/3 client on its asyncio protocol, as in its own examples."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import (
    ConnectionTerminated,
    ProtocolNegotiated,
    QuicEvent,
    StreamReset,
)
from aioquic.quic.packet import QuicErrorCode

from trilane_contender import Answer, Broken, Library, Plan, run

CRYPTO_ERROR = range(0x100, 0x200)  # RFC 9001: an alert of TLS
H3_NO_ERROR = 0x100


class Response:
    """What has arrived on one stream."""

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.parts: list[bytes] = []
        self.whole: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self, problem: Broken | None = None) -> None:
        """The stream has ended, well or not. Only the first end counts."""
        if self.whole.done():
            return
        if problem is None:
            self.whole.set_result(None)
        else:
            self.whole.set_exception(problem)


class Protocol(QuicConnectionProtocol):
    """Requests by stream id on one connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._http = H3Connection(self._quic)
        self._responses: dict[int, Response] = {}
        self.alpn: str | None = None
        self.problem: Broken | None = None

    async def fetch(self, headers: list[tuple[bytes, bytes]], body: bytes | None) -> Response:
        """Send a request and wait for its whole response."""
        if self.problem is not None:
            raise self.problem
        stream = self._quic.get_next_available_stream_id()
        response = self._responses[stream] = Response()
        self._http.send_headers(stream, headers, end_stream=body is None)
        if body is not None:
            self._http.send_data(stream, body, end_stream=True)
        self.transmit()
        try:
            await response.whole
        finally:
            del self._responses[stream]
        return response

    def quic_event_received(self, event: QuicEvent) -> None:
        """What aioquic calls for every event of the connection."""
        if isinstance(event, ProtocolNegotiated):
            self.alpn = event.alpn_protocol
        elif isinstance(event, ConnectionTerminated):
            self._terminated(event)
        elif isinstance(event, StreamReset):
            self._end(event.stream_id, Broken("reset", f"stream reset: {event.error_code:#x}"))
        for received in self._http.handle_event(event):
            self._received(received)

    def _received(self, event: H3Event) -> None:
        if not isinstance(event, HeadersReceived | DataReceived):
            return
        response = self._responses.get(event.stream_id)
        if response is None:
            return
        if isinstance(event, DataReceived):
            response.parts.append(event.data)
        elif not response.headers:  # else trailers
            response.headers = dict(event.headers)
        if event.stream_ended:
            response.end()

    def _end(self, stream: int, problem: Broken) -> None:
        if stream in self._responses:
            self._responses[stream].end(problem)

    def _terminated(self, event: ConnectionTerminated) -> None:
        words = f"{event.reason_phrase or 'connection terminated'} (error {event.error_code:#x})"
        self.problem = Broken(_kind(event), words)
        for response in self._responses.values():
            response.end(self.problem)


def _kind(event: ConnectionTerminated) -> str:
    transport = event.frame_type is not None
    if transport and event.error_code in CRYPTO_ERROR:
        return "tls"
    if event.error_code in {QuicErrorCode.NO_ERROR, H3_NO_ERROR}:
        return "closed"
    return "refused" if event.error_code == QuicErrorCode.CONNECTION_REFUSED else "protocol"


class AsyncClient:
    """One connection, opened by the first request and anew after it was lost."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._configuration = QuicConfiguration(
            alpn_protocols=H3_ALPN, idle_timeout=max(plan.timeout_s, 1.0), server_name=plan.host
        )
        if plan.cacert is not None:
            self._configuration.load_verify_locations(cafile=plan.cacert)
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._protocol: Protocol | None = None
        authority = plan.target.partition("://")[2]
        self._head = [
            (b":method", plan.method.encode()),
            (b":scheme", b"https"),
            (b":authority", authority.encode()),
        ]
        self._fields = [(name.encode(), value.encode()) for name, value in plan.headers]
        if plan.body is not None:
            self._fields.append((b"content-length", str(len(plan.body)).encode()))

    async def fetch(self, path: str) -> Answer:
        """A request on a stream of its own."""
        async with asyncio.timeout(self._plan.timeout_s):
            protocol = await self._connection()
            headers = [*self._head, (b":path", path.encode()), *self._fields]
            response = await protocol.fetch(headers, self._plan.body)
        body = b"".join(response.parts)
        length = response.headers.get(b"content-length")
        if length is not None and int(length) != len(body) and self._plan.method != "HEAD":
            raise Broken("body", f"{path}: {len(body)} of {int(length)} bytes arrived")
        if response.headers.get(b"content-encoding") == b"gzip":
            body = _decompressed(body)
        return Answer(
            int(response.headers[b":status"]),
            "h3" if protocol.alpn in H3_ALPN else str(protocol.alpn),
            body,
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._stack.aclose()

    async def _connection(self) -> Protocol:
        async with self._opening:
            if self._protocol is None or self._protocol.problem is not None:
                await self._stack.aclose()
                self._protocol = await self._open()
            return self._protocol

    async def _open(self) -> Protocol:
        made: list[Protocol] = []

        def create(*args: Any, **kwargs: Any) -> Protocol:
            made.append(Protocol(*args, **kwargs))
            return made[-1]

        connecting = connect(
            self._plan.host,
            self._plan.port,
            configuration=self._configuration,
            create_protocol=create,
        )
        try:
            protocol = await self._stack.enter_async_context(connecting)
        except ConnectionError as error:
            # aioquic raises it bare; what happened is in the event.
            if made and made[0].problem is not None:
                raise made[0].problem from error
            raise
        if not isinstance(protocol, Protocol):
            raise TypeError("aioquic made another protocol than it was told")
        return protocol


def _decompressed(body: bytes) -> bytes:
    """aioquic decodes no contents, so this is Python's gzip."""
    import gzip  # noqa: PLC0415

    try:
        return gzip.decompress(body)
    except (OSError, EOFError) as error:
        raise Broken("body", f"the body is not gzip: {error}") from error


if __name__ == "__main__":
    sys.exit(run(Library(distribution="aioquic", async_client=AsyncClient)))
