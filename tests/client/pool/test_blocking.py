"""What only `Client` has: it belongs to threads, so forks, Ctrl-C and the end concern its waits.

A response of it may be dropped unread: an `AsyncResponse` has to be closed, because a finaliser may
run in any thread and the connection belongs to the loop's. `readinto` needs a read that may wait.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from client.face import MakeClient
from client.waits import PATIENCE_S, interrupted, until
from client.wire.memory import descriptors
from peers import chaos
from peers.peer import Peer
from trilane.client._flow.routes import Route
from trilane.client._pool import Client
from trilane.client._pool.response import Response
from trilane.client.errors import ClientClosed, LimitExceeded, LocalError

Each = tuple[Client, str, str]
MIB = 1 << 20
MANY_MIB = 80


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
    until(lambda: descriptors() <= before)
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


def test_exit_never_hangs(server: Peer) -> None:
    bases = {version: server.bases[version] for version in ("h1", "h2", "h3")}
    script = f"""
import threading
from trilane.client._pool import Client
held = []
for version, base in {bases!r}.items():
    client = Client(versions=(version,), verify={str(server.ca)!r})
    client.get(base + "/hello")
    held.append(client.send("GET", base + "/bytes/50m"))
    url = base + "/delay/300s"
    threading.Thread(target=client.get, args=(url,), daemon=True).start()
    while version == "h1" and len(client.connections) < 2:
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


Wait = Callable[[Client, str], object]
WAITS: dict[str, Wait] = {
    "head": lambda client, url: client.get(url),
    "content": lambda client, url: client.get(url),
    "pool": lambda client, url: (client.send("GET", url), client.get(url)),
    "upload": lambda client, url: client.post(url, bytes(100_000_000)),
    "handshake": lambda client, url: client.get(url.replace("http:", "https:")),
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_every_wait(wait: str) -> None:
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello"
    script = chaos.answer(begun) if wait in {"content", "pool"} else chaos.silent
    with chaos.serve(script) as server, Client(max_connections=1, timeout=None) as client:
        with interrupted():
            WAITS[wait](client, server.base)
        client.close(abort=True)


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
