"""`trilane gateway` before servers whose services change."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hangups import hangups
from peers import embedded
from peers.peer import Peer
from peers.process import HOST, free_port, wait_until
from peers.running import Peers
from repository import native

from .gateways import UNAVAILABLE, Own, gateway, named, said_by
from .web import Web

NOT_FOUND, UNIMPLEMENTED = 404, 501


@pytest.fixture
def changing(own: Own, peers: Peers, proto: Path) -> Iterator[tuple[int, Peer, str]]:
    """A port, a server of the library there, and the URL of another of the echo.

    All that describe their services are gateways, whose port can be chosen.
    """
    with named("a") as (server,):
        port = free_port()
        library = own(
            lambda folder: embedded.start(
                native(), folder, ports=(port, 0), gateway_to=[peers["grpc-go"].bases["h2c"]]
            )
        )
        yield port, library, server.url


def test_services_are_read_again_when_the_server_is_another(
    own: Own, changing: tuple[int, Peer, str], files: tuple[str, ...]
) -> None:
    port, library, echo = changing
    peer = gateway(own, f"grpc://{HOST}:{port}")
    # Its connection to the first stays, so that only the time has it ask.
    behind = gateway(own, peer.bases["h2c"], flags=("--reflect-every", "200ms"))
    log = peer.process.log
    book = "/v1/shelves/1/books/1"
    with Web.open(peer, "h1") as web:
        assert web.ask("GET", book).status == 200
        assert web.ask("GET", "/say/x").status == NOT_FOUND
        library.stop()
        wait_until(lambda: "stay as they were" in log.read_text(), "it says that they stay")
        assert web.ask("GET", book).status == UNAVAILABLE
        own(
            lambda folder: embedded.start(
                native(), folder, ports=(port, 0), gateway_to=[echo], flags=files
            )
        )
        wait_until(lambda: "has other services" in log.read_text(), "it says that they changed")
        assert said_by(web) == "a"
        assert web.ask("GET", book).status == NOT_FOUND
    wait_until(lambda: "has other services" in behind.process.log.read_text(), "so does the other")
    with Web.open(behind, "h1") as web:
        assert said_by(web) == "a"
    changed = [line for line in log.read_text().splitlines() if "has other services" in line]
    assert changed == [
        f"trilane gateway: grpc://{HOST}:{port} has other services than before: demo.v1.Echo"
    ]


def test_a_hangup_reads_the_services_again(
    own: Own, tmp_path: Path, proto: Path, peers: Peers
) -> None:
    with named("a") as (server,):
        described = tmp_path / "demo.proto"
        described.write_text(proto.read_text())
        rules = tmp_path / "rules.yaml"
        rule = (
            "type: google.api.Service\nhttp:\n  rules:\n"
            "  - selector: demo.v1.Echo.Say\n    get: /{}/{{text}}\n"
        )
        rules.write_text(rule.format("first"))
        flags = ("--proto", str(described), "--service-config", str(rules))
        with hangups(signal.SIG_DFL):
            peer = gateway(own, server.url, flags=flags)
        log = peer.process.log

        def hang_up(told: str, times: int) -> None:
            peer.process.signal(signal.SIGHUP)
            wait_until(lambda: log.read_text().count(told) == times, told)

        with Web.open(peer, "h1") as web:
            assert said_by(web, "/first/x") == "a"
            assert web.ask("GET", "/more/x").status == NOT_FOUND
            # A method that the server does not have.
            more = (
                'rpc More(Line) returns (Line) { option (google.api.http).get = "/more/{text}"; }'
            )
            described.write_text(
                proto.read_text().replace("service Echo {", f"service Echo {{ {more}")
            )
            hang_up("SIGHUP: the services were read again", 1)
            assert web.ask("GET", "/more/x").status == UNIMPLEMENTED
            rules.write_text(rule.format("tell"))
            hang_up("SIGHUP: the services were read again", 2)
            assert said_by(web, "/tell/x") == "a"
            assert web.ask("GET", "/first/x").status == NOT_FOUND
            # What cannot be read changes nothing.
            described.write_text("nonsense")
            hang_up("stay as they were", 1)
            assert said_by(web, "/tell/x") == "a"
