"""Threads that share a client: one connection, no bursts, no harm by fork, Ctrl-C and exit."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lab.contenders.counting import CountingRelay
from peers import chaos
from peers.peer import Peer
from trilane.client.answer import Response
from trilane.client.errors import ClientClosed, LocalError, PoolTimeout
from trilane.client.pool import Client
from trilane.client.routing import Route
from trilane.client.timeouts import Timeouts


def _port(base: str) -> int:
    port = urlsplit(base).port
    assert port is not None
    return port


def _together(count: int, call: Callable[[int], object]) -> None:
    """Call it from that many threads, all beginning at once."""
    ready = threading.Barrier(count)

    def run(number: int) -> None:
        ready.wait(30)
        call(number)

    with ThreadPoolExecutor(count) as threads:
        for each in [threads.submit(run, number) for number in range(count)]:
            each.result(300)


def test_64_threads_send_1000_requests_each_on_one_connection(server: Peer) -> None:
    url = server.url("h2")
    wrong: list[bytes] = []
    with (
        CountingRelay(_port(url)) as relay,
        Client(versions=("h2", "h1"), verify=str(server.ca), timeout=120.0) as client,
    ):
        through = url.replace(f":{_port(url)}", f":{relay.port}")

        def call(_number: int) -> None:
            for _ in range(1000):
                response = client.get(through)
                if response.content != b"hello world" or response.version != "h2":
                    wrong.append(response.content)

        _together(64, call)
        assert wrong == []
        assert relay.tcp == 1
        assert len(client.connections) == 1


@pytest.mark.parametrize("version", ["h2", "h3"])
def test_50_threads_at_once_open_one_connection(server: Peer, version: str) -> None:
    url = server.url(version)
    with (
        CountingRelay(_port(url)) as relay,
        Client(
            versions=("h3",) if version == "h3" else ("h2", "h1"),
            verify=str(server.ca),
            timeout=60.0,
        ) as client,
    ):
        through = url.replace(f":{_port(url)}", f":{relay.port}")
        _together(50, lambda _: client.get(through).content.index(b"hello"))
        assert relay.connections == 1


def test_50_threads_at_once_against_http_1_stay_below_the_limit(server: Peer) -> None:
    url = server.url("h1s")
    with (
        CountingRelay(_port(url)) as relay,
        Client(versions=("h1",), verify=str(server.ca), timeout=60.0, max_per_origin=6) as client,
    ):
        through = url.replace(f":{_port(url)}", f":{relay.port}")
        _together(50, lambda _: client.get(through).content.index(b"hello"))
        assert 1 <= relay.tcp <= 6
        assert len(client.connections) == relay.tcp


@pytest.mark.parametrize("listener", ["h1", "h2", "h3"])
def test_responses_that_are_kept_keep_no_connection(server: Peer, listener: str) -> None:
    folder = Path("/proc/self/fd")
    before = len(list(folder.iterdir()))
    kept: list[Response] = []
    for _ in range(5):
        with Client(versions=(listener,), verify=str(server.ca), timeout=20.0) as client:
            kept.append(client.get(server.url(listener)))
            kept.append(client.send("GET", server.url(listener)))
            kept[-1].close()
    gc.collect()
    assert len(list(folder.iterdir())) <= before
    assert {response.headers["content-length"] for response in kept} == {"11"}
    assert {response.reason for response in kept} == {"OK" if listener == "h1" else ""}


def test_a_response_may_be_dropped_in_the_middle_of_a_decision(
    server: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The garbage collector does this, in whatever thread it runs.
    with Client(max_connections=2, timeout=10.0) as client:
        url = server.url("h1")
        held = [client.send("GET", url)]
        router = client._pool._router
        acquire = router.acquire

        def dropping(route: Route, now: float) -> object:
            while held:
                held.pop().close()
            return acquire(route, now)

        monkeypatch.setattr(router, "acquire", dropping)
        assert client.get(url).status == 200
        monkeypatch.undo()
        assert len(client.connections) == 2
        assert not any(entry.leases for entry in client._pool.entries())

        def asking(_route: Route, _now: float) -> object:
            return client.get(url)

        monkeypatch.setattr(router, "acquire", asking)
        with pytest.raises(LocalError, match="finaliser"):
            client.get(url)
        monkeypatch.undo()
        assert client.get(url).status == 200


def test_connections_of_two_origins_are_apart(client: Client, server: Peer) -> None:
    client.get(server.url("h1"))
    client.get(server.url("h2"))
    client.get(server.url("h2").replace("localhost", "127.0.0.1"))
    assert len(client.connections) == 3
    assert {version for _, version in client.connections} == {"h1", "h2"}


def test_threads_wait_for_a_connection_and_are_served(server: Peer) -> None:
    with Client(max_connections=2, timeout=60.0) as client:
        _together(20, lambda _: client.get(server.url("h1")).content.index(b"hello"))
        assert len(client.connections) == 2


def test_a_pool_timeout_names_the_way_out(server: Peer) -> None:
    with (
        Client(max_connections=1, timeout=Timeouts(pool=0.2)) as client,
        client.stream("GET", server.url("h1")),
        pytest.raises(PoolTimeout, match=r"after 0\.2 s: read or close responses"),
    ):
        client.get(server.url("h1"))


def test_a_held_response_gives_way_when_it_is_closed(server: Peer) -> None:
    url = server.url("h1")
    with Client(max_connections=1, timeout=20.0) as client, client.stream("GET", url) as held:
        timer = threading.Timer(0.2, held.close)
        timer.start()
        assert client.get(url).status == 200
        timer.join()


def test_closing_lets_responses_be_read_to_their_end(server: Peer) -> None:
    client = Client(versions=("h2", "h1"), verify=str(server.ca))
    for url in (server.url("h1", "/bytes/5m"), server.url("h2", "/bytes/5m")):
        response = client.send("GET", url)
        client.close()
        client.close()
        assert len(response.read()) == int(response.headers["content-length"])
        with pytest.raises(ClientClosed, match="make a new one"):
            client.get(url)
        client = Client(versions=("h2", "h1"), verify=str(server.ca))
    client.close()


def test_closing_at_once_ends_them(server: Peer) -> None:
    client = Client()
    response = client.send("GET", server.url("h1", "/bytes/50m"))
    client.close(abort=True)
    with pytest.raises(ConnectionError):
        response.read()
    assert client.connections == []


def test_closing_ends_the_waiting(server: Peer) -> None:
    client = Client(max_connections=1, timeout=20.0)
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            client.get(server.url("h1"))
        except ClientClosed as error:
            caught.append(error)

    with client.stream("GET", server.url("h1", "/bytes/5m")):
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        client.close()
        thread.join(10)
    assert len(caught) == 1


@pytest.mark.parametrize("listener", ["h1", "h2", "h3"])
def test_a_forked_child_begins_with_an_empty_pool(server: Peer, listener: str) -> None:
    script = f"""
import os, sys
from trilane.client.pool import Client
from trilane.client.routing import Route
client = Client(versions=({listener!r},), verify={str(server.ca)!r}, timeout=20.0)
url = {server.url(listener)!r}
first = client.get(url)
held = client.send("GET", {server.url(listener, "/bytes/5m")!r})
other = client.send("GET", {server.url(listener, "/bytes/5m")!r})
left = client.send("GET", {server.url(listener, "/bytes/5m")!r})
pid = os.fork()
if not pid:
    assert client.connections == []
    second = client.get(url)
    assert second.stream_id == first.stream_id, second.stream_id
    held.close()
    del other
    client.close()
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
assert len(held.read()) == 5 * 1024 * 1024
third = client.get(url)
assert third.stream_id > first.stream_id
print("fine")
"""
    assert _python(script) == "fine"


def _python(script: str, *, timeout: float = 60.0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize("listener", ["h1", "h2", "h3"])
def test_exit_never_hangs(server: Peer, listener: str) -> None:
    script = f"""
import threading
from trilane.client.pool import Client
from trilane.client.routing import Route
client = Client(versions=({listener!r},), verify={str(server.ca)!r})
client.get({server.url(listener)!r})
held = client.send("GET", {server.url(listener, "/bytes/50m")!r})
threading.Thread(target=client.get, args=({server.url(listener, "/delay/30s")!r},), daemon=True)
print("fine")
"""
    assert _python(script, timeout=20.0) == "fine"


WAITS = {
    "head": 'client.get(sys.argv[1] + "/delay/5s")',
    "content": "client.get(sys.argv[2])",
    "pool": 'held = client.send("GET", sys.argv[1] + "/bytes/5m"); client.get(sys.argv[1])',
    "upload": "client.post(sys.argv[3], bytes(100_000_000))",
    "handshake": 'client.get(sys.argv[3].replace("http:", "https:"))',
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_every_wait(server: Peer, wait: str) -> None:
    script = f"""
import sys
from trilane.client.pool import Client
from trilane.client.routing import Route
client = Client(max_connections=1)
try:
    print("ready", flush=True)
    {WAITS[wait]}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello"
    with chaos.serve(chaos.answer(head)) as stalls, chaos.serve(chaos.silent) as silent:
        child = subprocess.Popen(
            [sys.executable, "-c", script, server.bases["h1"], stalls.base, silent.base],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        with child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            time.sleep(1.0)
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == b"interrupted\n"
            assert child.wait(10) == 0
