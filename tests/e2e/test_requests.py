"""What is sent: several requests with weights, files of them, and what changes in each."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from repository import native

from .loading import check, flag, load, load_text

if TYPE_CHECKING:
    from pathlib import Path

    from peers.running import Peers


def streams(listener: str) -> list[str]:
    return ["-c", "4"] if listener.startswith("h1") else ["-c", "2", "-m", "8"]


@pytest.mark.parametrize("listener", ["h1", "h2", "h3"])
def test_columns_take_turns_in_the_path(peers: Peers, tmp_path: Path, listener: str) -> None:
    """Each status comes as often as its line: the server read what the table says."""
    table = tmp_path / "codes.csv"
    table.write_text("name,code\na,200\nb,201\nc,404\nd,202\n", encoding="utf-8")
    url = peers["embedded"].url(listener, f"/status/{{csv:{table}:code}}?n={{seq}}")
    arguments = [flag(listener), *streams(listener), "-t", "2", "-n", "40", "-k"]
    report = load(*arguments, "--expect-status", "200-404", url).good
    assert report["status"] == {"200": 10, "201": 10, "202": 10, "404": 10}


@pytest.mark.parametrize("listener", ["h1s", "h2c", "h3"])
def test_content_changes_with_its_length(peers: Peers, listener: str) -> None:
    """The server sends back what it got: as many bytes as all the numbers have."""
    url = peers["embedded"].url(listener, "/echo")
    body = '{"n": {seq}, "id": "{uuid}"}'
    arguments = [flag(listener), *streams(listener), "-n", "120", "-k", "-H", "X-Number: {seq}"]
    report = load(*arguments, "-b", body, url).good
    sent = sum(len(body.replace("{seq}", str(n)).replace("{uuid}", "u" * 36)) for n in range(120))
    assert report["requests"]["ok"] == 120
    assert report["bytes"]["body_received"] == sent
    assert report["plan"]["request"]["method"] == "POST"


def test_numbers_at_random_are_all_of_their_range(peers: Peers) -> None:
    url = peers["embedded"].url("h2c", "/status/{rand:200-203}")
    report = load("--h2c", "-c", "1", "-m", "8", "-n", "400", url).good
    assert sorted(report["status"]) == ["200", "201", "202", "203"]
    assert min(report["status"].values()) > 50


def test_weights_say_how_often_each_url_is_requested(peers: Peers) -> None:
    peer, listener = peers["embedded"], "h1"
    urls = [peer.url(listener, f"/status/{code}") for code in (200, 201, 202)]
    arguments = [flag(listener), "-c", "1", "-n", "100", "-k", "--weights", "5,3,2"]
    report = load(*arguments, *urls).good
    assert report["status"] == {"200": 50, "201": 30, "202": 20}
    assert report["plan"]["asked"]["weights"] == [5, 3, 2]


def lines(*requests: dict[str, Any]) -> str:
    return "".join(json.dumps(request) + "\n" for request in requests)


@pytest.mark.parametrize("listener", ["h1", "h2", "h3"])
def test_requests_come_from_lines_of_json(peers: Peers, tmp_path: Path, listener: str) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_text(
        lines(
            {"url": "/status/201", "weight": 3},
            {"url": "/status/503", "expect": {"status": 503}},
            {"url": "/echo", "method": "PUT", "body": {"n": 1}, "headers": {"X-A": ["1", "2"]}},
            {"url": "/status/404"},
        ),
        encoding="utf-8",
    )
    base = peers["embedded"].url(listener, "")
    arguments = [flag(listener), "-c", "1", "-n", "60", "-k", "--requests", str(file)]
    requests = load(*arguments, base).checked["requests"]
    assert (requests["ok"], requests["failed"]) == (50, 10)
    assert requests["failures"]["status"]["example"] == "the server answered with status 404"


def test_requests_come_from_a_http_file(peers: Peers, tmp_path: Path) -> None:
    file = tmp_path / "calls.http"
    file.write_text(
        f"@host = {peers['embedded'].url('h1', '')}\n\n"
        "### one\n# @weight 2\n{{host}}/status/201\nAccept: */*\n\n"
        "### two\nPOST {{host}}/echo HTTP/1.1\n\nnumber {seq}\n",
        encoding="utf-8",
    )
    report = load("-c", "1", "-n", "30", "--requests", str(file)).good
    assert report["status"] == {"200": 10, "201": 20}


def test_an_archive_is_sent_again(peers: Peers, tmp_path: Path) -> None:
    here = peers["embedded"].url("h1", "")
    urls = [f"{here}/status/201", "https://cdn.example/x.js", f"{here}/hello", "data:,x"]
    sent = [{"name": "accept-language", "value": "de"}, {"name": "Connection", "value": "close"}]
    entries = [{"request": {"method": "GET", "url": url, "headers": sent}} for url in urls]
    file = tmp_path / "visit.har"
    file.write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}), encoding="utf-8")
    run = load("-c", "1", "-n", "10", "--har", str(file))
    assert run.code == 2
    assert "several origins" in run.err
    assert "type --har-host 127.0.0.1, once for each host" in run.err
    run = load("-c", "1", "-n", "10", "--har", str(file), "--har-host", "127.0.0.1")
    assert run.checked["status"] == {"200": 5, "201": 5}
    # What the browser's connection said is not said on ours: it stays open.
    assert run.checked["connections"]["established"] == 1
    assert "left out what goes to other hosts: cdn.example (1)" in run.err
    assert "left out 1 that are neither http nor https" in run.err


def test_a_body_comes_from_stdin(peers: Peers) -> None:
    url = peers["embedded"].url("h1", "/echo")
    command = [native(), "load", "-c", "1", "-n", "3", "-b", "@-", "--format", "json", url]
    run = subprocess.run(command, input=b"from stdin", stdout=subprocess.PIPE, check=False)
    report = json.loads(run.stdout)
    check(report)
    assert report["bytes"]["body_received"] == 3 * len("from stdin")


def test_help_tells_of_templates() -> None:
    assert "{csv:FILE:COLUMN}" in load_text("--help").out


@pytest.mark.parametrize("listener", ["h1", "h3"])
def test_the_slowest_are_told_one_by_one(peers: Peers, tmp_path: Path, listener: str) -> None:
    """One of ten waits for a tenth of a second: these are the slowest, by their number."""
    table = tmp_path / "times.csv"
    table.write_text("time\n" + "0ms\n" * 9 + "100ms\n", encoding="utf-8")
    url = peers["embedded"].url(listener, f"/delay/{{csv:{table}:time}}")
    arguments = [flag(listener), "-c", "2", "-t", "2", "-n", "40", "-k", "--slowest", "4"]
    report = load(*arguments, url).checked
    slowest = report["slowest"]
    assert sorted(each["number"] for each in slowest) == [9, 19, 29, 39]
    for each in slowest:
        assert each["latency_s"] >= 0.1
        assert each["first_byte_s"] >= 0.1
        parts = each["waited_s"] + each["first_byte_s"] + each["body_s"]
        assert parts == pytest.approx(each["latency_s"], abs=1e-8)
        assert (each["worker"], each["connection"]) in {(0, 0), (1, 0)}
        assert not each["timed_out"]
    latencies = [each["latency_s"] for each in slowest]
    assert latencies == sorted(latencies, reverse=True)
    assert latencies[0] == pytest.approx(report["latency"]["service"]["max"], rel=0.001)
    shown = load_text(*arguments, url).out
    assert "worker:connection:stream" in shown


def test_a_timeout_is_among_the_slowest(peers: Peers) -> None:
    url = peers["embedded"].url("h1", "/delay/10s")
    report = load("-c", "1", "-n", "1", "--timeout", "50ms", url).checked
    [slow] = report["slowest"]
    assert slow["timed_out"]
    assert slow["first_byte_s"] is None
    assert slow["latency_s"] >= 0.05
