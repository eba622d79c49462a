"""Threads share a session, and with HTTP/2 and HTTP/3 its connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from client.waits import PATIENCE_S

from .conftest import Server

MakeSession = Callable[..., requests.Session]

THREADS = 16
EACH = 10


def together(work: Callable[[int], set[str]], threads: int) -> list[set[str]]:
    """What `work` gives for each number, all begun at the same time."""
    start = threading.Barrier(threads)

    def begin(number: int) -> set[str]:
        start.wait(PATIENCE_S)
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(begin, range(threads)))


@pytest.mark.parametrize("stream", [False, True])
def test_threads_get_their_own_answers(
    session: requests.Session, server: Server, *, stream: bool
) -> None:
    def work(number: int) -> set[str]:
        seen = set()
        for turn in range(EACH):
            sent = f"{number}/{turn}/".encode() * 2000
            with session.post(
                f"{server.https}/echo", data=sent, stream=stream, timeout=PATIENCE_S
            ) as answer:
                assert answer.content == sent
                seen.add(f"{number}/{turn}")
        return seen

    assert len(set().union(*together(work, THREADS))) == THREADS * EACH


def test_threads_share_a_connection(
    session: requests.Session, server: Server, version: str
) -> None:
    def work(_: int) -> set[str]:
        return {
            session.get(f"{server.https}/headers", timeout=PATIENCE_S).json()["peer"]
            for _ in range(EACH)
        }

    peers = set().union(*together(work, THREADS))
    # From the first request on: nobody opens another connection while ALPN is not known.
    assert 1 <= len(peers) <= (THREADS if version == "h1" else 1)


def test_pool_block_limits_connections(make_session: MakeSession, server: Server) -> None:
    session = make_session("h1", pool_maxsize=3, pool_block=True)

    def work(_: int) -> set[str]:
        return {
            session.get(f"{server.https}/headers", timeout=PATIENCE_S).json()["peer"]
            for _ in range(EACH)
        }

    assert len(set().union(*together(work, 12))) <= 3


def test_a_serial_session_keeps_one_connection(session: requests.Session, server: Server) -> None:
    peers = {session.get(f"{server.https}/headers").json()["peer"] for _ in range(20)}
    assert len(peers) == 1


def test_close_closes_connections(make_session: MakeSession) -> None:
    seen: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            seen.append(connection.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        session = make_session()
        answer = session.get(f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout=PATIENCE_S)
        session.close()
        thread.join(PATIENCE_S)
    # Although the response is still there.
    assert (answer.content, seen) == (b"ok", [b""])


def test_a_session_may_be_closed_under_its_users(session: requests.Session, server: Server) -> None:
    done = threading.Event()

    def close() -> None:
        for _ in range(25):
            if not done.wait(0.01):
                session.close()

    closing = threading.Thread(target=close)
    closing.start()

    def work(number: int) -> set[str]:
        for turn in range(EACH):
            sent = f"{number}/{turn}/".encode() * 2000
            answer = session.post(f"{server.https}/echo", data=sent, timeout=PATIENCE_S)
            assert answer.content == sent
        return {str(number)}

    try:
        assert len(together(work, 8)) == 8
    finally:
        done.set()
        closing.join(PATIENCE_S)


def test_origins_and_tls_options_have_pools_of_their_own(
    make_session: MakeSession, server: Server
) -> None:
    session = make_session("h2", pool_connections=1)
    origins = [server.https, server.https.replace("127.0.0.1", "localhost"), server.https]
    peers = {session.get(f"{origin}/headers").json()["peer"] for origin in origins}
    # There was room for the pool of one origin only.
    assert len(peers) == 3
