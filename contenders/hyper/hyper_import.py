"""What hyper 0.7, archived in 2020, needs so that Python 3.11 imports it.

Nothing of hyper is changed. Python 3.10 took the abstract classes out of `collections`, where
hyper, h2 2.x and hyperframe 3.x look for them. Python 3.12 took more (`ssl.match_hostname`), so
the environment stays below it.
"""

from __future__ import annotations

import collections
import collections.abc
import io
import socket
import ssl
from importlib import import_module
from typing import Any, cast

from trilane_contender.plan import Plan

_PIECE = 1024
# More than a response's head takes, less than its buffer of 64 KiB.
_HEAD = 16_384
_MOVED = ("Iterable", "Mapping", "MutableMapping", "MutableSet")


def prepare() -> None:
    """Put back what has moved; to be called before hyper is imported."""
    for name in _MOVED:
        setattr(collections, name, getattr(collections.abc, name))


def limit(timeout_s: float) -> None:
    """Let the plan's timeout hold. hyper has none to set; its sockets take the process's default.

    Only its HTTP/1.1 connection, which also begins those over TLS, asks for a fixed 5 s.
    """
    socket.setdefaulttimeout(timeout_s)
    vars(import_module("hyper.http11.connection"))["socket"] = _DefaultTimeout


def whole(body: bytes | None) -> bytes | io.BytesIO | None:
    """A request body in the form that hyper ends over HTTP/2.

    It sends 1024 bytes at a time and ends the stream with a piece that is shorter. So it never ends
    bytes whose length is a multiple of that, but does end a file, whose last piece is empty.
    """
    if body and len(body) % _PIECE == 0:
        return io.BytesIO(body)
    return body


def make_room(connection: Any) -> None:
    """Let an HTTP/1.1 connection of hyper, whose request is sent, read the response's head.

    Before hyper reads, it looks whether all of its buffer is consumed, and not whether there is
    room behind what has arrived. Where the buffer's end falls into a head it asks the socket for no
    bytes, gets none and takes that for the end of the connection. Its `new_buffer` begins anew.
    """
    buffer = connection._sock  # noqa: SLF001
    if buffer._remaining_capacity < _HEAD:  # noqa: SLF001
        buffer.new_buffer()


class _DefaultTimeout:
    """The one function of `socket` that hyper's HTTP/1.1 connection calls."""

    @staticmethod
    def create_connection(address: tuple[str, int], _timeout_s: float) -> socket.socket:
        return socket.create_connection(address)


def trust(plan: Plan) -> ssl.SSLContext:
    """hyper's own context with the plan's authority; for HTTP/1.1, without an offer of HTTP/2."""
    context = cast("ssl.SSLContext", import_module("hyper.tls").init_context(plan.cacert))
    context.set_alpn_protocols(["http/1.1"] if plan.version == "h1" else ["h2"])
    return context
