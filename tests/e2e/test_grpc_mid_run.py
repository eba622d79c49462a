"""What happens to calls while a run is under way: the server dies, or somebody types Ctrl-C."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peers import grpc_python
from peers.peer import Peer

from .grpc_calls import LOOK_UP, PROTO_FLAGS, UNARY, WATCH, Calling
from .loading import Running

if TYPE_CHECKING:
    from peers.authority import Authority
    from peers.running import Peers

Own = Callable[[Callable[[Path], Peer]], Peer]
_KINDS = {"refused", "closed", "reset", "body", "connect", "timeout", "goaway", "status"}


def begin(calling: Calling, body: str, base: str, *arguments: str) -> Running:
    return Running(
        *("--grpc", calling.name, "-b", body, *PROTO_FLAGS, "--h2c", "-c", "2", "-m", "4"),
        *("--warmup", "0s", *arguments, base),
    )


@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("calling", [UNARY, WATCH, LOOK_UP], ids=lambda calling: calling.kind)
def test_the_server_goes(own: Own, authority: Authority, calling: Calling, how: str) -> None:
    peer = own(lambda folder: grpc_python.start(folder, authority.local()))
    running = begin(calling, calling.body, peer.bases["h2c"], "-d", "2s", "--timeout", "2s")
    time.sleep(1.0)
    if how == "killed":
        peer.process.kill()
    else:
        peer.process.stop()
    run = running.wait(20)
    assert run.code == 4, run
    requests = run.checked["requests"]
    assert requests["ok"] > 0
    assert requests["failed"] > 0
    assert set(requests["failures"]) <= _KINDS, requests
    assert run.checked["grpc"]["status"]["OK"] == requests["ok"]


def test_ctrl_c(peers: Peers) -> None:
    running = begin(UNARY, UNARY.body, peers["grpc-python"].bases["h2c"], "-d", "60s")
    time.sleep(1.5)
    running.interrupt()
    run = running.wait(20)
    assert run.code == 130, run
    report = run.checked
    assert report["interrupted"] is True
    assert report["requests"]["ok"] > 0
    assert report["grpc"]["status"] == {"OK": report["requests"]["ok"]}


def test_ctrl_c_in_the_midst_of_a_message(peers: Peers) -> None:
    body = json.dumps({"parent": "shelves/3", "interval": "30s"})
    running = begin(WATCH, body, peers["grpc-python"].bases["h2c"], "-d", "60s")
    time.sleep(1.5)
    running.interrupt()
    run = running.wait(20)
    assert run.code == 130, run
    requests = run.checked["requests"]
    assert requests["abandoned"] == requests["started"] == 8
    assert run.checked["grpc"]["messages"] == {"sent": 8, "received": 8}
