"""Facts that decide whether two measurements may be set side by side."""

from __future__ import annotations

from typing import Any

import pytest

from synthetic import folders
from synthetic.records import altered
from trilane.lab.model.comparison import Comparison
from trilane.lab.model.documents import Json, machine_id
from trilane.lab.storage import conditions, runs
from trilane.lab.storage.runs import RunFolder

FACTORS = {"h1": 1.0, "h2": 1.5}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return runs.load(folders.race(tmp_path_factory.mktemp("state"), "20261120-100000", FACTORS))


@pytest.fixture
def comparison(run: RunFolder) -> Comparison:
    return run.points[0].comparison


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"pinning": "none"}, True),
        ({"python": "3.14"}, True),
        ({"kernel": "Linux 6.18.44-cloud"}, True),
        ({"kernel": "Linux 7.0"}, False),
        ({"cpus_usable": 4}, False),
        ({"cpu": "Another CPU"}, False),
    ],
)
def test_a_machine_keeps_its_name_while_it_is_the_same(change: dict[str, Any], same: bool) -> None:
    name = machine_id(folders.MACHINE)
    assert len(name) == 8
    assert (machine_id({**folders.MACHINE, **change}) == name) is same


def test_a_machine_that_says_nothing_of_itself_has_a_name_too() -> None:
    assert len(machine_id({})) == 8


@pytest.mark.parametrize(
    ("url", "server", "target"),
    [
        ("https://127.0.0.1:4711/hello", {"software": "trilane serve"}, "own server /hello"),
        ("https://127.0.0.1:4711/x", {"ours": False}, "https://127.0.0.1:4711/x"),
        ("https://example.org/", {}, "https://example.org/"),
        ("https://localhost:1/y", {"trilane": {"ours": True}, "nginx": {}}, "own server /y"),
    ],
)
def test_the_port_of_our_own_server_is_no_difference(
    comparison: Comparison, url: str, server: Json, target: str
) -> None:
    comparison = altered(comparison, {"url": url, "ledger.server": server})
    assert conditions.target(comparison, comparison.arms[0]) == target


def test_the_facts_of_one_of_several_servers_are_its_own(
    run: RunFolder, comparison: Comparison
) -> None:
    server = {"embedded": {"threads": 3}, "nginx": {"threads": 9}}
    comparison = altered(comparison, {"ledger.server": server})
    assert conditions.software(run, comparison, comparison.arms[0])["server threads"] == 3


def test_every_fact_has_one_place(run: RunFolder, comparison: Comparison) -> None:
    places = [
        conditions.workload(run, comparison, comparison.arms[1]),
        conditions.machine(run, comparison, comparison.arms[1]),
        conditions.software(run, comparison, comparison.arms[1]),
    ]
    names = [name for facts in places for name in facts]
    assert len(names) == len(set(names))
    told = {row.name for row in comparison.ledger.rows}
    assert told - set(names) == {"peer"}


def test_the_fingerprint_follows_the_workload_only(run: RunFolder, comparison: Comparison) -> None:
    before = conditions.fingerprint(conditions.workload(run, comparison, comparison.arms[1]))
    comparison = altered(comparison, {"plan.seed": 5, "started_at": "later"})
    assert (
        conditions.fingerprint(conditions.workload(run, comparison, comparison.arms[1])) == before
    )
    comparison = altered(comparison, {"plan.duration_s": 9.0})
    assert (
        conditions.fingerprint(conditions.workload(run, comparison, comparison.arms[1])) != before
    )
