"""An HTTP/3 server of aioquic that writes down which packets came and went."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, QuicEvent
from aioquic.quic.logger import QuicLogger

from .process import HOST

if TYPE_CHECKING:
    from .authority import Leaf

CONTENT = b"hello over QUIC"


class _Protocol(QuicConnectionProtocol):
    _http: H3Connection | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated):
            self._http = H3Connection(self._quic)
        if self._http is None:
            return
        for given in self._http.handle_event(event):
            if isinstance(given, HeadersReceived):
                stream = given.stream_id
                self._http.send_headers(stream, [(b":status", b"200")])
                self._http.send_data(stream, CONTENT, end_stream=True)
        self.transmit()


class Logged:
    """The server, its port, and what it wrote down."""

    def __init__(self, leaf: Leaf) -> None:
        self._logger = QuicLogger()
        self._configuration = QuicConfiguration(
            is_client=False, alpn_protocols=H3_ALPN, quic_logger=self._logger
        )
        self._configuration.load_cert_chain(leaf.cert, leaf.key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        started: Any = asyncio.run_coroutine_threadsafe(
            serve(HOST, 0, configuration=self._configuration, create_protocol=_Protocol),
            self._loop,
        ).result()
        self._server = started
        self.port: int = started._transport.get_extra_info("sockname")[1]

    def traces(self) -> list[list[dict[str, Any]]]:
        """The events of each connection that has ended or not."""
        found = asyncio.run_coroutine_threadsafe(self._seen(), self._loop).result()
        return [trace["events"] for trace in found["traces"]]

    async def _seen(self) -> dict[str, Any]:
        return self._logger.to_dict()

    def close(self) -> None:
        """End the server and its loop."""

        async def end() -> None:
            self._server.close()

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def logged(leaf: Leaf) -> Iterator[Logged]:
    """Run one."""
    server = Logged(leaf)
    try:
        yield server
    finally:
        server.close()
