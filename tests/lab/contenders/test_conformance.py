"""Every contender, over every version and in every strategy: what it reports is what happened."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from lab.contenders.conftest import CONTENDERS, OldServer, Trouble, case
from lab.contenders.conversation import Said, body, converse, digest, plan
from lab.contenders.counting import CountingRelay
from lab.contenders.together import AT_ONCE, Together
from trilane.lab.clients.contenders import Contender
from trilane.lab.experiment.vocabulary import MULTIPLEXED
from trilane.lab.targets.servers import Server

Get = Callable[[str], bytes]
Origin = Callable[[str], str]
Command = Callable[[Contender], list[str]]

# A load generator that has no other strategy than `load` does not do these things; it has tests of
# its own.
EVERY = [
    case(contender, version, strategy, f"{contender.name}-{version}-{strategy}")
    for contender in CONTENDERS.values()
    for version in contender.versions
    for strategy in contender.strategies[version]
    if strategy != "load"
]
# Strategies that use a library in one way: what differs among them is the harness, not the library.
ALIKE = [
    ("serial", "threads", "processes", "asyncio_threads"),
    ("asyncio", "processes_asyncio"),
]


def in_turn(contender: Contender) -> set[tuple[str, str]]:
    """Versions and strategies: each way over each version, and each strategy, in turn."""
    chosen = set()
    count = len(contender.versions)
    for way in ALIKE:
        for number, version in enumerate(contender.versions):
            there = [each for each in way if each in contender.strategies[version]]
            # Where strategies are fewer than versions they come again, else several at once.
            chosen |= {
                (version, each)
                for place, each in enumerate(there)
                if place == number % len(there) or place % count == number
            }
    return chosen


ON_MANY = [each for each in EVERY if each.values[1:] in in_turn(each.values[0])]
ON_ONE = [each for each in EVERY if each.values[2] in MULTIPLEXED]
# One strategy each is enough for what does not depend on the strategy.
PAIRS = [
    case(contender, version, contender.strategies[version][0], f"{name}-{version}")
    for name, contender in CONTENDERS.items()
    for version in contender.versions
    if contender.strategies[version][0] != "load"
]
# `get_all` sends GETs, over the connections of a session.
GENERAL = [pair for pair in PAIRS if pair.values[0].name != "trilane-get-all"]
# And one version for what does not depend on that either.
ONCE = [
    next(pair for pair in PAIRS if pair.values[0] is contender)
    for contender in CONTENDERS.values()
    if any(pair.values[0] is contender for pair in PAIRS)
]
COUNT = 2 * AT_ONCE
DURATION_S = 0.1
# The one timeout that must fire.
SHORT_S = 1.0
# Where the system does not tell QUIC that nobody listens, only the time does.
UNREACHABLE = {"refused", "connect", "timeout", "handshake_timeout", "closed", "protocol", "reset"}
# By what happens, and whether it is over QUIC.
EXPECTED = {
    ("closed", False): {"refused"},
    ("closed", True): UNREACHABLE,
    **{("late", quic): {"timeout"} for quic in (False, True)},
    **{("stranger", quic): {"tls"} for quic in (False, True)},
    ("other", False): {"protocol"},
}
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


@pytest.mark.parametrize(("contender", "version", "strategy"), ON_MANY)
def test_it_does_what_it_says(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
    reference: Get,
) -> None:
    paths = ["/hello", "/bytes/20000", "/nowhere"]
    wanted = plan(
        origin(version),
        version,
        strategy,
        cacert=server.cacert,
        processes=2,
        workload={"paths": paths, "count": COUNT},
    )
    check(converse(command(contender), wanted), version, {path: reference(path) for path in paths})


@pytest.mark.parametrize(("contender", "version", "strategy"), ON_ONE)
def test_one_connection_carries_requests_together(
    contender: Contender, version: str, strategy: str, command: Command, together: Together
) -> None:
    paths = together.paths()
    with CountingRelay(together.port(version)) as relay:
        wanted = plan(
            together.origin(version, relay.port),
            version,
            strategy,
            cacert=together.cacert,
            chunk=AT_ONCE,
            in_flight=AT_ONCE,
            workload={"paths": list(paths), "count": COUNT},
        )
        # No request is answered before that many have come.
        check(converse(command(contender), wanted), version, paths)
        assert relay.connections == 1


def check(said: Said, version: str, bodies: dict[str, bytes]) -> None:
    """The result is right: the last of the paths has no page, and its answer is a failure."""
    result = accounted(said, COUNT)
    *pages, missing = bodies
    asked = list(islice(cycle(bodies), COUNT))
    failed = asked.count(missing)
    assert 0 < failed < COUNT
    assert result["failed"] == {"status": failed}, result["examples"]
    assert "404" in result["examples"]["status"]
    assert result["ok"] == COUNT - failed
    assert result["status"] == {"200": COUNT - failed, "404": failed}
    assert result["versions"] == {version: COUNT}
    assert result["body_bytes"] == sum(len(bodies[path]) for path in asked)
    assert result["body_digest"] == digest([bodies[path] for path in asked if path in pages])
    assert latencies(result) == COUNT


@pytest.mark.parametrize(("contender", "version", "strategy"), GENERAL)
def test_an_index_leads_to_its_items_without_a_session(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
    reference: Get,
) -> None:
    """And what came with gzip is counted as what it means."""
    ids = json.loads(reference("/books"))[:6]
    wanted = plan(
        origin(version),
        version,
        strategy,
        cacert=server.cacert,
        session=False,
        gzip=True,
        workload={"kind": "index", "index": "/books", "item": "/book?id={id}", "count": len(ids)},
    )
    result = accounted(converse(command(contender), wanted), len(ids) + 1)
    bodies = [reference("/books"), *(reference(f"/book?id={each}") for each in ids)]
    assert result["failed"] == {}, result["examples"]
    assert result["versions"] == {version: len(bodies)}
    assert result["body_bytes"] == sum(map(len, bodies))
    assert result["body_digest"] == digest(bodies)


@pytest.mark.parametrize(("contender", "version", "strategy"), ONCE)
def test_hundreds_of_responses_follow_on_one_connection(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
) -> None:
    """Wherever the end of a client's buffer falls: hyper's, of 64 KiB, into a head."""
    count = 1000
    wanted = plan(
        origin(version),
        version,
        strategy,
        cacert=server.cacert,
        workload={"paths": ["/bytes/100"], "count": count},
    )
    result = accounted(converse(command(contender), wanted), count)
    assert result["failed"] == {}, result["examples"]


@pytest.mark.parametrize(("contender", "version", "strategy"), ONCE)
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
    assert accounted(said, 11)["status"] == {"200": 11}


@pytest.mark.parametrize(("contender", "version", "strategy"), GENERAL)
def test_bodies_come_back_until_the_time_is_over(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
    reference: Get,
) -> None:
    """What is sent in the warm-up is not counted."""
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
        warmup=2,
        workload={
            "paths": ["/hello" if early else "/echo"],
            "count": None,
            "duration_s": DURATION_S,
        },
    )
    said = converse(command(contender), wanted)
    result = accounted(said, said["result"]["started"])
    assert result["failed"] == {}, result["examples"]
    assert result["ok"] == result["started"] > 0
    assert latencies(result) == result["started"]
    assert result["elapsed_s"] >= DURATION_S
    back = reference("/hello") if early else sent
    assert result["body_digest"] == digest([back]) * result["ok"] % 2**64


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
        workload={"count": 3},
    )
    result = accounted(converse(command(contender), wanted), 3)
    assert result["failed"] == {}, result["examples"]
    assert len(h1_only.fields) == 3
    for fields in h1_only.fields:
        # What HTTP/1.1 does by itself may be said: undici lets nobody leave that out.
        said = [name for name in fields if name != "connection"]
        if contender.name in {"trilane", "trilane-uvloop", "pyreqwest"}:
            # A pool says who it is, unless it is told what to say.
            said.remove("user-agent")
        assert sorted(said) == ["accept", "accept-encoding", "host", "x-trilane"]


@pytest.mark.parametrize(("contender", "version", "strategy"), PAIRS)
def test_failures_have_their_kinds(
    contender: Contender,
    version: str,
    strategy: str,
    command: Command,
    server: Server,
    origin: Origin,
    trouble: Trouble,
) -> None:
    """A closed port, a late answer, a stranger's certificate, another version than wanted."""
    scheme = "http" if version == "h2c" else "https"
    closed = f"{scheme}://127.0.0.1:{trouble.closed_port}"
    here, known = origin(version), server.cacert
    late = {"workload": {"paths": ["/delay/60s"], "count": 1}, "timeout_s": SHORT_S}
    twice: dict[str, Any] = {"workload": {"count": 2}}
    # Over QUIC a closed port may be told by time alone.
    refused = {"workload": {"count": 1}, "timeout_s": SHORT_S} if version == "h3" else twice
    asked = {
        "closed": plan(closed, version, strategy, cacert=known, **refused),
        "late": plan(here, version, strategy, cacert=known, **late),
    }
    if version != "h2c":
        asked["stranger"] = plan(here, version, strategy, cacert=trouble.stranger, **twice)
    if version == "h2":
        asked["other"] = plan(trouble.h1_only, version, strategy, cacert=known, **twice)

    starting = command(contender)
    # Most of it is waiting.
    with ThreadPoolExecutor(len(asked)) as pool:
        told = dict(
            zip(asked, pool.map(lambda each: converse(starting, each), asked.values()), strict=True)
        )
    found = {}
    for name, said in told.items():
        count = asked[name]["workload"]["count"]
        result = accounted(said, count)
        assert sum(result["failed"].values()) == count, (name, result)
        found[name] = set(result["failed"])
        assert found[name] <= EXPECTED[name, version == "h3"], (name, result["examples"])
