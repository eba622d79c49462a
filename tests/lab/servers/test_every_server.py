"""Every server in servers/: it answers over what it claims, serves the same, and goes."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from others import SERVERS, others
from peers.process import MissingProgramError, is_alive, listens, wait_until
from peers.running import absent
from peers.shipped import require
from trilane.lab.clients import call_reference
from trilane.lab.clients.reference import NoReference
from trilane.lab.storage import store
from trilane.lab.targets import running, target_content
from trilane.lab.targets.target_config import ServerConfig

from .helping import ask, connect, connect_for_content, load

NAMES = running.names()
CASES = [pytest.param(name, marks=[] if name in SERVERS else [others]) for name in NAMES]
# Post 001 has this text.
POST_HELLO = b"hello world (in HTTP2)"
# nginx, Hypercorn and others usually end a connection after 1000.
MANY = 1100
THREADS = 2


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def content(state: Path) -> target_content.Content:
    return target_content.prepare(state, store.cache_folder())


@dataclass
class Running:
    """A server while it is tested."""

    config: ServerConfig
    target: running.Target
    content: target_content.Content


@contextlib.contextmanager
def opened(name: str, content: target_content.Content, folder: Path) -> Iterator[Running]:
    try:
        require(name)
    except MissingProgramError as error:
        absent(error)
    try:
        with running.open_target(
            name, state=content.cacert.parent, folder=folder, cpus=None, threads=THREADS
        ) as target:
            yield Running(running.find(name), target, content)
    except running.TargetFailed as error:
        if "could not be fetched" in str(error):
            absent(str(error))
        raise


def test_there_are_the_servers_of_the_posts() -> None:
    assert NAMES[0] == "embedded"
    assert {"twisted-hello", "twisted-bookstore", "kestrel", "hypercorn", "nginx"} <= set(NAMES)
    assert set(NAMES) >= SERVERS


@pytest.mark.parametrize("name", CASES)
def test_it_does_what_it_claims(name: str, content: target_content.Content, tmp_path: Path) -> None:
    """All of it in one test, as a server is started once for it."""
    with opened(name, content, tmp_path) as running:
        config, target = running.config, running.target
        assert list(target.origins) == list(config.versions)
        it_says_what_it_is(config, target)
        for path, check in SERVED.items():
            if path in config.paths:
                check(running)
        for message in config.calls:
            it_answers_calls(running, message)
        pids = list(target.pids)
        ports = {urlsplit(origin).port for origin in target.origins.values()}
        assert all(is_alive(pid) for pid in pids)
    # No grace: when the context is left, it is over.
    assert not [pid for pid in pids if is_alive(pid)]
    for port in ports:
        assert port is not None
        wait_until(lambda port=port: not listens(port), f"port {port} is closed")  # type: ignore[misc]


def it_says_what_it_is(config: ServerConfig, target: running.Target) -> None:
    facts = target.facts
    assert facts["software"]
    # Some cannot have more than one, and say so.
    assert facts["threads"] == config.facts.get("threads", THREADS)
    assert "keepalive_requests" in facts
    assert json.loads(json.dumps(facts)) == facts
    assert target.log is not None
    assert target.log.exists()
    assert target.pid in target.pids


def it_says_hello(running: Running) -> None:
    """Over every version, and on one connection for more requests than the usual limits."""
    target = running.target
    for version, origin in target.origins.items():
        count = MANY if version in {"h1", "h2"} else 20
        run = load(f"{origin}/hello", version, target.cacert, "-n", str(count), "-c", "1")
        assert run["requests"]["ok"] == count, (version, run["requests"])
        assert run["target"]["version"] == version
        if count == MANY:
            assert run["phases"]["connect"]["count"] == 1, version
    if "h1" in target.origins:
        with contextlib.closing(connect(target)) as connection:
            hello = POST_HELLO if running.config.name == "twisted-hello" else b"hello world"
            assert ask(connection, "/hello") == (200, hello)


def its_list_of_books_is_that_of_the_embedded_server(running: Running) -> None:
    with contextlib.closing(connect_for_content(running.target)) as connection:
        status, index = ask(connection, "/books")
    assert status == 200
    assert index == (running.content.www / "books").read_bytes()
    assert len(json.loads(index)) == 3000


def its_books_are_those_of_the_embedded_server(running: Running) -> None:
    www = running.content.www
    ids = json.loads((www / "books").read_bytes())
    with contextlib.closing(connect_for_content(running.target)) as connection:
        # Those that make each book anew are asked for all of them.
        step = 1 if "twisted" in running.config.name else 37
        for book in ids[::step]:
            found = ask(connection, f"/book?id={book}")
            assert found == (200, (www / "book" / book).read_bytes())
        assert ask(connection, "/book?id=1")[0] == 404
        assert ask(connection, "/book?id=../books")[0] in (400, 404)


def its_bytes_are_those_of_the_embedded_server(running: Running) -> None:
    with contextlib.closing(connect_for_content(running.target)) as connection:
        for size in target_content.SIZES:
            body = (running.content.www / "bytes" / size).read_bytes()
            unit = {"k": 1 << 10, "m": 1 << 20}.get(size[-1], 1)
            assert len(body) == int(size.rstrip("km")) * unit
            assert ask(connection, f"/bytes/{size}") == (200, body)


def its_site_is_that_of_the_embedded_server(running: Running) -> None:
    embedded = running.config.name == "embedded"
    with contextlib.closing(connect_for_content(running.target)) as connection:
        for path in ("/site/", *(f"/site/{page}" for page in target_content.SITE)):
            status, body = ask(connection, path)
            assert status == 200
            # That server's links name it.
            origin = running.target.origins["h1"].encode() if embedded else b""
            page = running.content.www / "site" / (path.removeprefix("/site/") or "index.html")
            assert body.replace(b'href="' + origin + b"/", b'href="/') == page.read_bytes()


def it_gives_back(running: Running) -> None:
    body = bytes(range(256)) * 300
    with contextlib.closing(connect(running.target)) as connection:
        assert ask(connection, "/echo", body) == (200, body)
        status, arrived = ask(connection, "/headers")
        assert status == 200
        assert json.loads(arrived)["version"] == "h1"


def it_waits(running: Running) -> None:
    with contextlib.closing(connect(running.target)) as connection:
        assert ask(connection, "/delay/20ms") == (200, b"waited 20ms\n")
        assert ask(connection, "/delay/20ms", bytes(5000)) == (200, b"waited 20ms\n")
        assert ask(connection, "/delay/nonsense")[0] == 400


def its_latencies_are_no_shorter_than_it_says(running: Running) -> None:
    """How much longer depends on the machine, and those at random on chance."""
    least_s = {"/hello": 0.0, "/constant": 0.005, "/bimodal": 0.002, "/stall": 0.001}
    with contextlib.closing(connect(running.target)) as connection:
        for path, least in {**least_s, "/exponential": 0.0}.items():
            begun = time.monotonic()
            assert ask(connection, path) == (200, b"hello world")
            assert time.monotonic() - begun >= least
        assert ask(connection, "/constants")[0] == 404
        # Of the mean of a hundred waits at random the deviation is a tenth.
        begun = time.monotonic()
        for _ in range(100):
            ask(connection, "/exponential")
        assert time.monotonic() - begun >= 0.5 * (1 - 6 * 0.1)


SERVED: dict[str, Callable[[Running], None]] = {
    "/constant": its_latencies_are_no_shorter_than_it_says,
    "/hello": it_says_hello,
    "/books": its_list_of_books_is_that_of_the_embedded_server,
    "/book?id={id}": its_books_are_those_of_the_embedded_server,
    "/bytes/{n}": its_bytes_are_those_of_the_embedded_server,
    "/site/": its_site_is_that_of_the_embedded_server,
    "/echo": it_gives_back,
    "/delay/{time}": it_waits,
}


def it_answers_calls(running: Running, message: str) -> None:
    """Over every version that can carry them; it raises where the answer is not the book."""
    target, call = running.target, running.config.calls[message]
    for version, origin in target.origins.items():
        if message == "grpc" and version == "h1":
            continue
        is_vanguard = target.name in {"vanguard", "vanguard-proxy"}
        if is_vanguard and (version, message) == ("h3", "grpc"):
            with pytest.raises(NoReference, match="status 505"):
                call_reference.read(call, message, version, origin, target.cacert)
            continue
        reference = call_reference.read(call, message, version, origin, target.cacert)
        assert reference.sizes[0] > 0
