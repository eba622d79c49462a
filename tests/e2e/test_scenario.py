"""Scenarios: what virtual users do, against an application that keeps sessions."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from peers import shop
from peers.process import HOST
from repository import ROOT

from .loading import flag, load, load_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from peers.authority import Authority
    from peers.running import Peers

VISIT = """
name = "visit"

[[steps]]
name = "login"
url = "/login"
body = { user = "{csv:%s:name}" }
expect = { status = 201 }
checks = [{ json = "/ok", equals = true }, { header = "content-type", contains = "json" }]

[steps.take]
token = { json = "/token" }
item = { header = "location", regex = "/items/(.*)" }

[[steps]]
repeat = 2

[[steps.steps]]
name = "item"
url = "/items/{var:item}"
headers = { authorization = "Bearer {var:token}" }
checks = [{ json = "/state", equals = "in stock" }, { matches = '"item": \\d+' }]
pause = "1ms-3ms"

[[steps]]
name = "cart"
url = "/cart"
method = "PUT"
headers = { authorization = "Bearer {var:token}" }
body = { item = "{var:item}", count = 2 }
checks = [{ json = "/state", equals = "full" }]
"""


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[shop.Shop]:
    """The shop."""
    with shop.serving(tmp_path_factory.mktemp("shop"), authority.local()) as running:
        yield running


@pytest.fixture
def visit(tmp_path: Path) -> str:
    """The file of a visit, whose users are named in another."""
    names = tmp_path / "users.csv"
    names.write_text("name\nada\nbob\neve\n", encoding="utf-8")
    file = tmp_path / "visit.toml"
    file.write_text(VISIT % names, encoding="utf-8")
    return str(file)


def counts(at: shop.Shop) -> tuple[dict[str, int], list[str]]:
    """What the shop has counted: requests by path and status, and its users."""
    with closing(http.client.HTTPConnection(HOST, at.plain, timeout=60)) as connection:
        connection.request("GET", "/counts")
        told = json.load(connection.getresponse())
    return told["counts"], told["users"]


def scenario(report: dict[str, Any]) -> dict[str, Any]:
    """The part of the report, its books checked."""
    part: dict[str, Any] = report["scenario"]
    assert part["started"] == part["ok"] + part["failed"] + part["abandoned"]
    assert sum(step["ok"] for step in part["steps"]) == report["requests"]["ok"]
    assert sum(step["failed"] for step in part["steps"]) == report["requests"]["failed"]
    return part


@pytest.mark.parametrize("listener", ["h1", "h2", "h3"])
def test_each_user_has_a_session_of_its_own(at: shop.Shop, visit: str, listener: str) -> None:
    before, _ = counts(at)
    streams = ["-c", "4"] if listener.startswith("h1") else ["-c", "2", "-m", "4"]
    report = load(
        *(flag(listener), *streams, "-t", "2", "-n", "60", "--cacert", at.ca),
        *("--scenario", visit, at.url(listener)),
    ).good
    part = scenario(report)
    assert (part["name"], part["ok"], part["failed"], part["abandoned"]) == ("visit", 60, 0, 0)
    assert [(step["name"], step["ok"]) for step in part["steps"]] == [
        ("login", 60),
        ("item", 120),
        ("cart", 60),
    ]
    assert report["requests"]["ok"] == 240
    assert report["status"] == {"200": 180, "201": 60}
    # Two pauses of at least a millisecond.
    assert part["duration"]["min"] >= 0.002
    after, users = counts(at)
    more = {what: count - before.get(what, 0) for what, count in after.items()}
    assert [more[what] for what in ("login 201", "items 200", "cart 200")] == [60, 120, 60]
    assert users == ["ada", "bob", "eve"]


def test_more_users_than_connections_share_them(at: shop.Shop, visit: str) -> None:
    report = load(*("-c", "2", "-n", "40", "--users", "20", "--scenario", visit, at.url("h1"))).good
    assert scenario(report)["users"] == 20
    assert report["connections"]["established"] == 2
    assert report["latency"]["queued"]["count"] == report["requests"]["started"]


def test_iterations_of_the_open_model_begin_on_time(at: shop.Shop, visit: str) -> None:
    report = load(
        *("--h2c", "-c", "2", "-m", "16", "-R", "100", "-d", "1s", "--warmup", "0s"),
        *("--scenario", visit, at.url("h2c")),
    ).checked
    part = scenario(report)
    # The last is due as the run ends.
    assert part["started"] + report["requests"]["unsent"] in {100, 101}
    assert report["rate"]["sent_per_s"] == pytest.approx(
        part["started"] / report["rate"]["window_s"]
    )
    assert (
        report["requests"]["started"]
        == sum(step["ok"] + step["failed"] for step in part["steps"])
        + report["requests"]["abandoned"]
    )


def test_what_is_not_as_expected_ends_the_iteration(at: shop.Shop, tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    steps = [
        {
            "name": "login",
            "url": "/login",
            "body": {"user": "x"},
            "checks": [{"json": "/ok", "equals": False}],
        },
        {"name": "never", "url": "/cart"},
    ]
    file.write_text(json.dumps({"steps": steps}), encoding="utf-8")
    report = load("-c", "1", "-n", "5", "--scenario", str(file), at.url("h1")).checked
    part = scenario(report)
    assert (part["failed"], part["ok"]) == (5, 0)
    assert [step["failed"] for step in part["steps"]] == [5, 0]
    example = report["requests"]["failures"]["check"]["example"]
    assert example == 'the step "login": /ok of the content is true, not false'


def test_a_status_or_a_value_that_is_missing_fails(at: shop.Shop, tmp_path: Path) -> None:
    file = tmp_path / "missing.toml"
    file.write_text(
        "cookies = false\n"
        "[[steps]]\nurl = '/login'\nbody = { user = 'x' }\ntake = { id = { json = '/id' } }\n"
        "[[steps]]\nurl = '/items/{var:id}'\n",
        encoding="utf-8",
    )
    report = load("-c", "1", "-n", "3", "--scenario", str(file), at.url("h1")).checked
    failures = report["requests"]["failures"]
    assert failures["check"]["count"] == 3
    assert "/id of the content is not there to be taken" in failures["check"]["example"]
    file.write_text("[[steps]]\nurl = '/cart'\n", encoding="utf-8")
    report = load("-c", "1", "-n", "3", "--scenario", str(file), at.url("h1")).checked
    assert report["requests"]["failures"]["status"]["count"] == 3


def test_the_report_has_a_table_of_the_steps(at: shop.Shop, visit: str) -> None:
    run = load_text("-v", "-c", "2", "-n", "10", "--scenario", visit, at.url("h1"))
    assert "10 started = 10 ok + 0 failed + 0 abandoned" in run.out
    lines = [line.split() for line in run.out.splitlines()]
    steps = {words[0]: words[1:3] for words in lines if words and words[0] in ("item", "cart")}
    assert steps == {"item": ["20", "0"], "cart": ["10", "0"]}
    assert "10 iterations after 0 s of warm-up" in run.out


def test_the_example_runs(peers: Peers) -> None:
    example = str(ROOT / "examples" / "visit.toml")
    report = load(
        *("--users", "12", "-c", "3", "-n", "40", "--scenario", example),
        peers["embedded"].url("h1", ""),
    ).good
    part = scenario(report)
    steps = {step["name"]: step["ok"] for step in part["steps"]}
    assert (part["ok"], steps["list"]) == (40, 40)
    assert steps["book"] == 3 * (40 - steps["leave"])
    # Three in four look at a book, and what is left to chance is the same in every run.
    assert 3 <= steps["leave"] <= 20
