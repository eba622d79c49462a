"""Encrypted Client Hello (RFC 9849), with Go's server, and what the network sees of it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from client.face import AnyClient, MakeClient
from peers import gonet
from peers.authority import Authority, Leaf
from peers.peer import Peer
from trilane.client import Client, HTTPSRecord, errors

PUBLIC = b"public.test"
SECRET = b"secret.test"


class Wire:
    """A forwarder of TCP that keeps what clients sent."""

    def __init__(self, port: int) -> None:
        self.sent: list[bytes] = []
        """By connection."""
        self._there = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            client, _ = self._socket.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self._there))
            except OSError:
                client.close()
                return
            number = len(self.sent)
            self.sent.append(b"")
            self._ends += [client, server]
            for source, target in ((client, server), (server, client)):
                keeps = number if source is client else None
                thread = threading.Thread(target=self._pass, args=(source, target, keeps))
                self._threads.append(thread)
                thread.start()

    def _pass(self, source: socket.socket, target: socket.socket, number: int | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if number is not None:
                    self.sent[number] += data
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        # The listener wakes for one connection more, to a server that is none.
        self._there = 1
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._threads[0].join()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in (*self._ends, self._socket):
            end.close()


@pytest.fixture(scope="module")
def leaf(authority: Authority) -> Leaf:
    """For both names."""
    return authority._leaf("ech", f"DNS:{SECRET.decode()}, DNS:{PUBLIC.decode()}")


def _start(folder: Path, leaf: Leaf, *, retry: bool = True) -> tuple[Peer, bytes]:
    peer = gonet.start(folder, leaf, ech_name=PUBLIC.decode(), ech_retry=retry)
    return peer, (folder / "ech").read_bytes()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, leaf: Leaf) -> Iterator[tuple[Peer, bytes]]:
    peer, configs = _start(tmp_path_factory.mktemp("ech"), leaf)
    yield peer, configs
    peer.stop()


@pytest.fixture(scope="module")
def other_configs(tmp_path_factory: pytest.TempPathFactory, leaf: Leaf) -> bytes:
    """Of a key that the server does not have."""
    peer, configs = _start(tmp_path_factory.mktemp("other"), leaf)
    peer.stop()
    return configs


@contextlib.contextmanager
def _wire(peer: Peer) -> Iterator[Wire]:
    with contextlib.closing(Wire(urlsplit(peer.bases["h2"]).port or 0)) as wire:
        yield wire


def _client(
    make_client: MakeClient, leaf: Leaf, port: int, configs: bytes | None, *, ech: bool = True
) -> AnyClient:
    record = HTTPSRecord(alpn=("h3", "h2"), port=port, ech=configs)
    resolver = {SECRET.decode(): ["127.0.0.1", record]}
    return make_client(verify=str(leaf.ca), resolver=resolver, ech=ech, alternatives="off")


@pytest.mark.parametrize("version", ["h2", "h1"])
def test_the_network_does_not_see_the_name(
    make_client: MakeClient, leaf: Leaf, server: tuple[Peer, bytes], version: str
) -> None:
    peer, configs = server
    with _wire(peer) as wire:
        record = HTTPSRecord(alpn=("h2",), port=wire.port, ech=configs, mandatory=("ech",))
        resolver = {SECRET.decode(): ["127.0.0.1", record]}
        settings = {"verify": str(leaf.ca), "resolver": resolver, "versions": (version,)}
        client = make_client(**settings, ech=True)
        for _ in range(2):
            response = client.get(f"https://{SECRET.decode()}/ech")
            assert response.text == f"true {SECRET.decode()}"
        info = response.tls_info
        assert info is not None
        assert (response.version, info["ech"], info["version"]) == (version, True, "TLSv1.3")
        client.close(abort=True)
    [sent] = wire.sent
    assert PUBLIC in sent
    assert SECRET not in sent


def test_it_is_not_used_unless_it_is_asked_for(
    make_client: MakeClient, leaf: Leaf, server: tuple[Peer, bytes]
) -> None:
    peer, configs = server
    with _wire(peer) as wire:
        client = _client(make_client, leaf, wire.port, configs, ech=False)
        response = client.get(f"https://{SECRET.decode()}/ech")
        assert response.text == f"false {SECRET.decode()}"
        assert response.tls_info is not None
        assert response.tls_info["ech"] is False
        client.close(abort=True)
    assert SECRET in wire.sent[0]


def test_a_server_with_another_key_gives_it(
    make_client: MakeClient, leaf: Leaf, server: tuple[Peer, bytes], other_configs: bytes
) -> None:
    peer, _ = server
    with _wire(peer) as wire:
        client = _client(make_client, leaf, wire.port, other_configs)
        response = client.get(f"https://{SECRET.decode()}/ech")
        assert response.text == f"true {SECRET.decode()}"
        client.close(abort=True)
    assert len(wire.sent) == 2
    assert not any(SECRET in sent for sent in wire.sent)


def test_a_server_that_gave_it_up_is_asked_without(
    make_client: MakeClient, leaf: Leaf, other_configs: bytes, tmp_path: Path
) -> None:
    peer, _ = _start(tmp_path, leaf, retry=False)
    try:
        with _wire(peer) as wire:
            client = _client(make_client, leaf, wire.port, other_configs)
            response = client.get(f"https://{SECRET.decode()}/ech")
            assert response.text == f"false {SECRET.decode()}"
            client.close(abort=True)
        assert SECRET not in wire.sent[0]
        assert SECRET in wire.sent[1]
    finally:
        peer.stop()


def test_a_certificate_for_another_public_name_ends_it(
    make_client: MakeClient, authority: Authority, other_configs: bytes, tmp_path: Path
) -> None:
    """Who is in between could else have the name told without encryption."""
    alone = authority._leaf("secret-alone", f"DNS:{SECRET.decode()}")
    peer, _ = _start(tmp_path, alone)
    try:
        with _wire(peer) as wire:
            client = _client(make_client, alone, wire.port, other_configs)
            with pytest.raises(errors.TLSError, match="certificate"):
                client.get(f"https://{SECRET.decode()}/ech")
            client.close(abort=True)
        assert not any(SECRET in sent for sent in wire.sent)
    finally:
        peer.stop()


def test_what_fails_does_not_tell_the_name_in_the_end(
    make_client: MakeClient, leaf: Leaf, server: tuple[Peer, bytes]
) -> None:
    """All records have keys: the URL itself is not tried (RFC 9460 §3.1)."""
    peer, configs = server
    with _wire(peer) as wire:
        client = _client(make_client, leaf, 1, configs)
        with pytest.raises(errors.ConnectionRefused):
            client.get(f"https://{SECRET.decode()}:{wire.port}/ech")
        assert wire.sent == []


def test_keys_that_cannot_be_used_are_an_error(
    make_client: MakeClient, leaf: Leaf, server: tuple[Peer, bytes]
) -> None:
    port = urlsplit(server[0].bases["h2"]).port or 0
    client = _client(make_client, leaf, port, b"\x00\x04\xfe\x0d\x00\x00")
    with pytest.raises(errors.TLSError, match="configuration of Encrypted Client Hello"):
        client.get(f"https://{SECRET.decode()}/ech")


def test_records_without_keys_are_used_as_they_are(
    make_client: MakeClient, leaf: Leaf, server: tuple[Peer, bytes]
) -> None:
    port = urlsplit(server[0].bases["h2"]).port or 0
    record = HTTPSRecord(alpn=("h2",), port=port)
    resolver = {SECRET.decode(): ["127.0.0.1", record]}
    client = make_client(verify=str(leaf.ca), resolver=resolver, ech=True, versions=("h2",))
    assert client.get(f"https://{SECRET.decode()}/ech").text == f"false {SECRET.decode()}"


def test_without_a_resolver_there_are_no_keys() -> None:
    with pytest.raises(ValueError, match=r"ech=True needs HTTPS records.*trilane\.client\.dns"):
        Client(ech=True)


def test_a_socket_of_unix_has_nothing_to_look_up() -> None:
    with pytest.raises(ValueError, match=r"unix='/a' is where .* leave resolver= out"):
        Client(unix="/a", resolver={"a": ["127.0.0.1"]})
