"""The server under test of Connect's conformance suite: `trilane gateway` before a server of gRPC.

The runner of the suite starts a program for each of its settings with a ServerCompatRequest on
stdin, wants a ServerCompatResponse on stdout within ten seconds, each behind four bytes of length,
and ends it by SIGTERM. A gateway in a debug build may take longer on a busy machine. So one gateway
is started before the runner and serves all settings, and what the runner starts only asks it where
it is (`conformance_relay`).
"""

from __future__ import annotations

import io
import json
import signal
import socket
import struct
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import grpc

from peers.conformance_relay import RELAYS

if TYPE_CHECKING:
    from collections.abc import Sequence

_LENGTH = struct.Struct(">I")
_SERVICE = "connectrpc/conformance/v1/service.proto"
_COMPAT = "connectrpc/conformance/v1/server_compat.proto"
_END_S = 4.0
# What the runner asks of every server.
_RECEIVE_LIMIT = 200 * 1024


def _read(stream: IO[bytes] | io.BufferedRWPair, kind: Any) -> Any:
    (length,) = _LENGTH.unpack(stream.read(_LENGTH.size))
    return kind.FromString(stream.read(length))


def _write(stream: IO[bytes] | io.BufferedRWPair, message: Any) -> None:
    content: bytes = message.SerializeToString()
    stream.write(_LENGTH.pack(len(content)) + content)
    stream.flush()


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(_END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _start(running: ExitStack, argv: Sequence[str]) -> tuple[IO[bytes], IO[bytes]]:
    """Start a program that ends with us; its stdin and stdout."""
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    running.callback(_end, child)
    assert child.stdin is not None
    assert child.stdout is not None
    return child.stdin, child.stdout


def _gateway(
    running: ExitStack, messages: Any, program: str, upstream: str, protos: str, folder: str
) -> dict[str, str]:
    """Start the server and the gateway before it; what the gateway says when it is ready."""
    stdin, stdout = _start(running, [upstream])
    wanted = messages.ServerCompatRequest(
        protocol="PROTOCOL_GRPC",
        http_version="HTTP_VERSION_2",
        message_receive_limit=_RECEIVE_LIMIT,
    )
    _write(stdin, wanted)
    behind = _read(stdout, messages.ServerCompatResponse)
    argv = [program, "gateway", "--upstream", f"grpc://{behind.host}:{behind.port}"]
    argv += ["--proto", str(Path(protos) / _SERVICE), "--proto-path", protos]
    argv += ["--port", "0", "--tls-port", "0", "-t", "1", "--state", folder, "--format", "json"]
    _, lines = _start(running, argv)
    ready: dict[str, str] = json.loads(lines.readline())
    return ready


def main(program: str, upstream: str, protos: str, folder: str) -> None:
    """Serve until SIGTERM; `folder` is where the certificates and the socket of relays are.

    Prints a line when relays may ask.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # Where grpc.protos looks for them.
    sys.path.insert(0, protos)
    # What it gives is made at run time.
    messages: Any = grpc.protos(_COMPAT)
    with ExitStack() as running:
        ready = _gateway(running, messages, program, upstream, protos, folder)
        relays = running.enter_context(socket.socket(socket.AF_UNIX))
        relays.bind(str(Path(folder) / RELAYS))
        relays.listen()
        print("ready", flush=True)
        while True:
            relay, _ = relays.accept()
            with relay, relay.makefile("rwb") as stream:
                asked = _read(stream, messages.ServerCompatRequest)
                assert asked.message_receive_limit == _RECEIVE_LIMIT
                base = ready["https" if asked.use_tls else "http"]
                answer = messages.ServerCompatResponse(
                    host="127.0.0.1",
                    port=int(base.rstrip("/").rpartition(":")[2]),
                    pem_cert=Path(ready["cacert"]).read_bytes() if asked.use_tls else b"",
                )
                _write(stream, answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
