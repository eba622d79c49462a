"""A gRPC server that answers everything alike and remembers what it was sent, by the h2 package."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events

from .chaos import Chaos, serve
from .grpc_chaos import BOOK, GRPC, Fields, message


@dataclass
class Call:
    """What came on one stream."""

    fields: Fields
    content: bytes = b""
    ended: bool = False
    answered: int = 0
    """Messages that were sent back."""
    early: int = 0
    """Messages that came while one before them had no answer yet."""

    def field(self, name: str) -> str | None:
        """The only field of that name; none where there is none."""
        found = [value for key, value in self.fields if key == name]
        assert len(found) <= 1, self.fields
        return found[0] if found else None

    @property
    def messages(self) -> list[tuple[int, bytes]]:
        """Flag byte and payload of each whole message."""
        found, at = [], 0
        while at + 5 <= len(self.content):
            flag, length = struct.unpack_from(">BI", self.content, at)
            if at + 5 + length > len(self.content):
                break
            found.append((flag, self.content[at + 5 : at + 5 + length]))
            at += 5 + length
        return found


@dataclass
class Recorder:
    """A running server and its calls in the order of their heads."""

    server: Chaos
    calls: list[Call] = field(default_factory=list)


class _Conversation:
    """One connection."""

    def __init__(self, calls: list[Call], *, each: bool) -> None:
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self.h2.initiate_connection()
        self._calls = calls
        self._each = each
        self._open: dict[int, Call] = {}

    def hear(self, data: bytes) -> None:
        """Take what the client sent."""
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                call = Call([(str(name), str(value)) for name, value in event.headers])
                self._open[event.stream_id] = call
                self._calls.append(call)
                self.h2.send_headers(event.stream_id, GRPC)
            elif isinstance(event, h2.events.DataReceived):
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self._open[event.stream_id].content += event.data
            elif isinstance(event, h2.events.StreamEnded):
                self._open[event.stream_id].ended = True
            elif isinstance(event, h2.events.StreamReset):
                self._open.pop(event.stream_id, None)

    def answer(self) -> None:
        """Send what is due."""
        for stream, call in list(self._open.items()):
            due = len(call.messages) - call.answered if self._each else int(call.ended)
            call.early += max(due - 1, 0)
            for _ in range(due):
                self.h2.send_data(stream, message(BOOK))
                call.answered += 1
            if call.ended:
                self.h2.send_headers(stream, [("grpc-status", "0")], end_stream=True)
                del self._open[stream]


@contextmanager
def recorder(*, each: bool = False, pause_s: float = 0.0) -> Iterator[Recorder]:
    """Run one. It answers a call at its end with one message, or `each` message with one.

    The answer to a message comes `pause_s` seconds after it.
    """
    calls: list[Call] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = _Conversation(calls, each=each)
        writer.write(conversation.h2.data_to_send())
        while data := await reader.read(65536):
            conversation.hear(data)
            await asyncio.sleep(pause_s)
            conversation.answer()
            writer.write(conversation.h2.data_to_send())
            await writer.drain()

    with serve(script) as server:
        yield Recorder(server, calls)
