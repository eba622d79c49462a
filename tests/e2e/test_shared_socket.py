"""HTTP/3 connections of a thread that share one UDP socket, as servers of others see them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import pytest

from client.wire import h3_chaos
from peers.process import free_port

from .loading import load

if TYPE_CHECKING:
    from aioquic.quic.connection import NetworkAddress

    from peers.authority import Leaf
    from peers.running import Peers

SHARED = "--quic-shared-socket"


class Server(h3_chaos.Server):
    """Keeps from which address and port each connection's datagrams came."""

    came: ClassVar[dict[int, set[tuple[str, int]]]] = {}

    def datagram_received(self, data: bytes | str, addr: NetworkAddress) -> None:
        self.came.setdefault(id(self), set()).add((str(addr[0]), int(addr[1])))
        super().datagram_received(data, addr)


def answer(server: h3_chaos.Server, stream: int) -> None:
    server.send(stream, h3_chaos.response(), end=True)


@pytest.mark.parametrize(
    ("arguments", "sockets"),
    [
        ([SHARED], {"127.0.0.1": 1}),
        ([SHARED, "-t", "2"], {"127.0.0.1": 2}),
        ([SHARED, "--bind", "127.0.0.2,127.0.0.3"], {"127.0.0.2": 1, "127.0.0.3": 1}),
        ([], {"127.0.0.1": 8}),
    ],
)
def test_a_server_sees_one_port_for_each_thread(
    leaf: Leaf, arguments: list[str], sockets: dict[str, int]
) -> None:
    Server.came.clear()
    with h3_chaos.serve(answer, leaf, Server) as port:
        route = ["--h3", "--cacert", str(leaf.ca), "-c", "8", "-m", "4", "-n", "400"]
        report = load(*route, *arguments, f"https://localhost:{port}/").good
    assert report["requests"]["ok"] == 400
    assert report["connections"]["established"] == 8
    assert report["plan"]["asked"]["quic_shared_socket"] == (SHARED in arguments)
    # Eight connections, each from one place.
    assert len(Server.came) == 8
    assert all(len(places) == 1 for places in Server.came.values())
    ports = set().union(*Server.came.values())
    assert Counter(address for address, _ in ports) == sockets


@pytest.mark.parametrize("peer", ["embedded", "caddy"])
def test_bodies_come_whole_to_their_connections(peers: Peers, peer: str) -> None:
    arguments = ["--h3", "-k", SHARED, "-c", "8", "-m", "4", "-n", "800", "--check-body"]
    url = peers[peer].bases["h3"] + ("/bytes/16k" if peer == "embedded" else "/bytes/16384")
    report = load(*arguments, url).good
    assert report["requests"]["ok"] == 800
    assert report["target"]["body"]["bytes"] == 16384
    assert report["bytes"]["datagrams_received"] >= 800 * 16384 / 1500


def test_connections_are_replaced_on_the_same_socket(peers: Peers) -> None:
    arguments = ["--h3", "-k", SHARED, "-c", "4", "-n", "200", "--requests-per-connection", "5"]
    report = load(*arguments, peers["embedded"].url("h3")).good
    assert report["requests"]["ok"] == 200
    assert report["connections"]["established"] >= 40


def test_a_closed_port_is_told() -> None:
    run = load("--h3", SHARED, "-c", "8", "-n", "8", f"https://127.0.0.1:{free_port()}/")
    assert run.code == 1, run
    assert "its UDP port is closed" in run.message
