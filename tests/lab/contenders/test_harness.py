"""The parts of the harness that a conversation does not show."""

from __future__ import annotations

import errno
import http.client
import json
import socket
import ssl
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from lab.contenders.conversation import plan
from trilane_contender.client import Answer, Broken, Library
from trilane_contender.failures import kind_of, message_of
from trilane_contender.generator import Generator
from trilane_contender.plan import BadPlan, parse
from trilane_contender.processes import ProcessesAsyncio
from trilane_contender.serial import Serial
from trilane_contender.strategy import chosen, perform
from trilane_contender.streams import Streams
from trilane_contender.tally import Sample, Tally
from trilane_contender.work import Finder, Frontier


def parsed(version: str = "h2", strategy: str = "serial", **changes: Any) -> Any:
    return parse(json.dumps(plan("https://127.0.0.1:1", version, strategy, **changes)))


class Scripted:
    """A connection that answers what its paths say, and remembers how many were under way."""

    peak = 0

    def __init__(self, _plan: object) -> None:
        self.under_way: list[str] = []

    def submit(self, path: str) -> str:
        self.under_way.append(path)
        Scripted.peak = max(Scripted.peak, len(self.under_way))
        return path

    def collect(self, handle: str) -> Answer:
        self.under_way.remove(handle)
        if handle == "/break":
            raise ConnectionResetError("broken")
        return Answer(404 if handle == "/nowhere" else 200, "h2", handle.encode())

    def close(self) -> None:
        self.under_way.clear()


LIBRARY = Library(distribution=None, stream_client=Scripted)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": "other/1"}, "the plan is not trilane.contender/1"),
        ({"in_flight": -1}, "in_flight = -1 is less than 1"),
        ({"workload": {"kind": "dance"}}, "kind 'dance' is none of urls, call, index, crawl"),
        ({"workload": {"count": None}}, "needs paths and either count or duration_s"),
        ({"workload": {"kind": "index", "index": "/i", "item": "/x"}}, "an item with {id}"),
        ({"workload": {"kind": "crawl"}}, "a crawl needs start"),
        ({"body": "not base64!"}, "the plan lacks or misuses"),
    ],
)
def test_a_plan_that_is_none_says_why(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadPlan) as caught:
        parsed(**changes)
    assert words in str(caught.value)


def test_a_plan_that_is_not_json_says_so() -> None:
    with pytest.raises(BadPlan, match="not JSON"):
        parse("{")


def test_the_encoding_asked_for_is_always_said() -> None:
    assert ("accept-encoding", "identity") in parsed().headers
    assert ("accept-encoding", "gzip") in parsed(gzip=True).headers
    own = parsed(headers=[["Accept-Encoding", "br"]])
    assert own.headers == (("accept-encoding", "br"),)


@pytest.mark.parametrize(
    ("strategy", "connections", "pool"),
    [("chunks", None, 1), ("multiplexed", 6, 6), ("threads", None, 4), ("asyncio", 2, 2)],
)
def test_a_pool_is_as_large_as_the_strategy_needs(
    strategy: str, connections: int | None, pool: int
) -> None:
    assert parsed(strategy=strategy, connections=connections).pool == pool


def caused(outer: Exception, inner: BaseException) -> Exception:
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "refused"),
        (caused(RuntimeError("wrapped"), ConnectionRefusedError()), "refused"),
        (RuntimeError("in its arguments", TimeoutError()), "timeout"),
        (ssl.SSLCertVerificationError("untrusted"), "tls"),
        (socket.gaierror(-2, "unknown name"), "dns"),
        (http.client.RemoteDisconnected("gone"), "closed"),
        (http.client.IncompleteRead(b"", 5), "body"),
        (OSError(errno.EMFILE, "too many open files"), "limit"),
        (OSError(errno.ENETUNREACH, "no route"), "connect"),
        (Broken("goaway", "said goodbye"), "goaway"),
        (ValueError("the library broke"), "protocol"),
        (KeyError("own"), "own"),
    ],
)
def test_failures_have_the_kind_of_their_cause(error: Exception, kind: str) -> None:
    assert kind_of(error, ((KeyError, "own"),)) == kind


def test_a_failure_without_words_names_what_was_raised() -> None:
    error = caused(ConnectionError(None), ValueError("why"))
    assert message_of(error) == "ConnectionError from ValueError, without a message"


def test_a_crawl_asks_for_a_page_once_and_for_no_more_than_its_limit() -> None:
    frontier = Frontier("/site/", 3)
    assert frontier.fresh(["/site", "/a", "/a", "/b", "/c"]) == ["/a", "/b"]
    assert frontier.fresh(["/c"]) == []


def test_links_are_found_as_in_the_post() -> None:
    find = Finder("https://here:1", None)
    page = (
        b'<a href="https://here:1/one/">1</a> <a href="/two">2</a> '
        b'<a href="https://elsewhere/three">3</a> <a href="//four">4</a>'
    )
    assert find(page) == ("/one", "/two")


def test_tallies_add_up() -> None:
    first, second = Tally(), Tally()
    first.note(Sample(2_000, 200, "h1", 3, 2**63))
    second.note(Sample(3_000, 200, "h1", 4, 2**63 + 1))
    second.note(Sample(1_000, 0, "", 0, 0, "reset", "gone"))
    first.add(second)
    result = first.to_json()
    assert (result["started"], result["ok"], result["failed"]) == (3, 2, {"reset": 1})
    assert (result["body_bytes"], result["body_digest"]) == (7, 1)
    first.clear()
    assert first.to_json()["latency"] is None


@pytest.mark.parametrize(("strategy", "peak"), [("chunks", 3), ("multiplexed", 5)])
def test_streams_never_exceed_their_window(strategy: str, peak: int) -> None:
    Scripted.peak = 0
    given = parsed(strategy=strategy, chunk=3, in_flight=5, workload={"count": 20})
    streams = Streams(LIBRARY, given)
    perform(streams, given)
    assert streams.close().ok == 20
    assert Scripted.peak == peak


def test_requests_lost_with_their_connection_are_counted() -> None:
    given = parsed(strategy="multiplexed", in_flight=4)
    streams = Streams(LIBRARY, given)
    streams.batch(["/1", "/break", "/2", "/3", "/4", "/5"])
    tally = streams.close()
    # Four were under way when it broke; the three after it are lost, one is asked for anew.
    assert tally.failed == {"reset": 4}
    assert tally.ok == 2
    assert tally.examples["reset"].startswith("ConnectionResetError")


def test_a_version_that_was_not_asked_for_is_a_failure() -> None:
    given = parsed(version="h3", workload={"count": 2})
    serial = Serial(LIBRARY, given)
    perform(serial, given)
    tally = serial.close()
    assert tally.failed == {"protocol": 2}
    assert tally.examples == {"protocol": "h3 was asked for, h2 was spoken"}


def test_http2_without_tls_is_named_h2c() -> None:
    given = parsed(version="h2c")
    serial = Serial(LIBRARY, given)
    serial.batch(["/"])
    assert serial.close().versions == {"h2c": 1}


@pytest.mark.parametrize(
    ("strategy", "changes", "reason"),
    [
        ("asyncio", {}, "this client has no strategy 'asyncio'"),
        ("chunks", {"version": "h1"}, "HTTP/1.1 has no streams"),
        ("chunks", {"session": False}, "needs session = true"),
        (
            "processes_asyncio",
            {"workload": {"kind": "crawl", "start": "/"}},
            "so it cannot crawl",
        ),
    ],
)
def test_what_cannot_be_done_is_said(strategy: str, changes: dict[str, Any], reason: str) -> None:
    answer = chosen(LIBRARY, parsed(strategy=strategy, **changes))
    assert isinstance(answer, str)
    assert reason in answer


@pytest.mark.parametrize(
    ("count", "jobs"), [(100, [16, 16, 16, 16, 16, 16, 4]), (12, [2] * 6), (4, [4])]
)
def test_processes_get_equal_jobs_and_a_remainder(count: int, jobs: list[int]) -> None:
    shares: list[int] = []

    class Recorded(ProcessesAsyncio):
        def close(self) -> Tally:
            self._pool.shutdown()
            return self._tally

    strategy = Recorded(LIBRARY, parsed(strategy="processes_asyncio"))

    class Done:
        @staticmethod
        def result() -> tuple[Tally, list[str]]:
            return Tally(), []

    def submit(_work: Any, _library: Any, _plan: Any, part: tuple[str, ...], _find: Any) -> Done:
        shares.append(len(part))
        return Done()

    strategy._pool.submit = submit  # type: ignore[assignment]
    strategy.batch(list(islice(cycle(["/"]), count)))
    strategy.close()
    assert shares == jobs


class Loads(Generator):
    """A load generator that can do whatever all of them can."""

    name = "loads"
    versions = ("h1", "h2")

    def cannot(self) -> list[tuple[bool, str]]:
        return [(self.plan.method == "PUT", "loads has no PUT")]

    def verify(self) -> None:
        raise NotImplementedError

    def run(self, seconds: float | None) -> str:
        raise NotImplementedError

    def result(self, output: str) -> dict[str, Any]:
        raise NotImplementedError

    def version(self) -> str:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"session": False}, "loads keeps its connections: it needs session = true"),
        ({"gzip": True}, "loads does not decode gzip"),
        ({"warmup": 10}, "loads warms up by time, not by a number of requests"),
        ({"repeat": 2}, "loads does not repeat a workload"),
        ({"workload": {"kind": "crawl", "start": "/site/"}}, "loads cannot follow links"),
        ({"version": "h3"}, "loads speaks h1 and h2 only, not h3"),
        ({"strategy": "serial"}, "loads has no strategy 'serial', only load"),
        ({"method": "PUT"}, "loads has no PUT"),
    ],
)
def test_what_a_load_generator_cannot(
    changes: dict[str, Any], reason: str | None, tmp_path: Path
) -> None:
    asked = parsed(**{"version": "h1", "strategy": "load", **changes})
    assert Loads(asked, 1, tmp_path).refusal() == reason
