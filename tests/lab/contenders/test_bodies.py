"""Bodies that are not held in memory: files that are sent, responses that are only counted."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.contenders.conftest import CONTENDERS
from lab.contenders.conversation import converse, plan
from lab.contenders.test_conformance import EVERY, ONCE, PAIRS, accounted
from others import CONTENDERS as KEPT
from trilane.lab.clients.contenders import Contender
from trilane.lab.experiment.workload import write_body
from trilane.lab.targets.servers import Server

Origin = Callable[[str], str]
Command = Callable[[Contender], list[str]]

SIZE = 3_000_001
STREAMING = {
    "aiohttp",
    "aiohttp-uvloop",
    "curl",
    "go",
    "http-client",
    "httpx",
    "httpx-pyqwest",
    "httpx-trilane",
    "httpx2",
    "httpx2-trilane",
    "niquests",
    "pycurl",
    "pyreqwest",
    "requests",
    "requests-trilane",
    "trilane",
    "trilane-uvloop",
}
# They do not read, or not enough, while they send, and so wait for an echo for ever.
NO_LONG_ECHO = {
    ("aiohttp", "h1"),
    ("aiohttp-uvloop", "h1"),
    ("niquests", "h2"),
    ("niquests", "h2c"),
    ("niquests", "h3"),
}
# It reads bodies in pieces, and is not written to send files.
NO_FILES = {"pyreqwest"}
THEY = [pair for pair in PAIRS if pair.values[0].name in STREAMING]
OTHERS = [once for once in ONCE if once.values[0].name not in STREAMING]
OURS_ASYNC = [
    each for each in EVERY if each.values[0].name == "trilane" and each.values[2] == "asyncio"
]


def test_they_are_all_there() -> None:
    assert set(CONTENDERS) >= STREAMING | KEPT


@pytest.mark.parametrize(("contender", "version", "strategy"), [*THEY, *OURS_ASYNC])
def test_a_response_is_counted_and_thrown_away(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
) -> None:
    work = {"paths": [f"/bytes/{SIZE}"], "count": 2}
    wanted = plan(
        origin(version), version, strategy, cacert=server.cacert, discard=True, workload=work
    )
    result = accounted(converse(command(contender), wanted), 2)
    assert result["failed"] == {}, result["examples"]
    assert result["versions"] == {version: 2}
    assert result["body_bytes"] == 2 * SIZE
    assert result["body_digest"] is None


@pytest.mark.parametrize(
    ("contender", "version", "strategy"),
    [each for each in [*THEY, *OURS_ASYNC] if each.values[0].name not in NO_FILES],
)
def test_a_file_arrives(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
    tmp_path: Path,
) -> None:
    file = tmp_path / "body"
    write_body(file, SIZE)
    early = (contender.name, version) in NO_LONG_ECHO
    wanted = plan(
        origin(version),
        version,
        strategy,
        cacert=server.cacert,
        method="POST",
        body_file=str(file),
        headers=[["content-type", "application/octet-stream"]],
        workload={"paths": ["/hello" if early else "/echo"], "count": 2},
    )
    result = accounted(converse(command(contender), wanted), 2)
    assert result["failed"] == {}, result["examples"]
    body = b"hello world" if early else file.read_bytes()
    assert result["body_bytes"] == 2 * len(body)
    assert result["body_digest"] == 2 * zlib.crc32(body)


@pytest.mark.parametrize(("contender", "version", "strategy"), OTHERS)
def test_others_say_that_they_cannot(
    contender: Contender, version: str, strategy: str, command: Command, server: Server
) -> None:
    wanted = plan(server.https, version, strategy, cacert=server.cacert, discard=True)
    said = converse(command(contender), wanted)
    assert said.names == ["cannot"], said.errors
    assert "memory" in said["cannot"]["reason"]
