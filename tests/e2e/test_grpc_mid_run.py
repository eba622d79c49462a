"""What happens to calls while a run is under way: the server dies, or somebody types Ctrl-C."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from peers import chaos, grpc_python
from peers.grpc_chaos import GRPC, headers, message
from peers.h2_chaos import DATA, HEADERS, PING, SETTINGS, frame
from peers.peer import Peer

from .grpc_calls import LOOK_UP, PROTO_FLAGS, UNARY, WATCH, Calling
from .loading import Running, Watched

if TYPE_CHECKING:
    from peers.authority import Authority
    from peers.running import Peers

Own = Callable[[Callable[[Path], Peer]], Peer]
_KINDS = {"refused", "closed", "reset", "body", "connect", "timeout", "goaway", "status"}


def begin(calling: Calling, base: str, *arguments: str) -> Watched:
    return Watched(
        *("--grpc", calling.name, "-b", calling.body, *PROTO_FLAGS, "--h2c", "-c", "2", "-m", "4"),
        *(*arguments, base),
    )


def test_the_server_goes(own: Own, authority: Authority) -> None:
    peer = own(lambda folder: grpc_python.start(folder, authority.local()))
    # Without a duration: the run ends when no connection has been made for the longer timeout.
    end = ["-n", "1000000000", "--timeout", "1s", "--connect-timeout", "5s"]
    running = begin(LOOK_UP, peer.bases["h2c"], *end)
    running.until_ok()
    peer.process.kill()
    run = running.wait()
    assert run.code == 4, run
    requests = run.checked["requests"]
    assert requests["ok"] > 0
    assert requests["failed"] > 0
    assert set(requests["failures"]) <= _KINDS, requests
    assert run.checked["grpc"]["status"]["OK"] == requests["ok"]


def test_ctrl_c(peers: Peers) -> None:
    running = begin(UNARY, peers["grpc-python"].bases["h2c"], "-d", "1h", "--warmup", "0s")
    running.until_ok()
    running.interrupt()
    run = running.wait()
    assert run.code == 130, run
    report = run.checked
    assert report["interrupted"] is True
    assert report["requests"]["ok"] > 0
    assert report["grpc"]["status"] == {"OK": report["requests"]["ok"]}


def test_ctrl_c_in_the_midst_of_a_message() -> None:
    begun = threading.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send one message of each stream, then see by a PING that the client has read them."""
        await reader.readexactly(len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
        writer.write(frame(SETTINGS, 0, 0))
        streams = 0
        while True:
            head = await reader.readexactly(9)
            await reader.readexactly(int.from_bytes(head[:3]))
            if head[3] == HEADERS:
                stream = int.from_bytes(head[5:9])
                writer.write(headers(stream, GRPC) + frame(DATA, 0, stream, message()))
                # The beginning of a second message.
                writer.write(frame(DATA, 0, stream, message()[:-1]))
                streams += 1
                if streams == 8:
                    writer.write(frame(PING, 0, 0, b"8 octets"))
            elif head[3] == PING:
                begun.set()

    with chaos.serve(script) as server:
        arguments = ["-c", "1", "-m", "8", "-d", "1h", "--warmup", "0s", server.base]
        running = Running("--grpc", WATCH.name, "-b", WATCH.body, *PROTO_FLAGS, "--h2c", *arguments)
        assert begun.wait(120)
        running.interrupt()
        run = running.wait()
    assert run.code == 130, run
    requests = run.checked["requests"]
    assert requests["abandoned"] == requests["started"] == 8
    assert run.checked["grpc"]["messages"] == {"sent": 8, "received": 8}
