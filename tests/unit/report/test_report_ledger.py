"""The ledger in a report: each arm its own facts, and unknown where its client does not tell."""

from __future__ import annotations

import re
from typing import Any

from synthetic import races
from synthetic.records import altered, with_runs
from trilane.lab.analysis import paired
from trilane.lab.model.comparison import Comparison
from trilane.lab.model.lab import LabResult
from trilane.report import html, ledgers
from trilane.report.ledgers import Fact

UNTOLD = ("tls", "congestion_control", "alpn", "peer", "mtu")


def with_a_client_that_is_mute(**told: Any) -> Comparison:
    """Three arms, the last of which is run by a client that tells nothing of its connections."""
    seen = races.race({"h1": 1.0, "h2": 1.5, "h3": 0.6}, histogram=True, blocks=2)
    changes = {f"target.{name}": value for name, value in (dict.fromkeys(UNTOLD) | told).items()}
    mute = {"phases": None, **changes}
    return paired.compare(with_runs(seen, lambda s: mute if s.arm == "h3" else {}))


def fact(made: Comparison, name: str) -> Fact:
    return next(each for each in ledgers.facts(made) if each.name == name)


def row(made: Comparison, name: str) -> list[str]:
    """The cells of a row of the page's ledger, or the one cell that stands for all arms."""
    found = re.search(
        rf'<th scope="row">{name}</th>(.*?)</tr>', html.render(LabResult.of_race(made)), re.DOTALL
    )
    assert found is not None
    return re.findall(r"<td[^>]*>(.*?)</td>", found[1])


def test_what_a_client_does_not_tell_is_unknown_and_not_what_the_others_told() -> None:
    made = with_a_client_that_is_mute()
    for name, told in (
        ("key exchange group", "X25519MLKEM768"),
        ("client congestion control", "cubic"),
        ("TLS version", "TLSv1.3"),
    ):
        assert row(made, name) == [told, told, "unknown"]
        assert not fact(made, name).shared


def test_what_it_tells_is_its_own() -> None:
    made = with_a_client_that_is_mute(congestion_control="bbr")
    assert row(made, "client congestion control") == ["cubic", "cubic", "bbr"]


def test_one_value_stands_for_all_only_where_all_told_it() -> None:
    made = with_a_client_that_is_mute()
    assert row(made, "request method") == ["GET"]
    assert fact(made, "request method").shared


def test_what_the_engine_has_not_is_not_unknown() -> None:
    seen = races.race({"h1": 1.0, "h2c": 1.5}, blocks=2)
    made = paired.compare(seen)
    assert fact(made, "ALPN").each == ["http/1.1", "–"]


def test_an_arm_without_a_run_tells_nothing() -> None:
    made = altered(with_a_client_that_is_mute(congestion_control="cubic"), {"arms.2.samples": []})
    for each in made.ledger.rows:
        each.values["h3"] = None
    assert fact(made, "request method").each == ["GET", "GET", "unknown"]


def test_many_arms_are_named_beside_what_is_unknown_of_them() -> None:
    made = with_a_client_that_is_mute()
    assert fact(made, "MTU (bytes)").values == [
        ("65535", ["HTTP/1.1", "HTTP/2"]),
        ("unknown", ["HTTP/3"]),
    ]
