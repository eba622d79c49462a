"""A gRPC server by hyper-h2, over cleartext HTTP/2: a test says how each call is answered."""

from __future__ import annotations

import asyncio
import contextlib
import queue
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, RequestReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes, Settings

from . import chaos
from .grpc_chaos import GRPC, message

_LIMIT_S = 60.0
"""Ends a hang."""


@dataclass(frozen=True)
class Call:
    """A call whose request has come whole."""

    connection: Connection
    stream: int
    fields: dict[str, str]
    content: bytes

    def answer(self, content: bytes | None = None) -> None:
        """Send one message and the status OK; the content that came, unless another is given."""
        self.begin(self.content if content is None else content)
        trailers = [("grpc-status", "0")]
        self.connection.h2.send_headers(self.stream, trailers, end_stream=True)

    def begin(self, content: bytes) -> None:
        """Send the head and content, and leave the stream open."""
        self.connection.h2.send_headers(self.stream, GRPC)
        self.connection.h2.send_data(self.stream, content)

    def reset(self, code: ErrorCodes) -> None:
        """End the stream by RST_STREAM."""
        self.connection.h2.reset_stream(self.stream, code)


OnCall = Callable[[Call], None]


class Connection:
    """One connection; `number` counts them from 0."""

    def __init__(self, number: int, writer: asyncio.StreamWriter, streams: int | None) -> None:
        self.number = number
        self.h2 = H2Connection(H2Configuration(client_side=False))
        if streams is not None:
            allowed = {SettingCodes.MAX_CONCURRENT_STREAMS: streams}
            self.h2.local_settings = Settings(client=False, initial_values=allowed)
        self.calls = 0
        self.has_ended = False
        self._writer = writer

    def go_away(self, last: int) -> None:
        """Say that streams beyond the last are not looked at, and close."""
        self.h2.close_connection(last_stream_id=last)
        self.break_off()

    def break_off(self) -> None:
        """Close without a word, behind what was sent before."""
        self.has_ended = True

    def flush(self) -> None:
        """Write what hyper-h2 has made."""
        self._writer.write(self.h2.data_to_send())
        if self.has_ended:
            # What comes is read on: a socket that is closed over it would be reset.
            self._writer.write_eof()


class Scripted:
    """The running server: what has come, and where it listens."""

    def __init__(self, on_call: OnCall, streams: int | None) -> None:
        self._on_call = on_call
        self._streams = streams
        self._count = 0
        self._calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._resets: queue.SimpleQueue[StreamReset] = queue.SimpleQueue()
        self.all_calls: list[Call] = []
        self.base = ""

    @property
    def connections(self) -> int:
        """How many have come."""
        return self._count

    def next_call(self) -> Call:
        """Wait for the next call."""
        return self._calls.get(timeout=_LIMIT_S)

    def called(self, timeout: str) -> bool:
        """Whether a call with this `grpc-timeout` has come; those before it are forgotten."""
        while not self._calls.empty():
            if self._calls.get().fields.get("grpc-timeout") == timeout:
                return True
        return False

    def next_reset(self) -> StreamReset:
        """Wait until the client has reset a stream."""
        return self._resets.get(timeout=_LIMIT_S)

    async def script(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        connection = Connection(self._count, writer, self._streams)
        self._count += 1
        fields: dict[int, dict[str, str]] = {}
        content: defaultdict[int, bytes] = defaultdict(bytes)
        connection.h2.initiate_connection()
        connection.flush()
        while data := await reader.read(65536):
            if connection.has_ended:
                continue
            for event in connection.h2.receive_data(data):
                self._hear(connection, event, fields, content)
            connection.flush()

    def _hear(
        self,
        connection: Connection,
        event: Event,
        fields: dict[int, dict[str, str]],
        content: defaultdict[int, bytes],
    ) -> None:
        match event:
            case RequestReceived(stream_id=int(stream), headers=headers):
                pairs = ((_text(name), _text(value)) for name, value in headers)
                fields[stream] = dict(pairs)
            case DataReceived(stream_id=int(stream), data=data, flow_controlled_length=length):
                content[stream] += data
                connection.h2.acknowledge_received_data(length, stream)
            case StreamEnded(stream_id=int(stream)):
                call = Call(connection, stream, fields.pop(stream), content.pop(stream, b""))
                connection.calls += 1
                self.all_calls.append(call)
                self._on_call(call)
                self._calls.put(call)
            case StreamReset():
                self._resets.put(event)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


@contextlib.contextmanager
def serving(on_call: OnCall, *, streams: int | None = None) -> Iterator[Scripted]:
    """A server while the context lasts; `streams` is how many it allows on a connection."""
    server = Scripted(on_call, streams)
    with chaos.serve(server.script) as listening:
        server.base = listening.base
        yield server


def text(value: str) -> bytes:
    """A message, in its frame, whose field 1 is a short text."""
    raw = value.encode()
    return message(bytes([10, len(raw)]) + raw)
