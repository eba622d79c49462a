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
        ({"budget": ["cup +5%"]}, "'cup'"),
        ({"budget": ["rate +5%"]}, "would forbid what is better: write 'rate -5%'"),
        ({"budget": ["cpu -5%"]}, "would forbid what is better: write 'cpu +5%'"),
    ],
)
def test_what_cannot_be_measured_says_what_to_type(flags: dict[str, Any], message: str) -> None:
    assert re.search(re.escape(message), refused(**flags))


def test_a_budget_is_a_gate_on_head_against_base() -> None:
    assert ab.allowed("cpu +5%, p99.9 +10%, rate -20%") == [
        Expect("server_cpu_us_per_request", "head", "base", 0.0, 1.05),
        Expect("p99_9", "head", "base", 0.0, pytest.approx(1.1)),  # type: ignore[arg-type]
        # No less than 0.8 of base is: base no more than 1.25 of head.
        Expect("requests_per_s", "base", "head", 0.0, 1.25),
    ]
    assert ab.allowed("") == []
