"""How long each kind of wait may take, and what is waited for before content is sent."""

from __future__ import annotations

import asyncio
import socket

import pytest

from client.face import AnyClient, MakeClient
from client.waits import PATIENCE_S
from peers import chaos
from peers.peer import cleartext
from trilane.client import errors
from trilane.client._flow.timeouts import Timeouts

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world"


@pytest.fixture
def one(make_client: MakeClient) -> AnyClient:
    return make_client()


def test_a_connect_timeout_in_the_handshake(one: AnyClient) -> None:
    with chaos.serve(chaos.silent) as server, pytest.raises(errors.ConnectTimeout):
        one.get(server.base.replace("http:", "https:"), timeout=Timeouts(connect=0.3))


def test_a_connection_that_is_there_at_once_may_have_taken_too_long(one: AnyClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(errors.ConnectTimeout):
        one.get(cleartext(server.getsockname()[1]), timeout=Timeouts(connect=1e-6))


def test_a_write_timeout(one: AnyClient) -> None:
    with (
        chaos.serve(chaos.silent) as server,
        pytest.raises(errors.WriteTimeout, match=r"took none of the content of POST within 0\.3 s"),
    ):
        one.post(server.base, bytes(64 << 20), timeout=Timeouts(write=0.3))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Content waits for the server's consent, however busy the machine is."""
    _wait_for_consent(monkeypatch, PATIENCE_S)


def _wait_for_consent(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr("trilane.client._flow.uploading.CONTINUE_S", seconds)


@pytest.mark.usefixtures("patient")
def test_100_continue_is_waited_for(one: AnyClient) -> None:
    order: list[str] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"expect: 100-continue" in head.lower()
        order.append("head")
        # Early hints are no consent: who took them for it would send now.
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        await writer.drain()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not reader._buffer  # type: ignore[attr-defined]
        order.append("consent")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await reader.readexactly(5) == b"hello"
        order.append("content")
        writer.write(OK)

    with chaos.serve(script) as server:
        response = one.post(server.base, b"hello", expect_continue=True)
    assert response.content == b"hello world"
    assert order == ["head", "consent", "content"]
    assert response.informational == [(103, [("Link", "</a>")]), (100, [])]


def test_100_continue_that_never_comes(one: AnyClient, monkeypatch: pytest.MonkeyPatch) -> None:
    _wait_for_consent(monkeypatch, 0.05)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        assert await reader.readexactly(5) == b"hello"
        writer.write(OK)
        await chaos.forever()

    with chaos.serve(script) as server:
        headers = {"Expect": "100-continue"}
        assert one.post(server.base, b"hello", headers=headers).content == b"hello world"


@pytest.mark.usefixtures("patient")
def test_the_clients_own_fields_say_how_to_send_too(make_client: MakeClient) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-length" not in head.lower()
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await reader.readexactly(15) == b"5\r\nhello\r\n0\r\n\r\n"
        writer.write(OK)

    client = make_client(headers={"Expect": "100-continue", "Transfer-Encoding": "chunked"})
    with chaos.serve(script) as server:
        assert client.post(server.base, b"hello").content == b"hello world"
