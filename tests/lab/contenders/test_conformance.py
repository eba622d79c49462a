"""Every contender, over every version, in every strategy: what it reports is what happened."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from lab.contenders.conftest import CONTENDERS, OldServer, case
from lab.contenders.conversation import Said, body, converse, digest, plan
from trilane.lab.clients.contenders import Contender
from trilane.lab.serving.servers import Server

Get = Callable[[str], bytes]
Origin = Callable[[str], str]
Command = Callable[[Contender], list[str]]

EVERY = [
    case(contender, version, strategy, f"{contender.name}-{version}-{strategy}")
    for contender in CONTENDERS.values()
    for version in contender.versions
    for strategy in contender.strategies[version]
]
# One strategy each is enough for what does not depend on the strategy. A load generator that has
# no other than `load` does not do these things; it has tests of its own.
PAIRS = [
    case(contender, version, contender.strategies[version][0], f"{name}-{version}")
    for name, contender in CONTENDERS.items()
    for version in contender.versions
    if contender.strategies[version][0] != "load"
]
OVER_TLS = [pair for pair in PAIRS if pair.values[1] != "h2c"]
# Where the system does not tell QUIC that nobody listens, only the time does.
UNREACHABLE = {"refused", "connect", "timeout", "handshake_timeout", "closed", "protocol", "reset"}
# niquests reads while it sends, and drops a response that begins before the request has ended.
NO_EARLY_RESPONSES = {("niquests", "h3")}


def accounted(said: Said, count: int) -> dict[str, Any]:
    """The result, if it is complete and adds up."""
    assert said.names == ["ready", "done", "result"], said.errors
    assert said.code == 0, said.errors
    assert said["ready"]["library_version"]
    assert said["ready"]["runtime"]
    result = said["result"]
    assert result["started"] == count
    assert result["ok"] + sum(result["failed"].values()) + result["abandoned"] == count
    assert result["examples"].keys() == result["failed"].keys()
    assert result["elapsed_s"] > 0
    assert result["repetitions_s"]
    return result


def latencies(result: dict[str, Any]) -> int:
    """How many latencies were recorded, and that they are times of requests."""
    latency = result["latency"]
    if latency is None:
        return int(result["started"])
    if "hdr" not in latency:
        assert 0 < latency["quantiles"]["p50"] <= latency["max"] <= result["elapsed_s"]
        return int(latency["count"])
    histogram = HdrHistogram.decode(latency["hdr"])
    assert 1_000 <= histogram.get_min_value() <= histogram.get_max_value()
    assert histogram.get_max_value() / 1e9 <= result["elapsed_s"] * 1.01
    return int(histogram.get_total_count())


@pytest.mark.parametrize(("contender", "version", "strategy"), EVERY)
def test_it_does_what_it_says(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
    reference: Get,
) -> None:
    paths, count = ["/hello", "/bytes/20000"], 25
    said = converse(
        command(contender),
        plan(
            origin(version),
            version,
            strategy,
            cacert=server.cacert,
            chunk=7,
            workload={"paths": paths, "count": count},
        ),
    )
    if strategy == "load" and said.names == ["cannot"]:
        pytest.skip(f"{contender.name} says: {said['cannot']['reason']}")
    result = accounted(said, count)
    bodies = [reference(path) for path in islice(cycle(paths), count)]
    assert result["failed"] == {}, result["examples"]
    assert result["ok"] == count
    assert result["status"] == {"200": count}
    assert result["versions"] == {version: count}
    assert result["body_bytes"] == sum(map(len, bodies))
    assert result["body_digest"] == digest(bodies)
    assert latencies(result) == count


@pytest.mark.parametrize(("contender", "version", "strategy"), PAIRS)
def test_without_a_session(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
) -> None:
    wanted = plan(origin(version), version, strategy, cacert=server.cacert, session=False)
    said = converse(command(contender), wanted)
    if said.names == ["cannot"]:
        assert "session" in said["cannot"]["reason"]
        return
    assert accounted(said, 10)["versions"] == {version: 10}


@pytest.mark.parametrize(("contender", "version", "strategy"), PAIRS)
@pytest.mark.parametrize("gzip", [False, True], ids=["identity", "gzip"])
def test_an_index_leads_to_its_items(
    contender: Contender,
    version: str,
    strategy: str,
    gzip: bool,
    command: Command,
    server: Server,
    origin: Origin,
    reference: Get,
) -> None:
    ids = json.loads(reference("/books"))[:12]
    workload = {"kind": "index", "index": "/books", "item": "/book?id={id}", "count": len(ids)}
    wanted = plan(
        origin(version), version, strategy, cacert=server.cacert, gzip=gzip, workload=workload
    )
    said = converse(command(contender), wanted)
    if said.names == ["cannot"]:
        pytest.skip(f"{contender.name} says: {said['cannot']['reason']}")
    result = accounted(said, len(ids) + 1)
    bodies = [reference("/books"), *(reference(f"/book?id={each}") for each in ids)]
    assert result["failed"] == {}, result["examples"]
    assert result["body_bytes"] == sum(map(len, bodies))
    assert result["body_digest"] == digest(bodies)


@pytest.mark.parametrize(("contender", "version", "strategy"), PAIRS)
def test_a_crawl_finds_every_page_once(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
) -> None:
    workload = {"kind": "crawl", "start": "/site/", "count": None}
    wanted = plan(origin(version), version, strategy, cacert=server.cacert, workload=workload)
    said = converse(command(contender), wanted)
    if said.names == ["cannot"]:
        pytest.skip(f"{contender.name} says: {said['cannot']['reason']}")
    assert accounted(said, 11)["status"] == {"200": 11}


@pytest.mark.parametrize(("contender", "version", "strategy"), PAIRS)
def test_a_body_arrives_and_comes_back(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
    reference: Get,
) -> None:
    sent = bytes(range(256)) * 20
    early = (contender.name, version) in NO_EARLY_RESPONSES
    wanted = plan(
        origin(version),
        version,
        strategy,
        cacert=server.cacert,
        method="POST",
        body=body(sent),
        headers=[["content-type", "application/octet-stream"]],
        workload={"paths": ["/hello" if early else "/echo"], "count": 5},
    )
    result = accounted(converse(command(contender), wanted), 5)
    assert result["failed"] == {}, result["examples"]
    assert result["body_digest"] == digest([reference("/hello") if early else sent] * 5)


@pytest.mark.parametrize(
    ("contender", "version", "strategy"),
    [each for each in EVERY if each.values[1:] in {("h1", "serial"), ("h1", "asyncio")}],
)
def test_it_sends_the_plan_s_headers_and_no_others(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    h1_only: OldServer,
) -> None:
    h1_only.fields.clear()
    wanted = plan(
        h1_only.origin,
        version,
        strategy,
        cacert=server.cacert,
        headers=[["accept", "*/*"], ["x-trilane", "1"]],
    )
    result = accounted(converse(command(contender), wanted), 10)
    assert result["failed"] == {}, result["examples"]
    assert len(h1_only.fields) == 10
    for fields in h1_only.fields:
        # What HTTP/1.1 does by itself may be said: undici lets nobody leave that out.
        said = [name for name in fields if name != "connection"]
        if contender.name == "trilane-client":
            # A pool says who it is, unless it is told what to say.
            said.remove("user-agent")
        assert sorted(said) == ["accept", "accept-encoding", "host", "x-trilane"]


@pytest.mark.parametrize(("contender", "version", "strategy"), PAIRS)
def test_a_duration_ends(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
) -> None:
    workload = {"count": None, "duration_s": 0.5}
    wanted = plan(
        origin(version), version, strategy, cacert=server.cacert, warmup=2, workload=workload
    )
    said = converse(command(contender), wanted)
    if said.names == ["cannot"]:
        pytest.skip(f"{contender.name} says: {said['cannot']['reason']}")
    result = accounted(said, said["result"]["started"])
    assert result["ok"] == result["started"] > 0, result["examples"]
    assert latencies(result) == result["started"]
    assert result["elapsed_s"] >= 0.5


@pytest.mark.parametrize(("contender", "version", "strategy"), PAIRS)
def test_a_wrong_path_is_a_failed_status(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
) -> None:
    workload = {"paths": ["/hello", "/nowhere"], "count": 6}
    wanted = plan(origin(version), version, strategy, cacert=server.cacert, workload=workload)
    result = accounted(converse(command(contender), wanted), 6)
    assert result["failed"] == {"status": 3}
    assert result["status"] == {"200": 3, "404": 3}
    assert "404" in result["examples"]["status"]


@pytest.mark.parametrize(("contender", "version", "strategy"), PAIRS)
def test_a_closed_port_refuses(
    contender: Contender, version: str, strategy: str, command: Command, closed_port: int
) -> None:
    scheme = "http" if version == "h2c" else "https"
    wanted = plan(
        f"{scheme}://127.0.0.1:{closed_port}",
        version,
        strategy,
        timeout_s=2.0,
        workload={"count": 2},
    )
    result = accounted(converse(command(contender), wanted), 2)
    allowed = UNREACHABLE if version == "h3" else {"refused"}
    assert sum(result["failed"].values()) == 2
    assert result["failed"].keys() <= allowed, result["examples"]


@pytest.mark.parametrize(("contender", "version", "strategy"), OVER_TLS)
def test_a_stranger_s_certificate_is_refused(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    origin: Origin,
    stranger: str,
) -> None:
    wanted = plan(
        origin(version), version, strategy, cacert=stranger, timeout_s=5.0, workload={"count": 2}
    )
    result = accounted(converse(command(contender), wanted), 2)
    assert result["failed"] == {"tls": 2}, result["examples"]


@pytest.mark.parametrize(("contender", "version", "strategy"), PAIRS)
def test_a_slow_response_runs_out_of_time(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
) -> None:
    wanted = plan(
        origin(version),
        version,
        strategy,
        cacert=server.cacert,
        timeout_s=1.0,
        workload={"paths": ["/delay/20s"], "count": 2},
    )
    result = accounted(converse(command(contender), wanted), 2)
    assert result["failed"] == {"timeout": 2}, result["examples"]


@pytest.mark.parametrize(
    ("contender", "version", "strategy"), [pair for pair in PAIRS if pair.values[1] == "h2"]
)
def test_another_version_is_never_accepted(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    h1_only: OldServer,
) -> None:
    wanted = plan(
        h1_only.origin,
        version,
        strategy,
        cacert=server.cacert,
        timeout_s=5.0,
        workload={"count": 2},
    )
    result = accounted(converse(command(contender), wanted), 2)
    assert result["failed"] == {"protocol": 2}, result["examples"]
