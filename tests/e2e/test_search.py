"""`--search`: the highest rate that holds, with its interval."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from .loading import Watched, load, load_text

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

    from peers.running import Peers

GOAL = ["--search", "errors<1%"]
ONE = ["-c", "1", "--warmup", "0s"]


def test_a_server_that_waits_cannot_do_more_than_its_waits_allow(
    peers: Peers, search_schema: Draft202012Validator
) -> None:
    """One connection, and 20 ms for each answer: no machine does more than 50 in a second."""
    url = peers["embedded"].url("h1", "/delay/20ms")
    run = load(*ONE, "-d", "100ms", *GOAL, "-R", "20", url)
    # 4, and no rate that holds, where the client was late on a busy machine.
    assert run.code in {0, 4}, run
    assert run.report is not None
    found = run.report
    search_schema.validate(found)
    assert found["answer"]["headline"]
    assert found["goals"] == ["errors<1%"]
    low, high = found["low_per_s"], found["high_per_s"]
    assert run.code == 4 or low is not None
    assert low is None or low <= min(51, high)
    held: dict[float, list[bool]] = {}
    for trial in found["trials"]:
        held.setdefault(trial["rate_per_s"], []).append(trial["held"])
        assert trial["run"]["plan"]["rate_per_s"] == trial["rate_per_s"]
        assert trial["held"] == (trial["why"] == [])
    assert low is None or held[low] == [True] * 6
    assert held[high] == [False] * 6


def test_what_holds_at_no_rate_breaches(peers: Peers) -> None:
    url = peers["embedded"].url("h1", "/delay/20ms")
    # A search needs no rate for what goes with one.
    open_model = ["--arrivals", "poisson", "--shed-after", "1s"]
    run = load_text(*ONE, "-d", "300ms", *open_model, "--search", "p50<5ms", url)
    # 4 where the client was late on a busy machine.
    assert run.code in {3, 4}, run
    first = run.out.splitlines()[0]
    assert first.startswith(("✗ No rate tried holds p50 < 5 ms", "✗ No result: this client")), run
    assert "does not hold: p50<5ms is not true: it is 2" in run.err


def test_a_search_that_is_interrupted_tells_its_runs(peers: Peers) -> None:
    arguments = ["-c", "1", "-d", "600s", "--warmup", "0s", *GOAL, "-R", "20"]
    running = Watched(*arguments, peers["embedded"].url("h1"))
    running.until(lambda counts: counts.ok > 0)
    running.interrupt(signal.SIGINT)
    run = running.wait()
    assert run.code == 130
    assert run.report is not None
    assert run.report["interrupted"]
    assert json.dumps(run.report["trials"]) == "[]"
