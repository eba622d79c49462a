"""What the tests of `trilane gateway` share."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from peers import embedded
from peers.peer import Peer
from peers.process import HOST
from repository import native

from .library import PATIENCE_S
from .web import Web

Own = Callable[[Callable[[Path], Peer]], Peer]

ECHO = """
syntax = "proto3";
package demo.v1;
import "google/api/annotations.proto";
message Line { string text = 1; }
service Echo {
  rpc Say(Line) returns (Line) { option (google.api.http) = { get: "/say/{text}" }; }
}
"""
SAY = "/demo.v1.Echo/Say"
UNAVAILABLE, UNAVAILABLE_CODE = 503, 14


def gateway(own: Own, *upstreams: str, flags: Sequence[str] = ()) -> Peer:
    """A gateway to these URLs, for one test."""
    return own(lambda folder: embedded.start(native(), folder, gateway_to=upstreams, flags=flags))


def said(*arguments: str, code: int) -> str:
    """The one line with which a command that cannot begin ends."""
    done = subprocess.run(
        [native(), "gateway", "--port", "0", "--tls-port", "0", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, ""), done
    (line,) = done.stderr.splitlines()
    return line


def said_by(web: Web, path: str = "/say/x") -> str:
    """The name of the server that answers."""
    answer = web.ask("GET", path)
    assert answer.status == 200, answer
    name: str = json.loads(answer.content)["text"]
    return name


class Named:
    """grpcio's server of the echo: it answers with its name, and to `hold` when it is let go."""

    def __init__(
        self,
        name: str,
        where: str = f"{HOST}:0",
        *,
        credentials: grpc.ServerCredentials | None = None,
        options: Sequence[tuple[str, Any]] = (),
        threads: int = 4,
    ) -> None:
        self.name = name
        self.count = 0
        self.arrived = threading.Semaphore(0)
        self.let_go = threading.Event()
        same: Any = grpc.unary_unary_rpc_method_handler(self._say)
        handler = grpc.method_handlers_generic_handler("demo.v1.Echo", {"Say": same})
        # Without SO_REUSEPORT a port that is taken is an error, as it has to be.
        self.server = grpc.server(
            futures.ThreadPoolExecutor(threads),
            handlers=[handler],
            options=[("grpc.so_reuseport", 0), *options],
        )
        if credentials is None:
            self.port = self.server.add_insecure_port(where)
        else:
            self.port = self.server.add_secure_port(where, credentials)
        self.server.start()

    @property
    def url(self) -> str:
        """Its address, for `--upstream`."""
        return f"grpc://{HOST}:{self.port}"

    def stop(self) -> None:
        """End it, with the calls that it holds."""
        self.let_go.set()
        self.server.stop(None).wait(PATIENCE_S)

    def _say(self, request: bytes, _: grpc.ServicerContext) -> bytes:
        self.count += 1
        if request[2:] == b"hold":
            self.arrived.release()
            self.let_go.wait(PATIENCE_S)
        name = self.name.encode()
        return bytes([10, len(name)]) + name


@contextlib.contextmanager
def named(*names: str, **settings: Any) -> Iterator[list[Named]]:
    """Servers of these names, each at a port of its own."""
    servers = [Named(name, **settings) for name in names]
    try:
        yield servers
    finally:
        for server in servers:
            server.stop()
