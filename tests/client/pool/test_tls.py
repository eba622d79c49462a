"""Certificates: whom a client trusts, and what it shows."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from client.face import MakeClient
from client.waits import until
from client.wire.memory import descriptors
from conftest import Own
from peers import chaos, nginx
from peers.authority import Authority, Leaf
from peers.peer import Peer
from trilane.client import errors
from trilane.client._pool import Client
from trilane.client.tls import tls_of


def test_certificates_are_verified_by_default(make_client: MakeClient, server: Peer) -> None:
    with pytest.raises(errors.TLSError) as caught:
        make_client().get(server.url("h2"))
    assert isinstance(caught.value, ssl.SSLError)
    assert isinstance(caught.value, ConnectionError)


def test_verification_can_be_switched_off(make_client: MakeClient, server: Peer) -> None:
    assert make_client(verify=False).get(server.url("h2")).status == 200


@pytest.mark.parametrize("version", ["h2", "h3"])
def test_the_environment_names_authorities(
    make_client: MakeClient, server: Peer, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(server.ca))
    assert make_client(versions=(version,)).get(server.url("h2")).version == version


def test_a_folder_of_authorities(make_client: MakeClient, server: Peer, tmp_path: Path) -> None:
    assert server.ca is not None
    (tmp_path / "ca.pem").write_bytes(server.ca.read_bytes())
    (tmp_path / "readme").write_text("no certificate")
    assert make_client(verify=str(tmp_path)).get(server.url("h2")).status == 200


def test_a_context_of_the_ssl_module(make_client: MakeClient, server: Peer) -> None:
    url = server.url("h2")
    trusting = ssl.create_default_context(cafile=server.ca)
    assert make_client(verify=trusting).get(url).status == 200
    with pytest.raises(errors.TLSError):
        make_client(verify=ssl.create_default_context()).get(url)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    assert make_client(verify=trusting).get(url).status == 200


def test_a_context_that_cannot_be_obeyed(make_client: MakeClient, security: ssl.SSLContext) -> None:
    context = ssl.create_default_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with chaos.serve(chaos.silent, security) as server:
        with pytest.raises(errors.TLSError, match="maximum_version=TLSv1_2"):
            make_client(verify=context).get(server.base)
        assert server.connections == 0


def test_a_context_with_tls_1_3_alone(make_client: MakeClient, leaf: Leaf) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.load_cert_chain(leaf.cert, leaf.key)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    context = ssl.create_default_context(cafile=str(leaf.ca))
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    with chaos.serve(chaos.answer(answer), old) as server:
        assert make_client(verify=context).get(server.base).content == b"hello"
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        with pytest.raises(errors.TLSError):
            make_client(verify=context).get(server.base)


def test_a_name_that_the_certificate_lacks(
    make_client: MakeClient, own: Own, authority: Authority
) -> None:
    peer = own(lambda folder: nginx.start(folder, authority.wrong_name()))
    with pytest.raises(errors.TLSError):
        make_client(verify=str(peer.ca)).get(peer.url("h2"))


def test_a_certificate_that_signs_itself_is_trusted_where_it_is_given(
    make_client: MakeClient, authority: Authority, leaf: Leaf
) -> None:
    own = authority.self_signed()
    security = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    security.load_cert_chain(own.cert, own.key)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    with chaos.serve(chaos.answer(answer), security) as server:
        for verify in (str(own.cert), ssl.create_default_context(cafile=own.cert)):
            assert make_client(verify=verify, versions=("h1",)).get(server.base).content == b"hello"
        for other in (True, str(leaf.ca)):
            with pytest.raises(errors.TLSError, match=r'CA:TRUE.*: trust it with verify="FILE"$'):
                make_client(verify=other, versions=("h1",)).get(server.base)


def test_a_file_of_authorities_that_the_environment_names_and_that_is_not_there(
    make_client: MakeClient, server: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "none.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(errors.TLSError, match=rf"SSL_CERT_FILE names {file}, which cannot be read"):
        make_client().get(server.url("h2"))


def test_a_client_certificate(
    make_client: MakeClient, own: Own, authority: Authority, leaf: Leaf
) -> None:
    peer = own(lambda folder: nginx.start(folder, leaf, client_ca=authority.ca))
    caller = authority.client()
    assert make_client(verify=str(peer.ca)).get(peer.url("h2")).status == 400
    pair = (str(caller.cert), str(caller.key))
    assert make_client(verify=str(peer.ca), cert=pair).get(peer.url("h2")).status == 200
    both = caller.cert.with_name("both.pem")
    both.write_bytes(caller.cert.read_bytes() + caller.key.read_bytes())
    assert make_client(verify=str(peer.ca), cert=str(both)).get(peer.url("h2")).status == 200


def test_files_that_are_missing_or_hold_nothing(tmp_path: Path, leaf: Leaf) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(errors.TLSError, match=r"none\.pem.* cannot be read: No such file"):
        tls_of(str(tmp_path / "none.pem"))
    with pytest.raises(errors.TLSError, match="holds no certificate"):
        tls_of(str(empty))
    with pytest.raises(errors.TLSError, match="no file in the folder"):
        tls_of(str(tmp_path))
    with pytest.raises(errors.TLSError, match=r"key, .*cannot be read|client's key"):
        tls_of(cert=(str(leaf.cert), str(tmp_path / "none.key")))


def test_the_same_settings_share_what_was_loaded(server: Peer, leaf: Leaf) -> None:
    assert server.ca is not None
    assert tls_of() is tls_of(True) is tls_of(None)
    assert tls_of(str(server.ca)) is tls_of(server.ca)
    assert tls_of(str(server.ca)) is not tls_of(str(leaf.ca))
    assert tls_of(False) is not tls_of(True)
    assert tls_of(cert=(str(leaf.cert), str(leaf.key))) is not tls_of()


def test_a_file_that_changes_is_read_again(
    make_client: MakeClient, leaf: Leaf, server: Peer, tmp_path: Path
) -> None:
    assert server.ca is not None
    path = tmp_path / "ca.pem"
    path.write_bytes(leaf.ca.read_bytes())
    before = tls_of(str(path))
    path.write_bytes(server.ca.read_bytes())
    after = tls_of(str(path))
    assert before is not after
    assert make_client(verify=str(path)).get(server.url("h2")).status == 200


def test_a_client_per_request_leaves_nothing_behind(server: Peer) -> None:
    """Only a `Client` may be dropped without a word; an `AsyncClient` belongs to its loop."""
    _one_client_per_request(server)
    before = descriptors()
    _one_client_per_request(server)
    until(lambda: descriptors() <= before)


def _one_client_per_request(server: Peer) -> None:
    for _ in range(20):
        assert Client(verify=str(server.ca)).get(server.url("h2")).status == 200


def test_nobody_listens(make_client: MakeClient) -> None:
    client = make_client()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for scheme in ("http", "https"):
        with pytest.raises(errors.ConnectionRefused, match=str(port)):
            client.get(f"{scheme}://127.0.0.1:{port}/")
