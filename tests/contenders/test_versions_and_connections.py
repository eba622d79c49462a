"""What a contender claims, seen from the other end: its version, its connections, its trust."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from trilane.lab.clients import contender_run
from trilane.lab.clients.contenders import Contender, ContenderFailed, discover
from trilane.lab.serving import servers

from .counting import CountingRelay
from .old_server import old_server

ROOT = Path(__file__).resolve().parents[2]
FOUND = discover([ROOT / "contenders"])
COUNT = 60
AT_ONCE = 20
LIMIT_S = 60.0
# CRC-32 of `hello world`, which a run's digest holds COUNT times.
HELLO = 222957957
MULTIPLEXED = [
    (name, version, strategy)
    for name, contender in FOUND.items()
    for version in contender.versions
    for strategy in ("chunks", "multiplexed")
    if strategy in contender.strategies[version]
]
SERIAL = [
    (name, version)
    for name, contender in FOUND.items()
    for version in contender.versions
    if "serial" in contender.strategies[version]
]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the embedded server keeps its authority."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def server(state: Path) -> Iterator[servers.Server]:
    """The embedded server."""
    with servers.embedded(threads=1, cpus=None, state=state) as running:
        yield running


def absent(reason: str) -> NoReturn:
    """A skip with its reason at home, a failure where everything must be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def command_of(contender: Contender) -> list[str]:
    """What starts it."""
    try:
        return contender.command()
    except ContenderFailed as error:
        absent(str(error))


def plan(origin: str, version: str, strategy: str, cacert: str, **changed: Any) -> dict[str, Any]:
    """COUNT requests for the greeting."""
    work = {"kind": "urls", "paths": ["/hello"], "index": None, "item": None, "start": None}
    return {
        "schema": "trilane.contender/1",
        "origin": origin,
        "version": version,
        "strategy": strategy,
        "session": True,
        "in_flight": 1 if strategy == "serial" else AT_ONCE,
        "connections": None,
        "processes": None,
        "chunk": AT_ONCE if strategy == "chunks" else None,
        "threads": None,
        "timeout_s": 20.0,
        "cacert": cacert,
        "workload": {**work, "count": COUNT, "duration_s": None},
        "method": "GET",
        "headers": [],
        "body": None,
        "gzip": False,
        "warmup": 0,
        "repeat": 1,
        "repeat_processes": 0,
        **changed,
    }


def result_of(contender: Contender, asked: dict[str, Any], folder: Path) -> contender_run.Delivered:
    """One run of it."""
    return contender_run.run(
        command_of(contender), asked, log=folder / "contender.log", limit_s=LIMIT_S
    )


def port_of(origin: str) -> int:
    """The last part of an origin."""
    return int(origin.rpartition(":")[2])


@pytest.mark.parametrize(("name", "version", "strategy"), MULTIPLEXED)
def test_one_connection_carries_them_together(
    name: str, version: str, strategy: str, server: servers.Server, tmp_path: Path
) -> None:
    origin = server.http if version == "h2c" else server.https
    scheme = origin.partition("://")[0]
    with CountingRelay(port_of(origin)) as relay:
        through = f"{scheme}://127.0.0.1:{relay.port}"
        asked = plan(through, version, strategy, server.cacert)
        asked["workload"]["paths"] = ["/delay/500ms"]
        result = result_of(FOUND[name], asked, tmp_path).result
        assert relay.connections == 1
    assert result["failed"] == {}
    assert result["versions"] == {version: COUNT}
    # What they would wait one after the other; together it is three rounds, 1.5 s.
    assert result["elapsed_s"] < COUNT * 0.5


@pytest.mark.parametrize(
    ("name", "version"), [(name, version) for name, version in SERIAL if version in {"h2", "h3"}]
)
def test_an_old_server_is_never_taken_for_a_new_one(
    name: str, version: str, state: Path, server: servers.Server, tmp_path: Path
) -> None:
    with old_server(state / "cert.pem", state / "key.pem") as origin:
        asked = plan(origin, version, "serial", server.cacert, timeout_s=2.0)
        asked["workload"]["count"] = 2
        result = result_of(FOUND[name], asked, tmp_path).result
    assert result["ok"] == 0
    assert sum(result["failed"].values()) == 2
    assert version not in result["versions"]


@pytest.mark.parametrize("name", [name for name, version in SERIAL if version == "h1"])
def test_an_old_server_is_good_enough_for_http_1(
    name: str, state: Path, server: servers.Server, tmp_path: Path
) -> None:
    with old_server(state / "cert.pem", state / "key.pem") as origin:
        asked = plan(origin, "h1", "serial", server.cacert)
        result = result_of(FOUND[name], asked, tmp_path).result
    assert result["failed"] == {}
    assert result["versions"] == {"h1": COUNT}
    assert result["body_digest"] == COUNT * HELLO


@pytest.mark.parametrize(
    ("name", "version"), [(name, version) for name, version in SERIAL if version != "h2c"]
)
def test_a_certificate_of_somebody_else_is_refused(
    name: str,
    version: str,
    server: servers.Server,
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
) -> None:
    with servers.embedded(threads=1, cpus=None, state=tmp_path_factory.mktemp("other")) as other:
        asked = plan(server.https, version, "serial", other.cacert)
        asked["workload"]["count"] = 2
        result = result_of(FOUND[name], asked, tmp_path).result
    assert result["ok"] == 0
    assert result["failed"] == {"tls": 2}
