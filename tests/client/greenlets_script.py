"""Greenlets of gevent that share clients; run by test_greenlets.py.

Arguments: what to try, in one word or several, its URL, the version of HTTP, and a file of
authorities. It says "ok" at the end. What is to be seen does not depend on speed: a greenlet waits
for what only another one can bring about.
"""

# ruff: noqa: E402 - sockets are patched before anything imports them

from __future__ import annotations

import sys
from typing import Any

from gevent import monkey

monkey.patch_all()

from urllib.parse import urlsplit

import gevent
import requests

from trilane.client import Client, ReadTimeout, Timeouts
from trilane.client.http import HTTPConnection
from trilane.client.requests import TrilaneAdapter

what, base, version, ca = sys.argv[1:]
LARGE = 3 << 20


def client(**settings: Any) -> Client:
    return Client(versions=(version,), verify=ca or True, timeout=60, **settings)


def together() -> None:
    """The server answers none before it has all ten of them."""
    with client() as one:
        waiting = [gevent.spawn(one.get, base) for _ in range(10)]
        assert [each.get().content for each in waiting] == [b"hello world"] * 10


def behind() -> None:
    """A hundred requests go by one that is never answered, and that is given up."""
    with client() as one:
        assert one.get(f"{base}/hello").content == b"hello world"
        never = gevent.spawn(one.get, f"{base}/delay/60s")
        gevent.sleep(0)
        waiting = [gevent.spawn(one.get, f"{base}/bytes/{size}") for size in range(100)]
        assert [len(each.get().content) for each in waiting] == list(range(100))
        never.kill()
        assert one.get(f"{base}/hello").content == b"hello world"
        if version != "h1":
            assert len(one.connections) == 1


def content() -> None:
    """Uploads and downloads larger than what is buffered, of several greenlets."""
    data = bytes(range(256)) * (LARGE // 256)

    def echo(blocks: Any) -> bytes:
        return one.post(f"{base}/echo", blocks).content

    def pieces() -> int:
        with one.stream("GET", f"{base}/bytes/{LARGE}") as response:
            assert len(response.read(100_000)) == 100_000
            return 100_000 + sum(map(len, response))

    with client() as one:
        assert gevent.spawn(echo, data).get() == data
        halves = [data[: LARGE // 2], data[LARGE // 2 :]]
        waiting = [gevent.spawn(echo, iter(halves)) for _ in range(3)]
        assert all(each.get() == data for each in waiting)
        waiting = [gevent.spawn(pieces) for _ in range(3)]
        assert [each.get() for each in waiting] == [LARGE] * 3
        with one.stream("GET", f"{base}/bytes/{LARGE}") as response:
            assert len(response.read(10)) == 10
        assert one.get(f"{base}/hello", decode=False).content == b"hello world"


def limits() -> None:
    """Limits of time, which say what was too slow."""
    with client() as one:
        for _ in range(2):
            said = ""
            try:
                one.get(f"{base}/delay/60s", timeout=Timeouts(read=0.1))
            except ReadTimeout as error:
                said = str(error)
            assert "within 0.1 s" in said
        assert one.get(f"{base}/hello").content == b"hello world"


def shape() -> None:
    """The shape of http.client."""
    url = urlsplit(base)
    connection = HTTPConnection(
        url.hostname or "", url.port, 60, secure=url.scheme == "https", versions=(version,), ca=ca
    )
    ids = [connection.request("GET", f"/bytes/{size}") for size in range(300)]

    def length(ident: int) -> int:
        return len(connection.get_response(ident).read())

    if version == "h1":
        assert [length(ident) for ident in ids] == list(range(300))
    else:
        waiting = [gevent.spawn(length, ident) for ident in ids]
        assert [each.get() for each in waiting] == list(range(300))
    connection.request("POST", "/echo", iter([b"a", b"b"]), {"Expect": "100-continue"})
    assert connection.getresponse().read() == b"ab"
    connection.close()


def adapter() -> None:
    """Requests, whose sessions greenlets share."""
    with requests.Session() as session:
        session.trust_env = False
        session.verify = ca or True
        for scheme in ("http://", "https://"):
            session.mount(scheme, TrilaneAdapter(versions=(version,), pool_maxsize=200))
        never = gevent.spawn(session.get, f"{base}/delay/60s")
        gevent.sleep(0)
        waiting = [gevent.spawn(session.get, f"{base}/hello") for _ in range(10)]
        assert [each.get().text for each in waiting] == ["hello world"] * 10
        never.kill()


for each in what.split():
    globals()[each]()
print("ok")
