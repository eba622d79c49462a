"""HTTP/3 servers that misbehave on purpose: QUIC by aioquic, frames of HTTP/3 by hand."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve as serve_quic
from aioquic.buffer import encode_uint_var
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived

from peers.authority import Leaf
from peers.process import HOST

DATA, HEADERS, SETTINGS, PUSH_PROMISE, GOAWAY = 0, 1, 4, 5, 7
CONTROL = 3
"""The server's first unidirectional stream."""
# Indexed fields of the static table of QPACK (RFC 9204, Appendix A), behind the empty prefix.
OK, EARLY_HINTS, NO_STATUS = b"\0\0\xd9", b"\0\0\xd8", b"\0\0\xc4"

# It reads its key and binds a port; the limit only ends a hang.
_START_S = 60.0
Script = Callable[["Server", int], None]


def frame(kind: int, payload: bytes = b"") -> bytes:
    """One frame (RFC 9114 §7.1)."""
    return encode_uint_var(kind) + encode_uint_var(len(payload)) + payload


def response(content: bytes = b"hello world") -> bytes:
    """A complete response."""
    return frame(HEADERS, OK) + frame(DATA, content)


def length(value: int) -> bytes:
    """A field section: status 200 and this `content-length`."""
    digits = str(value).encode()
    return OK + b"\x54" + bytes([len(digits)]) + digits


class Server(QuicConnectionProtocol):
    """One connection. The script is called once for each request, with its stream."""

    script: Script
    settings = frame(SETTINGS)

    def quic_event_received(self, event: QuicEvent) -> None:
        """Greet at first, and call the script at the first byte of each request."""
        if not isinstance(event, StreamDataReceived) or event.stream_id % 4:
            return
        seen: set[int] = self.__dict__.setdefault("seen", set())
        if not seen:
            self.send(CONTROL, b"\0" + self.settings)
        if event.stream_id not in seen:
            seen.add(event.stream_id)
            type(self).script(self, event.stream_id)
            self.transmit()

    def send(self, stream: int, data: bytes, end: bool = False) -> None:
        """Bytes of a stream, and its end."""
        self._quic.send_stream_data(stream, data, end)

    def reset(self, stream: int, code: int) -> None:
        """RESET_STREAM."""
        self._quic.reset_stream(stream, code)

    def stop(self, stream: int, code: int) -> None:
        """STOP_SENDING."""
        self._quic.stop_stream(stream, code)

    def grant(self, streams: int) -> None:
        """MAX_STREAMS: so many more requests than the 128 that aioquic allows."""
        self._quic._local_max_streams_bidi.value += streams

    def end(self, code: int) -> None:
        """CONNECTION_CLOSE with a code of HTTP/3."""
        self._quic.close(code, None, "a reason")


@contextlib.contextmanager
def serve(
    script: Script, leaf: Leaf, each: type[Server] = Server, *, alpn: str = "h3"
) -> Iterator[int]:
    """Run a script for every request while the context lasts; gives the UDP port.

    `each` is what a connection is, `alpn` the only protocol it agrees to.
    """
    loop = asyncio.new_event_loop()
    started: list[int] = []
    done = asyncio.Event()
    ready = threading.Event()

    async def run() -> None:
        configuration = QuicConfiguration(is_client=False, alpn_protocols=[alpn])
        configuration.load_cert_chain(str(leaf.cert), str(leaf.key))
        protocol = type("Scripted", (each,), {"script": staticmethod(script)})
        server = await serve_quic(HOST, 0, configuration=configuration, create_protocol=protocol)
        transport = server._transport
        assert transport is not None
        started.append(transport.get_extra_info("sockname")[1])
        ready.set()
        await done.wait()
        server.close()
        await asyncio.sleep(0)

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    if not ready.wait(_START_S):
        raise RuntimeError("the bad server did not start")
    try:
        yield started[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()
