"""What `trilane ab` refuses before anything runs, and what a budget is to the lab."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from trilane.lab import ab
from trilane.lab.ab import BadAb, Flags
from trilane.lab.experiment.form import Expect


def refused(**flags: Any) -> str:
    given = {"base": "main", "head": "HEAD", "serve": "./app {port}", **flags}
    with pytest.raises(BadAb) as caught:
        # The folder is not looked at before the flags are.
        ab.experiment(Flags(**given), Path("/nowhere"), Path("/nowhere"), lambda _: None)
    return str(caught.value)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"serve": "./app"}, "says no port: both revisions run at the same time, so write {port}"),
        ({"serve": "./app {prot}"}, "'prot' is not a placeholder: did you mean port?"),
        ({"serve": "./app {port}", "version": "h2"}, "write {cert} and {key}"),
        ({"serve": "./app {port} {cert}", "tls": True}, "write {cert} and {key}"),
        ({"path": "hello"}, "--path hello: a path begins with a slash"),
        ({"budget": ["cpu"]}, "--budget 'cpu': write MEASURE +N%"),
        ({"budget": ["cpu +5%, p99 10%"]}, "--budget 'p99 10%': write MEASURE +N%"),
        # As an unset variable leaves it: a gate must not vanish.
        ({"budget": [""]}, "--budget '': write MEASURE +N%"),
        ({"budget": ["cup +5%"]}, "'cup'"),
        ({"budget": ["rate +5%"]}, "would forbid what is better: write 'rate -5%'"),
        ({"budget": ["cpu -5%"]}, "would forbid what is better: write 'cpu +5%'"),
        ({"budget": ["wall +5%"]}, "it is not measured with --serve: choose from cpu,"),
        ({"serve": None}, "what is to be compared? type --serve COMMAND"),
        ({"command": "true"}, "--serve and --command: one thing is compared at a time"),
        ({"url": "http://a"}, "--url is what a client asks: it goes with --client"),
        ({"serve": None, "command": " "}, "--command is empty"),
        (
            {"serve": None, "command": "true", "budget": ["p99 +5%"]},
            "it is not measured with --command: choose from cpu, wall, rss",
        ),
        ({"serve": None, "client": "ask"}, "asks nothing: write {url} where the URL belongs"),
        (
            {"serve": None, "client": "ask {url}", "url": "ftp://a"},
            "--url: it takes an http:// or https:// URL, not ftp://",
        ),
        (
            {"serve": None, "client": "ask {url}", "url": "https://a", "version": "h3"},
            "--h3 and --url: the client decides what it speaks",
        ),
        (
            {"serve": None, "client": "ask {url}", "url": "https://a", "budget": ["rate -5%"]},
            "it is not measured with --client and --url: choose from",
        ),
    ],
)
def test_what_cannot_be_measured_says_what_to_type(flags: dict[str, Any], message: str) -> None:
    assert re.search(re.escape(message), refused(**flags))


def test_a_budget_is_a_gate_on_head_against_base() -> None:
    assert ab.allowed("cpu +5%, p99.9 +10%, rate -20%") == [
        ("cpu +5%", Expect("server_cpu_us_per_request", "head", "base", 0.0, 1.05)),
        (
            "p99.9 +10%",
            Expect("p99_9", "head", "base", 0.0, pytest.approx(1.1)),  # type: ignore[arg-type]
        ),
        # No less than 0.8 of base is: base no more than 1.25 of head.
        ("rate -20%", Expect("requests_per_s", "base", "head", 0.0, 1.25)),
    ]
    assert ab.allowed("wall +5%, rss +10%, cpu +1%", ab.PROCESS) == [
        ("wall +5%", Expect("total_s", "head", "base", 0.0, 1.05)),
        ("rss +10%", Expect("peak_rss_bytes", "head", "base", 0.0, pytest.approx(1.1))),  # type: ignore[arg-type]
        ("cpu +1%", Expect("cpu_s", "head", "base", 0.0, 1.01)),
    ]
    (_, per_request) = ab.allowed("cpu +5%", ab.CLIENT)[0]
    assert per_request.measure == "client_cpu_us_per_request"
