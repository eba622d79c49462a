"""Every server in servers/: it answers over what it claims, serves the same, and goes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from peers.running import absent
from trilane.lab.serving import target_content, targets
from trilane.lab.serving.target_config import ServerConfig

from .helping import ask, connect, is_alive, listens, load, wait_until

NAMES = targets.names()
# Post 001 has this text.
POST_HELLO = b"hello world (in HTTP2)"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def content(state: Path, tmp_path_factory: pytest.TempPathFactory) -> target_content.Content:
    return target_content.prepare(state, tmp_path_factory.mktemp("cache"))


@contextlib.contextmanager
def opened(name: str, state: Path, folder: Path, threads: int = 1) -> Iterator[targets.Target]:
    reason = targets.unavailable(name)
    if reason is not None:
        absent(reason)
    try:
        with targets.open_target(
            name, state=state, folder=folder, cpus=None, threads=threads, versions=()
        ) as target:
            yield target
    except targets.TargetFailed as error:
        if "could not be fetched" in str(error):
            absent(str(error))
        raise


@dataclass
class Running:
    """A server while its tests run."""

    config: ServerConfig
    target: targets.Target


@pytest.fixture(scope="module", params=NAMES)
def running(
    request: pytest.FixtureRequest, state: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    name = request.param
    with opened(name, state, tmp_path_factory.mktemp(name)) as target:
        yield Running(targets.find(name), target)


def serving(path: str, version: str | None = None) -> pytest.MarkDecorator:
    """For those servers that serve the path, over that version among others where one is given."""
    names = [
        name
        for name in NAMES
        if path in targets.find(name).paths and version in (None, *targets.find(name).versions)
    ]
    assert len(names) > 2, path
    return pytest.mark.parametrize("running", names, indirect=True)


def test_there_are_the_servers_of_the_posts() -> None:
    assert NAMES[0] == "embedded"
    assert {"twisted-hello", "twisted-bookstore", "kestrel", "hypercorn", "nginx"} <= set(NAMES)


@serving("/hello")
def test_it_answers_over_every_version_that_it_claims(running: Running) -> None:
    target = running.target
    assert list(target.origins) == list(running.config.versions)
    for version, origin in target.origins.items():
        run = load(f"{origin}/hello", version, target.cacert, "-n", "20", "-c", "2")
        assert run["requests"]["ok"] == 20, (version, run["requests"])
        assert run["target"]["version"] == version


def test_it_says_what_it_is(running: Running) -> None:
    facts = running.target.facts
    assert facts["software"]
    assert facts["threads"] == 1
    assert "keepalive_requests" in facts
    assert json.loads(json.dumps(facts)) == facts
    assert running.target.log is not None
    assert running.target.log.exists()
    assert running.target.pid in running.target.pids
    assert all(is_alive(pid) for pid in running.target.pids)


@serving("/hello")
def test_it_keeps_a_connection_for_more_requests_than_the_usual_limits(running: Running) -> None:
    target = running.target
    for version in ("h1", "h2"):
        if version in target.origins:
            url = f"{target.origins[version]}/hello"
            run = load(url, version, target.cacert, "-n", "1500", "-c", "1")
            assert run["requests"]["ok"] == 1500
            assert run["phases"]["connect"]["count"] == 1, version


@serving("/hello", "h1")
def test_it_says_hello(running: Running) -> None:
    with contextlib.closing(connect(running.target)) as connection:
        hello = POST_HELLO if running.config.name == "twisted-hello" else b"hello world"
        assert ask(connection, "/hello") == (200, hello)


@serving("/book?id={id}")
def test_its_books_are_those_of_the_embedded_server(
    running: Running, content: target_content.Content
) -> None:
    with contextlib.closing(connect(running.target)) as connection:
        status, index = ask(connection, "/books")
        assert status == 200
        assert index == (content.www / "books").read_bytes()
        ids = json.loads(index)
        assert len(ids) == 3000
        # Those that make each book anew are asked for all of them.
        step = 1 if "twisted" in running.config.name else 37
        for book in ids[::step]:
            assert ask(connection, f"/book?id={book}") == (
                200,
                (content.www / "book" / book).read_bytes(),
            )
        assert ask(connection, "/book?id=1")[0] == 404
        assert ask(connection, "/book?id=../books")[0] in (400, 404)


@serving("/bytes/{n}")
def test_its_bytes_are_those_of_the_embedded_server(
    running: Running, content: target_content.Content
) -> None:
    with contextlib.closing(connect(running.target)) as connection:
        for size in target_content.SIZES:
            body = (content.www / "bytes" / size).read_bytes()
            unit = {"k": 1 << 10, "m": 1 << 20}.get(size[-1], 1)
            assert len(body) == int(size.rstrip("km")) * unit
            assert ask(connection, f"/bytes/{size}") == (200, body)


@serving("/site/")
def test_its_site_is_that_of_the_embedded_server(
    running: Running, content: target_content.Content
) -> None:
    embedded = running.config.name == "embedded"
    with contextlib.closing(connect(running.target)) as connection:
        for path in ("/site/", *(f"/site/{page}" for page in target_content.SITE)):
            status, body = ask(connection, path)
            assert status == 200
            # That server's links name it.
            origin = running.target.origins["h1"].encode() if embedded else b""
            page = content.www / "site" / (path.removeprefix("/site/") or "index.html")
            assert body.replace(b'href="' + origin + b"/", b'href="/') == page.read_bytes()


@serving("/echo")
def test_it_gives_back_and_waits(running: Running) -> None:
    body = bytes(range(256)) * 300
    with contextlib.closing(connect(running.target)) as connection:
        assert ask(connection, "/echo", body) == (200, body)
        assert ask(connection, "/delay/20ms") == (200, b"waited 20ms\n")
        assert ask(connection, "/delay/20ms", body[:5000]) == (200, b"waited 20ms\n")
        assert ask(connection, "/delay/nonsense")[0] == 400
        status, arrived = ask(connection, "/headers")
        assert status == 200
        assert json.loads(arrived)["version"] == "h1"


@pytest.mark.parametrize("name", NAMES)
def test_it_stops_without_leftovers(name: str, state: Path, tmp_path: Path) -> None:
    with opened(name, state, tmp_path, threads=2) as target:
        pids = list(target.pids)
        ports = {urlsplit(origin).port for origin in target.origins.values()}
        assert all(is_alive(pid) for pid in pids)
    # No grace: when the context is left, it is over.
    assert not [pid for pid in pids if is_alive(pid)]
    for port in ports:
        assert port is not None
        wait_until(lambda port=port: not listens(port), f"port {port} is closed")  # type: ignore[misc]
