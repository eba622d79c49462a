"""What only `Client` has: it belongs to threads, so forks, Ctrl-C and the end concern its waits.

A response of it may be dropped unread: an `AsyncResponse` has to be closed, because a finaliser may
run in any thread and the connection belongs to the loop's. `readinto` needs a read that may wait.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator

import pytest

from client.face import MakeClient
from client.waits import PATIENCE_S, asleep
from client.wire.memory import descriptors
from peers import chaos
from peers.peer import Peer
from trilane.client._flow.routes import Route
from trilane.client._pool import Client
from trilane.client._pool.response import Response
from trilane.client.errors import ClientClosed, LimitExceeded, LocalError

Each = tuple[Client, str, str]
MIB = 1 << 20


@pytest.fixture
def kind() -> str:
    return "blocking"


def test_a_response_that_is_dropped_gives_its_connection_back(each: Each) -> None:
    client, _, base = each
    for _ in range(5):
        response = client.send("GET", f"{base}/hello")
        del response
    assert client.get(f"{base}/hello").status == 200
    assert len(client.connections) == 1


def test_content_is_read_into_a_buffer(each: Each) -> None:
    client, _, base = each
    whole = client.get(f"{base}/bytes/100k").content
    with client.stream("GET", f"{base}/bytes/100k") as response:
        buffer, found = bytearray(9000), b""
        while count := response.readinto(buffer):
            found += buffer[:count]
        assert found == whole
        assert response.is_closed


@pytest.mark.parametrize("listener", ["h1", "h2", "h3"])
def test_responses_that_are_kept_keep_no_connection(server: Peer, listener: str) -> None:
    before = descriptors()
    kept: list[Response] = []
    for _ in range(5):
        with Client(versions=(listener,), verify=str(server.ca)) as client:
            kept.append(client.get(server.url(listener)))
            kept.append(client.send("GET", server.url(listener)))
            kept[-1].close()
    assert descriptors() <= before
    assert {response.headers["content-length"] for response in kept} == {"11"}
    assert {response.reason for response in kept} == {"OK" if listener == "h1" else ""}


def test_a_response_may_be_dropped_in_the_middle_of_a_decision(
    server: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The garbage collector does this, in whatever thread it runs.
    with Client(max_connections=2, timeout=PATIENCE_S) as client:
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


@pytest.mark.parametrize("listener", ["h1", "h2", "h3"])
def test_a_forked_child_begins_with_an_empty_pool(server: Peer, listener: str) -> None:
    script = f"""
import os, sys
from trilane.client._pool import Client
client = Client(versions=({listener!r},), verify={str(server.ca)!r}, timeout=120.0)
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


def _python(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
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
from trilane.client._pool import Client
client = Client(versions=({listener!r},), verify={str(server.ca)!r})
client.get({server.url(listener)!r})
held = client.send("GET", {server.url(listener, "/bytes/50m")!r})
url = {server.url(listener, "/delay/300s")!r}
threading.Thread(target=client.get, args=(url,), daemon=True).start()
while {listener!r} == "h1" and len(client.connections) < 2:
    pass
print("fine")
"""
    assert _python(script) == "fine"


def test_exit_waits_for_no_lock_of_a_thread_that_ended_with_it(server: Peer) -> None:
    """A daemon thread ends where it stands, here in the midst of a decision of the pool."""
    script = f"""
import threading
from trilane.client._pool import Client
from trilane.client._flow.routing import Router
client = Client(versions=("h1",), verify={str(server.ca)!r})
held = client.send("GET", {server.url("h1", "/bytes/50m")!r})
deciding = threading.Event()
# Not a function of this module: the thread would keep it, and `held` in it, alive.
apart = dict(deciding=deciding)
exec("import time\\ndef acquire(*_): deciding.set(), time.sleep(300)", apart)
Router.acquire = apart["acquire"]
threading.Thread(target=client.get, args=({server.url("h1")!r},), daemon=True).start()
deciding.wait()
print("fine")
"""
    assert _python(script) == "fine"


WAITS = {
    "head": 'client.get(sys.argv[1] + "/delay/300s")',
    "content": "client.get(sys.argv[2])",
    "pool": 'held = client.send("GET", sys.argv[1] + "/bytes/50m"); client.get(sys.argv[1])',
    "upload": "client.post(sys.argv[3], bytes(100_000_000))",
    "handshake": 'client.get(sys.argv[3].replace("http:", "https:"))',
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_every_wait(server: Peer, wait: str) -> None:
    script = f"""
import sys
from trilane.client._pool import Client
client = Client(max_connections=1, timeout=None)
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
            try:
                assert child.stdout.readline() == b"ready\n"
                asleep(child.pid)
                child.send_signal(signal.SIGINT)
                assert child.stdout.readline() == b"interrupted\n"
                assert child.wait() == 0
            finally:
                child.kill()


# More than the native part keeps for a thread that sends.
MANY_MIB = 80


@pytest.mark.parametrize("listener", ["h1", "h2", "h3"])
def test_an_upload_is_not_held_up_by_its_own_answer(
    make_client: MakeClient, server: Peer, listener: str
) -> None:
    client = make_client(versions=(listener,), verify=str(server.ca))
    sent = found = 0

    def blocks() -> Iterator[bytes]:
        nonlocal sent
        for number in range(MANY_MIB):
            block = bytes([number]) * MIB
            sent = zlib.crc32(block, sent)
            yield block

    with client.stream("POST", server.url(listener, "/echo"), content=blocks()) as response:
        for piece in response:
            found = zlib.crc32(piece, found)
    assert found == sent


def test_an_early_answer_has_a_limit(make_client: MakeClient) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        size = MANY_MIB * MIB // 2
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        # What the kernel does not hold has been taken when this ends; so has not the upload.
        writer.write(bytes(size))
        await writer.drain()
        while await reader.read(MIB):
            pass

    with chaos.serve(script) as server:
        client = make_client(max_content=MIB)
        with pytest.raises(LimitExceeded, match="before all of the request's content was sent"):
            client.post(server.base, (bytes(MIB) for _ in range(MANY_MIB)))
