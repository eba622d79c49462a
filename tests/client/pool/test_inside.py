"""What is seen of requests from inside: times, bytes, both ends, hooks, and what is logged."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
from typing import Any

import pytest

from client.face import AnyClient, Each, LoopClient, MakeClient
from peers import chaos
from peers.chaos import Script
from peers.peer import Peer
from trilane.client import errors

CONTENT = b"as it is sent " * 100


def test_nothing_is_measured_unless_asked_for(client: AnyClient, server: Peer) -> None:
    response = client.get(server.url("h2"))
    assert (response.timings, response.traffic) == (None, None)


def test_the_first_request_has_the_times_of_its_connection(
    make_client: MakeClient, server: Peer
) -> None:
    steps = {
        "h1": {"connect"},
        "h1s": {"connect", "tls"},
        "h2c": {"connect"},
        "h2": {"connect", "tls"},
        "h3": {"quic"},
    }
    for listener, wanted in steps.items():
        client = make_client(versions=(listener[:2],), verify=str(server.ca), timings=True)
        first, second = (client.get(server.url(listener)).timings for _ in range(2))
        assert first is not None
        assert second is not None
        made = first._asdict()
        ours = {"dns", "connect", "tunnel", "tls", "quic"}
        # The listener's address may be a name, which is looked up then.
        assert {name for name in ours if made[name] is not None} - {"dns"} == wanted, listener
        assert all(second._asdict()[name] is None for name in ours)
        for timings in (first, second):
            assert timings.first_byte is not None
            assert timings.body is not None
            assert min(step for step in timings if step is not None) >= 0
            assert timings.total == pytest.approx(sum(step for step in timings if step))


def test_a_name_that_is_looked_up_takes_its_time(make_client: MakeClient, server: Peer) -> None:
    port = server.url("h1").rpartition(":")[2]
    timings = make_client(timings=True).get(f"http://localhost:{port}").timings
    assert timings is not None
    assert timings.dns is not None


def test_what_is_not_over_has_no_body_time(make_client: MakeClient) -> None:
    go_on = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loops.append(asyncio.get_running_loop())
        await chaos.request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhe")
        await go_on.wait()
        writer.write(b"re")

    with chaos.serve(script) as server:
        client = make_client(timings=True)
        with client.stream("GET", server.base) as response:
            assert response.read(2) == b"he"
            timings, traffic = response.timings, response.traffic
            assert timings is not None
            assert timings.first_byte is not None
            assert timings.body is None
            assert traffic is not None
            assert traffic.response_content == 2
            loops[0].call_soon_threadsafe(go_on.set)
            assert response.read(2) == b"re"
            timings = response.timings
            assert timings is not None
            assert timings.body is not None


def test_bytes_are_those_of_the_message(make_client: MakeClient, server: Peer) -> None:
    for listener in ("h1", "h2", "h3"):
        client = make_client(versions=(listener,), verify=str(server.ca), timings=True)
        for content in (CONTENT, iter([CONTENT[:100], CONTENT[100:]])):
            response = client.post(server.url(listener, server.upload), content)
            traffic = response.traffic
            assert traffic is not None
            assert traffic.request_content == len(CONTENT)
            assert traffic.response_content == len(response.content)
            size = sum(len(name) + len(value) for name, value in response.fields)
            assert traffic.response_fields == size
            assert traffic.request_fields > 0


def test_both_ends_are_told_after_the_response_too(each: Each, server: Peer) -> None:
    client, version, base = each
    response = client.get(base + server.hello)
    assert response.is_closed
    host, port = base.rpartition("//")[2].rsplit(":", 1)
    assert response.peer is not None
    assert response.peer[1] == int(port)
    assert response.local is not None
    info = response.tls_info
    if not base.startswith("https"):
        assert info is None
        return
    assert info is not None
    assert info["version"] in {"TLSv1.2", "TLSv1.3"}
    assert info["alpn"] == {"h1": "http/1.1"}.get(version, version)
    shown = ssl.get_server_certificate((host, int(port))) if version != "h3" else None
    if shown is not None:
        assert info["certificates"][0] == ssl.PEM_cert_to_DER_cert(shown)
    # An earlier test may have left a ticket with the certificates that are shared.
    assert isinstance(info["resumed"], bool)


def test_hooks_see_requests_and_responses(make_client: MakeClient, server: Peer) -> None:
    seen: list[Any] = []

    def asked(request: Any) -> None:
        seen.append((request.method, request.url))
        request.headers["x-hook"] = "was here"
        del request.headers["User-Agent"]
        assert "user-agent" not in request.headers

    client = make_client(
        versions=("h2",),
        verify=str(server.ca),
        event_hooks={"request": [asked], "response": seen.append},
    )
    url = server.url("h2", "/headers")
    response = client.get(url)
    assert seen[0] == ("GET", url)
    assert seen[1].status == 200
    assert "was here" in response.text
    assert "trilane/" not in response.text
    # The client's own fields are as they were.
    seen.clear()
    assert client.get(url).status == 200
    assert len(seen) == 2


def test_a_hook_that_raises_ends_the_request(make_client: MakeClient, server: Peer) -> None:
    def refuse(response: Any) -> None:
        raise PermissionError(response.status)

    for event in ("request", "response"):
        client = make_client(
            versions=("h1",),
            event_hooks={event: refuse if event == "response" else lambda _: 1 / 0},
        )
        with pytest.raises((PermissionError, ZeroDivisionError)):
            client.get(server.url("h1"))


def test_hooks_may_be_awaited(make_client: MakeClient, server: Peer) -> None:
    seen: list[str] = []

    async def hook(thing: Any) -> None:
        await asyncio.sleep(0)
        seen.append(type(thing).__name__)

    client = make_client(versions=("h1",), event_hooks={"request": hook, "response": hook})
    if isinstance(client, LoopClient):
        assert client.get(server.url("h1")).status == 200
        assert seen == ["RequestView", "AsyncResponse"]
    else:
        with pytest.raises(TypeError, match="AsyncClient awaits"):
            client.get(server.url("h1"))


def test_hooks_of_no_event_are_refused(make_client: MakeClient) -> None:
    with pytest.raises(ValueError, match="there are request and response"):
        make_client(event_hooks={"error": []})
    with pytest.raises(TypeError, match="cannot be called"):
        make_client(event_hooks={"request": ["print"]})


def test_what_is_logged(
    make_client: MakeClient, server: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trilane.client")
    client = make_client(versions=("h2",), verify=str(server.ca))
    secret = {"authorization": "Bearer very-secret", "cookie": "session=very-secret"}
    url = server.url("h2").replace("://", "://user:very-secret@") + "?key=very-secret"
    assert client.get(url, headers=secret).status == 200
    client.close(abort=True)
    told = [record.getMessage() for record in caplog.records if record.name == "trilane.client"]
    assert any(text.startswith("connected to https://") and " by h2 at " in text for text in told)
    assert any(text.startswith("closed the connection by h2 to ") for text in told)
    assert not any("very-secret" in text for text in told)


def test_a_connection_that_fails_is_logged(
    make_client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trilane.client")
    with pytest.raises(errors.ConnectionRefused):
        make_client().get("http://127.0.0.1:1/")
    assert any("no connection to http://127.0.0.1:1" in text for text in caplog.messages)


def test_what_is_sent_again_is_logged_and_counted(
    make_client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trilane.client")
    with chaos.serve(_closes_after_the_first()) as server:
        client = make_client(timings=True)
        assert client.get(server.base).content == b"hello world"
        assert client.get(server.base).content == b"hello world"
    again = [text for text in caplog.messages if text.startswith("sending GET")]
    assert len(again) == 1
    assert "after attempt 1" in again[0]


def _closes_after_the_first() -> Script:
    """Each connection answers one request, takes another one, and closes."""
    first = True

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal first
        await chaos.request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world")
        if first:
            first = False
            await chaos.request(reader)

    return script


def test_keys_are_logged_for_every_version(
    make_client: MakeClient, server: Peer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    monkeypatch.setenv("SSLKEYLOGFILE", str(file))
    # What was loaded before is kept without the file: a set of certificates of its own.
    assert server.ca is not None
    authority = tmp_path / f"{hashlib.sha256(str(tmp_path).encode()).hexdigest()}.pem"
    authority.write_bytes(server.ca.read_bytes())
    lines = 0
    for version, listener in (("h1", "h1s"), ("h2", "h2"), ("h3", "h3")):
        client = make_client(versions=(version,), verify=str(authority))
        assert client.get(server.url(listener)).version == version
        written = file.read_text().splitlines()
        assert len(written) > lines
        assert any(line.startswith("CLIENT_TRAFFIC_SECRET_0 ") for line in written[lines:])
        lines = len(written)
