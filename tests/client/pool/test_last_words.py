"""What a client says of a broken peer reaches that peer, however much of its own is unread."""

from __future__ import annotations

import gc
import threading

import pytest

from client.face import MakeClient
from peers.authority import Authority
from peers.broken import (
    LIMIT_S,
    MORE,
    PROTOCOL_ERROR,
    PUSH,
    VIOLATIONS,
    Peer,
    broken,
    security,
    violates,
)
from peers.peer import cleartext, secure
from trilane.client import errors


@pytest.mark.parametrize(("violation", "code"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_goaway_is_read_though_much_is_unread(
    make_client: MakeClient, violation: bytes, code: int
) -> None:
    client = make_client(versions=("h2",))
    with broken(violates(violation)) as (port, heard):
        with pytest.raises(errors.RemoteProtocolError):
            client.get(cleartext(port))
        # It does not take the caller to let go of the connection.
        assert heard.over.wait(LIMIT_S)
    assert heard.error is None
    assert heard.goaway == [code]


def test_goaway_is_read_though_its_connection_is_gone(make_client: MakeClient) -> None:
    go_on = threading.Event()

    def script(peer: Peer) -> None:
        peer.sendall(PUSH)
        assert go_on.wait(LIMIT_S)
        peer.sendall(bytes(MORE))

    client = make_client(versions=("h2",))
    with broken(script) as (port, heard):
        with pytest.raises(errors.RemoteProtocolError):
            client.get(cleartext(port))
        client.close(abort=True)
        del client
        gc.collect()
        go_on.set()
    assert heard.error is None
    assert heard.goaway == [PROTOCOL_ERROR]


def test_goaway_and_close_notify_are_read_over_tls(
    make_client: MakeClient, authority: Authority
) -> None:
    client = make_client(versions=("h2",), verify=str(authority.ca))
    with broken(violates(PUSH), security(authority.local())) as (port, heard):
        with pytest.raises(errors.RemoteProtocolError):
            client.get(secure(port))
        assert heard.over.wait(LIMIT_S)
    # An end without close_notify would be an SSLError.
    assert heard.error is None
    assert heard.goaway == [PROTOCOL_ERROR]
