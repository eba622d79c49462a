"""Certificates and keys in memory, keys that are encrypted, pins, and the least version of TLS.

For one of the two clients: both have `trilane.client.tls.tls_of` read what they are given.
"""

from __future__ import annotations

import base64
import hashlib
import io
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from client.face import MakeClient
from peers import chaos, nginx
from peers.authority import Authority, Leaf
from peers.peer import Peer
from trilane.client import errors

PASSWORD = "correct horse"  # noqa: S105 - of the tests alone


@pytest.fixture
def kind() -> str:
    return "blocking"


def test_authorities_in_memory(make_client: MakeClient, server: Peer) -> None:
    assert server.ca is not None
    url, pem = server.url("h2"), server.ca.read_bytes()
    for given in (pem, pem.decode(), io.BytesIO(pem), io.StringIO(pem.decode())):
        client = make_client(verify=given, versions=("h2",))
        assert client.get(url).status == 200
    with pytest.raises(errors.TLSError, match="has no -----BEGIN"):
        make_client(verify=b"nothing").get(url)


@pytest.fixture(scope="module")
def demanding(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority, leaf: Leaf
) -> Iterator[Peer]:
    """A server that wants to see a certificate."""
    peer = nginx.start(tmp_path_factory.mktemp("nginx"), leaf, client_ca=authority.ca)
    yield peer
    peer.stop()


def test_a_certificate_in_memory(
    make_client: MakeClient, demanding: Peer, authority: Authority
) -> None:
    caller = authority.client()
    cert, key = caller.cert.read_bytes(), caller.key.read_text()
    for given in ((cert, key), cert + key.encode(), (io.BytesIO(cert), str(caller.key))):
        client = make_client(verify=str(demanding.ca), cert=given)
        assert client.get(demanding.url("h2")).status == 200


@pytest.mark.parametrize(
    "how",
    # In a build for tests, which is not optimised, 16,384 rounds of scrypt take seconds.
    [
        ("-v2", "aes-256-cbc"),
        ("-v2", "aes-128-cbc"),
        ("-scrypt", "-scrypt_N", "64"),
        ("-v2", "des3"),
    ],
)
def test_a_key_that_is_encrypted(
    make_client: MakeClient,
    demanding: Peer,
    authority: Authority,
    tmp_path: Path,
    how: tuple[str, ...],
) -> None:
    caller = authority.client()
    key = tmp_path / "encrypted.key"
    _openssl(
        "pkcs8", "-topk8", "-in", caller.key, "-out", key, "-passout", f"pass:{PASSWORD}", *how
    )
    url, cert = demanding.url("h2"), str(caller.cert)
    for password in (PASSWORD, PASSWORD.encode()):
        client = make_client(verify=str(demanding.ca), cert=(cert, str(key), password))
        assert client.get(url).status == 200
    both = caller.cert.read_bytes() + key.read_bytes()
    client = make_client(verify=str(demanding.ca), cert=(both, None, PASSWORD))
    assert client.get(url).status == 200
    with pytest.raises(errors.TLSError, match="cannot be decrypted"):
        make_client(verify=str(demanding.ca), cert=(cert, str(key), "wrong")).get(url)
    with pytest.raises(errors.TLSError, match="give its password"):
        make_client(verify=str(demanding.ca), cert=(cert, str(key))).get(url)


def test_a_key_encrypted_in_the_old_way(
    make_client: MakeClient, demanding: Peer, authority: Authority, tmp_path: Path
) -> None:
    caller = authority.client()
    key = tmp_path / "old.key"
    _openssl("ec", "-in", caller.key, "-out", key, "-aes128", "-passout", f"pass:{PASSWORD}")
    assert "Proc-Type: 4,ENCRYPTED" in key.read_text()
    client = make_client(verify=False, cert=(str(caller.cert), str(key), PASSWORD))
    with pytest.raises(errors.TLSError, match="openssl pkcs8 -topk8"):
        client.get(demanding.url("h2"))


@pytest.mark.parametrize("listener", ["h1s", "h2", "h3"])
def test_pins(make_client: MakeClient, server: Peer, listener: str) -> None:
    url = server.url(listener)
    host, port = url.split("/")[2].rsplit(":", 1)
    tcp = server.url("h2").split("/")[2].rsplit(":", 1)
    del port
    certificate = x509.load_pem_x509_certificate(
        ssl.get_server_certificate((tcp[0], int(tcp[1]))).encode()
    )
    info = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    digest = base64.b64encode(hashlib.sha256(info).digest()).decode()
    other = base64.b64encode(bytes(32)).decode()
    right, wrong = f"sha256//{digest}", f"sha256/{other}"
    settings: dict[str, Any] = {"versions": (listener[:2],), "verify": str(server.ca)}
    for pins in (right, [wrong, right], {host: right}, {"elsewhere.example": wrong}):
        assert make_client(**settings, pins=pins).get(url).status == 200
    # Also where certificates are not verified.
    settings["verify"] = False
    assert make_client(**settings, pins=right).get(url).status == 200
    refusing: list[Any] = [wrong, {host.upper(): [wrong]}]
    for others in refusing:
        with pytest.raises(errors.TLSError, match="none of those that are pinned"):
            make_client(**settings, pins=others).get(url)


@pytest.mark.parametrize("pin", ["md5//xxxx", "sha256//xxxx", "sha256//", "no pin"])
def test_what_is_no_pin(make_client: MakeClient, pin: str) -> None:
    with pytest.raises(ValueError, match="32 bytes of a SHA-256 in base64"):
        make_client(pins=pin)


def test_the_least_version(make_client: MakeClient, leaf: Leaf) -> None:
    security = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    security.load_cert_chain(leaf.cert, leaf.key)
    security.maximum_version = ssl.TLSVersion.TLSv1_2
    with chaos.serve(chaos.silent, security) as server:
        with pytest.raises(errors.TLSError, match=r"TLS|alert"):
            make_client(verify=str(leaf.ca), minimum_tls="TLSv1.3").get(server.base)
        client = make_client(verify=str(leaf.ca), minimum_tls="TLSv1.2", timeout=0.2)
        with pytest.raises(errors.ReadTimeout):
            client.get(server.base)
    with pytest.raises(ValueError, match=r"TLSv1\.1"):
        make_client(minimum_tls="TLSv1.1")


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(
        ["openssl", *map(str, arguments)],  # noqa: S607 - as the authority's
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
