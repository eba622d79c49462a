"""HTTPS records (RFC 9460), from functions and from a server of DNS, with Caddy behind them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from client.face import MakeClient
from peers.peer import Peer
from peers.proxy import proxy
from trilane.client import HTTPSRecord, errors
from trilane.client._flow.records import MOST_ALIASES, usable
from trilane.client.dns import Resolver

# Nothing listens there, and the system says so at once.
REFUSES = 1
ONLY_H3: dict[str, Any] = {"alpn": ("h3",), "no_default_alpn": True}
ONLY_H2: dict[str, Any] = {"alpn": ("h2",), "no_default_alpn": True}


class NameServer:
    """A server of DNS over UDP that answers from lines of a zone, `name type data`."""

    def __init__(self, zone: str, *, fails: frozenset[str] = frozenset()) -> None:
        """`fails`: types that are answered with SERVFAIL."""
        self.asked: list[tuple[str, str]] = []
        self._zone: dict[tuple[str, str], list[str]] = {}
        for line in filter(None, map(str.strip, zone.splitlines())):
            name, kind, data = line.split(maxsplit=2)
            self._zone.setdefault((name, kind), []).append(data)
        self._fails = fails
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            data, sender = self._socket.recvfrom(65_535)
            if not data:
                return
            query = dns.message.from_wire(data)
            [question] = query.question
            name, kind = str(question.name), dns.rdatatype.to_text(question.rdtype)
            self.asked.append((name, kind))
            response = dns.message.make_response(query)
            response.flags |= dns.flags.RA
            known = {there for there, _ in self._zone}
            if kind in self._fails:
                response.set_rcode(dns.rcode.SERVFAIL)
            elif name not in known:
                response.set_rcode(dns.rcode.NXDOMAIN)
            elif (name, kind) in self._zone:
                lines = self._zone[name, kind]
                response.answer.append(dns.rrset.from_text_list(name, 60, "IN", kind, lines))
            self._socket.sendto(response.to_wire(), sender)

    def resolver(self) -> Resolver:
        return Resolver(["127.0.0.1"], port=self.port)

    def close(self) -> None:
        self._socket.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()


@contextlib.contextmanager
def name_server(zone: str, **settings: Any) -> Iterator[NameServer]:
    with contextlib.closing(NameServer(zone, **settings)) as server:
        yield server


@pytest.fixture
def port(caddy_peer: Peer) -> int:
    """Where Caddy has every version over TLS."""
    return urlsplit(caddy_peer.url("h3")).port or 0


def _settings(peer: Peer, **more: Any) -> dict[str, Any]:
    return {"verify": str(peer.ca), "alternatives": "off", **more}


@pytest.mark.parametrize(("record", "version"), [(ONLY_H3, "h3"), (ONLY_H2, "h2"), ({}, "h1")])
def test_the_first_request_is_in_the_version_of_the_record(
    make_client: MakeClient, caddy_peer: Peer, port: int, record: dict[str, Any], version: str
) -> None:
    def resolver(host: str, asked: int) -> list[str | HTTPSRecord]:
        assert (host, asked) == ("localhost", 443)
        return ["127.0.0.1", HTTPSRecord(port=port, **record)]

    client = make_client(**_settings(caddy_peer, resolver=resolver))
    for _ in range(2):
        response = client.get("https://localhost/hello")
        assert (response.version, response.content) == (version, b"hello world")
    assert response.peer == ("127.0.0.1", port)
    assert client.connections == [("https://localhost", version)]


def test_records_of_dns(make_client: MakeClient, caddy_peer: Peer, port: int) -> None:
    zone = f"""
        localhost. A 127.0.0.1
        localhost. HTTPS 1 . alpn=h3 no-default-alpn port={port}
        _{port}._https.localhost. HTTPS 0 alias.example.
        alias.example. HTTPS 1 target.example. alpn=h2 no-default-alpn port={port}
        target.example. A 127.0.0.1
    """
    with name_server(zone) as server:
        client = make_client(**_settings(caddy_peer, resolver=server.resolver()))
        assert client.get("https://localhost/hello").version == "h3"
        assert sorted(server.asked) == [("localhost.", kind) for kind in ("A", "AAAA", "HTTPS")]
        server.asked.clear()
        # The certificate has to be for the name of the URL, whatever the records say.
        assert client.get(f"https://localhost:{port}/hello").version == "h2"
        assert (f"_{port}._https.localhost.", "HTTPS") in server.asked
        assert ("alias.example.", "HTTPS") in server.asked
        assert ("target.example.", "A") in server.asked


@pytest.mark.parametrize("fails", [frozenset({"HTTPS"}), frozenset[str]()])
def test_without_records_it_is_as_before(
    make_client: MakeClient, caddy_peer: Peer, port: int, fails: frozenset[str]
) -> None:
    with name_server("localhost. A 127.0.0.1", fails=fails) as server:
        client = make_client(**_settings(caddy_peer, resolver=server.resolver()))
        assert client.get(f"https://localhost:{port}/hello").version == "h2"


def test_an_alias_without_records_has_addresses(
    make_client: MakeClient, caddy_peer: Peer, port: int
) -> None:
    zone = f"""
        localhost. A 192.0.2.1
        _{port}._https.localhost. HTTPS 0 alias.example.
        alias.example. A 127.0.0.1
    """
    with name_server(zone) as server:
        client = make_client(**_settings(caddy_peer, resolver=server.resolver()))
        response = client.get(f"https://localhost:{port}/hello")
    assert response.peer == ("127.0.0.1", port)


def test_names_that_dns_does_not_know_are_left_to_the_system(
    make_client: MakeClient, caddy_peer: Peer, port: int
) -> None:
    with name_server("other. A 192.0.2.1") as server:
        client = make_client(**_settings(caddy_peer, resolver=server.resolver()))
        assert client.get(f"https://localhost:{port}/hello").status == 200
    failing = frozenset({"A", "AAAA", "HTTPS"})
    with name_server("localhost. A 127.0.0.1", fails=failing) as server:
        client = make_client(**_settings(caddy_peer, resolver=server.resolver()))
        with pytest.raises(errors.ResolveError, match="localhost cannot be resolved"):
            client.get(f"https://localhost:{port}/hello")


def test_no_records_are_asked_for_without_tls_and_for_a_proxy(
    make_client: MakeClient, caddy_peer: Peer, port: int
) -> None:
    zone = "localhost. A 127.0.0.1\nproxy.example. A 127.0.0.1"
    with name_server(zone) as server, proxy() as seen:
        client = make_client(**_settings(caddy_peer, resolver=server.resolver()))
        plain = urlsplit(caddy_peer.url("h1")).port
        assert client.get(f"http://localhost:{plain}/hello").status == 200
        through = f"http://proxy.example:{urlsplit(seen.address).port}"
        client = make_client(**_settings(caddy_peer, resolver=server.resolver(), proxies=through))
        assert client.get(f"https://localhost:{port}/hello").status == 200
    assert "HTTPS" not in {kind for _, kind in server.asked}


@pytest.mark.parametrize(
    "records",
    [
        [{"priority": 2, **ONLY_H3, "port": ...}, {"priority": 1, **ONLY_H2, "port": REFUSES}],
        [{"priority": 2, **ONLY_H3, "port": ...}, {"port": ..., "mandatory": ("alpn", "key999")}],
        [{"priority": 2, **ONLY_H3, "port": ...}, {"port": ..., "mandatory": ("ech",)}],
        [{"priority": 2, **ONLY_H3, "port": ...}, {"alpn": ("h9",), "no_default_alpn": True}],
        [{"ipv4hint": ("127.0.0.1",), "target": "hinted.invalid", **ONLY_H3, "port": ...}],
        [{"target": "known.invalid.", **ONLY_H3, "port": ...}],
        [{"priority": 0, "target": "alias.invalid."}],
    ],
)
def test_what_cannot_be_used_leads_to_the_next(
    make_client: MakeClient, caddy_peer: Peer, port: int, records: list[dict[str, Any]]
) -> None:
    def record(given: Mapping[str, Any]) -> HTTPSRecord:
        filled: dict[str, Any] = {k: port if v is ... else v for k, v in given.items()}
        return HTTPSRecord(**filled)

    resolver: dict[str, Any] = {
        "localhost": ["127.0.0.1", *map(record, records)],
        "known.invalid": "127.0.0.1",
        "alias.invalid": ["127.0.0.1", HTTPSRecord(port=port, **ONLY_H3)],
    }
    client = make_client(**_settings(caddy_peer, resolver=resolver))
    assert client.get("https://localhost/hello").version == "h3"


@pytest.mark.parametrize(
    "records",
    [
        [HTTPSRecord(port=REFUSES)],
        [HTTPSRecord(port=REFUSES), HTTPSRecord(priority=2, port=REFUSES)],
        [HTTPSRecord(alpn=("h9",), no_default_alpn=True)],
        [HTTPSRecord(mandatory=("key7",))],
        [HTTPSRecord(priority=0, target=".")],
        [HTTPSRecord(priority=0, target="localhost")],
    ],
)
def test_in_the_end_the_url_itself_counts(
    make_client: MakeClient, caddy_peer: Peer, port: int, records: list[HTTPSRecord]
) -> None:
    asked = 0

    def resolver(*_: object) -> list[str | HTTPSRecord]:
        nonlocal asked
        asked += 1
        return ["127.0.0.1", *records]

    client = make_client(**_settings(caddy_peer, resolver=resolver))
    assert client.get(f"https://localhost:{port}/hello").version == "h2"
    assert asked <= MOST_ALIASES + 1


def test_the_error_is_that_of_the_last_place(make_client: MakeClient) -> None:
    resolver = {"localhost": ["127.0.0.1", HTTPSRecord(port=REFUSES)]}
    with pytest.raises(errors.ConnectionRefused, match="localhost:2"):
        make_client(resolver=resolver).get("https://localhost:2/")


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (HTTPSRecord(port=70_000), "port 70000"),
        (HTTPSRecord(ipv6hint=("somewhere",)), "hint 'somewhere'"),
    ],
)
def test_a_record_that_is_none(make_client: MakeClient, record: HTTPSRecord, why: str) -> None:
    with pytest.raises(errors.ResolveError, match=why):
        make_client(resolver={"localhost": record}).get("https://localhost/")


def test_equals_take_turns_by_chance() -> None:
    records = [HTTPSRecord(2, f"{n}.example") for n in range(4)] + [HTTPSRecord(1, "first")]
    orders = {tuple(r.target for r in usable(records, ["h1"])) for _ in range(200)}
    assert len(orders) > 1
    assert {order[0] for order in orders} == {"first"}
    assert {len(order) for order in orders} == {5}
