"""Requests to several origins in one run, each of which gets its own and no others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from peers import callers
from peers.process import HOST, free_port

from .loading import codes, flag, load, load_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from peers.authority import Authority
    from peers.callers import Callers
    from peers.running import Peers

VERSIONS = {"h1": "1.1", "h2": "2", "h3": "3"}

Both = tuple["Callers", "Callers"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Both]:
    """Two servers; the names a.example and b.example are given to them by `named`."""
    folder, leaf = tmp_path_factory.mktemp("origins"), authority.local()
    with callers.serving(folder / "a", leaf) as a, callers.serving(folder / "b", leaf) as b:
        yield a, b


def named(both: Both, listener: str) -> list[str]:
    """Flags for a run over both of them."""
    a, b = both
    given = [f"a.example:{a.port(listener)}:{HOST}", f"b.example:{b.port(listener)}:{HOST}"]
    streams = ["-c", "3"] if listener.startswith("h1") else ["-c", "2", "-m", "4"]
    return [flag(listener), *streams, "-k", *(f"--resolve={each}" for each in given)]


def more(both: Both, before: list[tuple[Any, Any]]) -> list[tuple[dict[str, int], dict[str, int]]]:
    """What has come to each since then: requests, and cookies."""
    return [
        (dict(now[0] - then[0]), dict(now[1] - then[1]))
        for now, then in zip([each.told() for each in both], before, strict=True)
    ]


def origins(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By origin, their sums checked."""
    each: list[dict[str, Any]] = report["origins"]
    for name in ("started", "ok", "failed", "abandoned"):
        assert sum(origin[name] for origin in each) == report["requests"][name], (name, each)
    latencies = sum(origin["service"]["count"] for origin in each)
    assert latencies == report["latency"]["service"]["count"]
    established = sum(origin["connections"] for origin in each)
    assert established == report["connections"]["established"]
    return {origin["origin"].split("://")[1].split(":")[0]: origin for origin in each}


@pytest.mark.parametrize("listener", VERSIONS)
def test_each_origin_gets_its_own_requests(both: Both, listener: str) -> None:
    a, b = both
    before = [each.told() for each in both]
    urls = [a.url(listener, "a.example", "/one"), b.url(listener, "b.example", "/two")]
    arguments = [*named(both, listener), "-t", "2", "-n", "80", "--weights", "3,1", *urls]
    report = load(*arguments).good
    version = VERSIONS[listener]
    told = more(both, before)
    assert [requests for requests, _ in told] == [
        {f"{version} a.example:{a.port(listener)}/one": 60},
        {f"{version} b.example:{b.port(listener)}/two": 20},
    ]
    counted = origins(report)
    assert {name: origin["ok"] for name, origin in counted.items()} == {
        "a.example": 60,
        "b.example": 20,
    }
    connections = report["plan"]["connections"]
    assert [origin["connections"] for origin in counted.values()] == [connections] * 2
    assert len(report["target"]["peers"]) == 2
    assert report["target"]["url"] == urls[0]
    assert report["latency"]["queued"]["count"] == 80


def test_another_servers_requests_are_not_for_this_one(both: Both, peers: Peers) -> None:
    """The same path at nginx and at Hypercorn."""
    a, _ = both
    before = [each.told() for each in both]
    nginx = peers["nginx"].url("h2")
    own = a.url("h2", "localhost", "/hello")
    report = load("--h2", "-c", "2", "-m", "8", "-n", "60", "-k", nginx, own).good
    assert report["origins"][0]["origin"] + "/hello" == nginx
    assert [origin["ok"] for origin in report["origins"]] == [30, 30]
    [(requests, _), (others, _)] = more(both, before)
    assert requests == {f"2 localhost:{a.secure}/hello": 30}
    assert others == {}


def test_cookies_of_one_host_are_not_sent_to_another(both: Both, tmp_path: Path) -> None:
    (a, b), listener = both, "h2"
    file = tmp_path / "visit.json"
    steps = [
        {
            "name": "log in",
            "url": b.url(listener, "b.example", "/session?cookie=secret"),
            "take": {"token": {"json": "/token"}},
        },
        {"name": "api", "url": a.url(listener, "a.example", "/{var:token}?cookie=own")},
        {"name": "again", "url": a.url(listener, "a.example", "/again")},
        {"name": "out", "url": b.url(listener, "b.example", "/out")},
    ]
    file.write_text(json.dumps({"steps": steps}), encoding="utf-8")
    before = [each.told() for each in both]
    report = load(*named(both, listener), "-n", "20", "--scenario", str(file)).good
    assert (report["scenario"]["ok"], report["requests"]["ok"]) == (20, 80)
    (at_a, cookies_a), (at_b, cookies_b) = more(both, before)
    version = VERSIONS[listener]
    here, there = (
        f"{version} a.example:{a.port(listener)}",
        f"{version} b.example:{b.port(listener)}",
    )
    assert at_a == {f"{here}/t": 20, f"{here}/again": 20}
    assert at_b == {f"{there}/session": 20, f"{there}/out": 20}
    assert cookies_a == {"": 20, "own=1": 20}
    assert cookies_b == {"": 20, "secret=1": 20}
    assert {name: origin["ok"] for name, origin in origins(report).items()} == {
        "a.example": 40,
        "b.example": 40,
    }


def test_an_origin_that_refuses_connections_fails_alone(both: Both) -> None:
    (a, _), listener = both, "h1"
    nobody = a.url(listener, "b.example", "/").replace(f":{a.port(listener)}/", f":{free_port()}/")
    given = f"b.example:{nobody.split(':')[2].rstrip('/')}:{HOST}"
    url = a.url(listener, "a.example", "/one")
    arguments = [*named(both, listener), "--resolve", given, "-n", "60", url, nobody]
    report = load(*arguments).checked
    counted = origins(report)
    assert (counted["a.example"]["ok"], counted["a.example"]["failed"]) == (30, 0)
    assert (counted["b.example"]["ok"], counted["b.example"]["failed"]) == (0, 30)
    assert counted["b.example"]["connections"] == 0
    assert counted["b.example"]["connections_failed"] >= 30
    assert set(report["requests"]["failures"]) == {"refused"}
    assert "few_connections" in codes(report)


def test_where_all_refuse_there_is_no_run() -> None:
    run = load("-c", "2", "-n", "4", *(f"http://{HOST}:{free_port()}/" for _ in range(2)))
    assert run.code == 1
    assert "refused the connection" in run.message


def test_an_archive_goes_to_the_hosts_that_are_chosen(both: Both, tmp_path: Path) -> None:
    a, b = both
    urls = [
        a.url("h1", "a.example", "/page"),
        b.url("h1", "b.example", "/style"),
        "http://counting.example/pixel",
        a.url("h1", "a.example", "/more"),
    ]
    entries = [{"request": {"method": "GET", "url": url, "headers": []}} for url in urls]
    file = tmp_path / "visit.har"
    file.write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}), encoding="utf-8")
    arguments = [*named(both, "h1"), "-n", "30", "--har", str(file)]
    run = load(*arguments, "--har-host", "a.example", "--har-host", "b.example")
    counted = origins(run.good)
    assert [counted[name]["ok"] for name in ("a.example", "b.example")] == [20, 10]
    assert "left out what goes to other hosts: counting.example (1)" in run.err
    told = load(*arguments)
    assert told.code == 2
    assert "--har-host '*' for all" in told.err


def test_http_and_https_mix_over_http_1(both: Both) -> None:
    a, b = both
    urls = [a.url("h1", "a.example", "/"), b.url("h1s", "b.example", "/")]
    given = [f"--resolve=a.example:{a.plain}:{HOST}", f"--resolve=b.example:{b.secure}:{HOST}"]
    report = load("--h1", "-c", "2", "-n", "20", "-k", *given, *urls).good
    assert [origin["ok"] for origin in report["origins"]] == [10, 10]
    assert [origin["origin"].split(":")[0] for origin in report["origins"]] == ["http", "https"]


def test_the_report_has_a_table_of_the_origins(both: Both) -> None:
    a, b = both
    urls = [a.url("h1", "a.example", "/"), b.url("h1", "b.example", "/")]
    shown = load_text(*named(both, "h1"), "-v", "-n", "20", *urls).out
    lines = [line.split() for line in shown.splitlines()]
    rows = {words[0]: words[1:6] for words in lines if words and words[0].startswith("http://")}
    assert rows == {url.rstrip("/"): ["10", "10", "0", "0", "3"] for url in urls}
    assert "3 connections to each of 2 origins" in shown
