"""A server by grpcio whose bidirectional method answers in ways that a library does not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import grpc

from .grpc_schema import SERVICE

Answer: TypeAlias = Callable[[Iterator[bytes]], Iterator[bytes]]
_THREADS = 16
_EMPTY = b""


@dataclass
class Heard:
    """What the server has heard, over all calls."""

    base: str
    messages: list[int] = field(default_factory=list)
    """Of each call that was read to its end, how many messages came."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ended(self, count: int) -> None:
        """A call whose caller has ended its direction."""
        with self.lock:
            self.messages.append(count)


def one_in(every: int) -> Answer:
    """An empty answer to each so-manieth message."""

    def answer(messages: Iterator[bytes]) -> Iterator[bytes]:
        for number, _ in enumerate(messages, 1):
            if number % every == 0:
                yield _EMPTY

    return answer


def several(count: int) -> Answer:
    """So many empty answers to each message."""

    def answer(messages: Iterator[bytes]) -> Iterator[bytes]:
        for _ in messages:
            yield from [_EMPTY] * count

    return answer


def until(last: int) -> Answer:
    """An answer to each of so many messages; with the last the server ends the call."""

    def answer(messages: Iterator[bytes]) -> Iterator[bytes]:
        for number, _ in enumerate(messages, 1):
            yield _EMPTY
            if number == last:
                return

    return answer


@contextmanager
def serve(answer: Answer, address: str = "127.0.0.1:0") -> Iterator[Heard]:
    """A server at this address whose LookUpBooks answers so."""
    heard: Heard

    def counted(messages: Iterator[bytes]) -> Iterator[bytes]:
        count = 0
        for message in messages:
            count += 1
            yield message
        heard.ended(count)

    def behave(messages: Iterator[bytes], _context: grpc.ServicerContext) -> Iterator[bytes]:
        return answer(counted(messages))

    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(behave)
    server = grpc.server(futures.ThreadPoolExecutor(_THREADS), options=[("grpc.so_reuseport", 0)])
    handlers = grpc.method_handlers_generic_handler(SERVICE, {"LookUpBooks": handler})
    server.add_generic_rpc_handlers([handlers])
    port = server.add_insecure_port(address)
    heard = Heard(f"http://127.0.0.1:{port}/")
    server.start()
    try:
        yield heard
    finally:
        server.stop(0).wait(5)
