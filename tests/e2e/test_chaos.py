"""A peer that is not nice: each case ends in a counted, named error, in bounded memory and time."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl

import pytest

from peers import chaos, h2_chaos
from peers.authority import Authority
from peers.process import HOST

from .loading import Run, load


def span(kinds: set[str], count: int = 8) -> list[str]:
    """A few requests; the timeout is short where it is what ends them, else out of reach."""
    return ["-n", str(count), "--timeout", "200ms" if "timeout" in kinds else "60s"]


def names_the_failure(run: Run, kinds: set[str]) -> None:
    """Every request failed, by the kinds that are right for the case."""
    assert run.code == 4, run
    requests = run.checked["requests"]
    assert requests["ok"] == 0, requests
    assert requests["failed"] > 0, requests
    assert set(requests["failures"]) <= kinds, requests
    assert run.checked["validity"]["verdict"] == "invalid"


# What has to do with sockets, time and memory; what servers say is in the conformance suite.
H1 = (
    "reset at accept",
    "close at accept",
    "silent after accept",
    "one byte per second",
    "endless head",
    "endless body",
    "status 500",
)


@pytest.mark.parametrize("name", H1)
def test_h1(name: str) -> None:
    script, kinds = chaos.H1[name]
    with chaos.serve(script) as server:
        run = load("--h1", "-c", "4", *span(kinds), server.base + "/")
    if name == "reset at accept" and run.code == 1:
        # The reset may overtake the client's first look at the connection: none came up.
        assert "reset" in run.message
    else:
        names_the_failure(run, kinds)


@pytest.mark.parametrize("name", ["silent", "reset", "PING flood", "endless CONTINUATION"])
def test_h2(name: str) -> None:
    script, kinds = h2_chaos.H2[name]
    with chaos.serve(script) as server:
        run = load("--h2c", "-c", "2", "-m", "4", *span(kinds), server.base + "/")
    names_the_failure(run, kinds)


def test_a_server_that_answers_in_http_1() -> None:
    with chaos.serve(h2_chaos.answer_in_http_1) as server:
        run = load("--h2c", "-c", "2", "-m", "4", "-n", "8", server.base + "/")
    assert run.code == 1, run
    assert "HTTP/2" in run.message
    assert "--h1" in run.message


def test_h1_after_good_responses() -> None:
    script, kinds = chaos.H1["reset mid-body"]
    with chaos.serve(chaos.every(3, script)) as server:
        run = load("--h1", "-c", "4", *span(kinds, 40), server.base + "/")
    assert run.code == 4, run
    requests = run.checked["requests"]
    assert requests["ok"] > 0
    assert requests["failed"] > 0
    assert set(requests["failures"]) <= kinds, requests


def test_a_close_instead_of_an_answer_is_no_proof() -> None:
    """Who closed may have processed the request: it fails and stays so (RFC 9110 §9.2.2)."""
    read = closed = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal read, closed
        for number in range(5):
            await chaos.request(reader)
            read += 1
            if number < 4:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        closed += 1

    with chaos.serve(script) as server:
        run = load("--h1", "-c", "2", "-X", "POST", "-n", "100", server.base + "/")
    assert run.code == 4, run
    requests = run.checked["requests"]
    assert (requests["started"], requests["retried"]) == (100, 0)
    assert closed >= 18
    assert {kind: each["count"] for kind, each in requests["failures"].items()} == {
        "closed": closed
    }
    assert read == requests["ok"] + closed == 100
    connections = run.checked["connections"]
    assert connections["failed"] == {}
    assert connections["lost"] == {"closed": closed}
    assert connections["established"] == closed + connections["open_at_end"]


def test_a_server_that_goes_away_often_starves_no_request() -> None:
    """Of what it refused, the oldest is sent again first."""
    with chaos.serve(h2_chaos.goaway_each(10)) as server:
        report = load("--h2c", "-c", "1", "-m", "128", "-n", "2000", server.base + "/").good
    assert report["requests"]["ok"] == 2000
    assert report["requests"]["failed"] == 0


def secured(authority: Authority, version: str) -> ssl.SSLContext:
    leaf = authority.local()
    security = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    security.load_cert_chain(leaf.cert, leaf.key)
    security.set_alpn_protocols([version])
    return security


def test_a_body_that_tls_does_not_end(authority: Authority) -> None:
    """Without close_notify whoever cuts the wire would pass for its end (RFC 9112 §9.8)."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it, perhaps")
        await writer.drain()
        # What returns here is aborted: FIN, and no close_notify.

    ca = str(authority.local().ca)
    with chaos.serve(script, secured(authority, "http/1.1")) as server:
        url = server.base.replace("http:", "https:") + "/"
        run = load("--h1", "--cacert", ca, "-c", "2", "-n", "8", url)
    names_the_failure(run, {"body"})


def test_a_connection_that_fails_leaves_nothing_to_the_next(authority: Authority) -> None:
    """Of every two connections one has no ALPN: its TLS Finished must not leave on the other."""
    security = secured(authority, "h2")

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        agreed = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        security.set_alpn_protocols(["h2" if agreed is None else "http/1.1"])
        if agreed is None:
            await reader.read()
        else:
            await h2_chaos.goaway_each(1)(reader, writer)

    ca = str(authority.local().ca)
    with chaos.serve(script, security) as server:
        url = server.base.replace("http:", "https:") + "/"
        run = load("--h2", "--cacert", ca, "-c", "1", "-n", "20", url)
    requests = run.checked["requests"]
    assert set(requests["failures"]) == {"tls"}, requests
    assert "ALPN" in requests["failures"]["tls"]["example"]
    assert requests["ok"] > 0
    connections = run.checked["connections"]
    assert set(connections["failed"]) == {"tls"}
    assert set(connections["lost"]) == {"goaway"}
    assert (
        connections["attempted"]
        == sum(connections["failed"].values()) + (connections["established"])
    )


def test_goaway_after_each_few_requests_loses_nothing() -> None:
    with chaos.serve(h2_chaos.goaway_each(10)) as server:
        report = load("--h2c", "-c", "2", "-m", "4", "-n", "500", server.base + "/").good
        assert server.connections >= 50
    assert report["requests"]["ok"] == report["requests"]["started"] == 500
    assert report["requests"]["retried"] > 0


def test_a_stalled_upload_times_out() -> None:
    # The server grants a window of nothing and never more.
    script = h2_chaos.server(h2_chaos.replies(), settings=h2_chaos.setting(4, 0))
    with chaos.serve(script) as server:
        end = span({"timeout"})
        run = load("--h2c", "-c", "1", "-m", "2", *end, "-b", "x" * 1000, server.base + "/")
    names_the_failure(run, {"timeout"})


def test_a_handshake_that_stalls_is_the_reason_whatever_the_timeout(authority: Authority) -> None:
    with chaos.serve(chaos.silent) as server:
        url = server.base.replace("http:", "https:") + "/"
        patience = ["--timeout", "100ms", "--connect-timeout", "500ms"]
        run = load("--cacert", str(authority.ca), *patience, "-c", "2", "-n", "4", url)
    assert run.code == 1, run
    assert "the TLS handshake" in run.message


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_connections_that_come_as_the_server_stops_are_closed(
    scheme: str, authority: Authority
) -> None:
    """What the scripted server leaves unclosed warns, and warnings are errors."""
    security = secured(authority, "h1") if scheme == "https" else None
    for _ in range(60):
        with chaos.serve(chaos.silent, security) as server:
            for _ in range(8):
                socket.create_connection((HOST, server.port)).close()
    gc.collect()
