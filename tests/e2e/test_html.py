"""`load --html`: the page beside what is printed, by the whole command alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from repository import native

from .loading import load, load_text

if TYPE_CHECKING:
    from pathlib import Path

    from peers.running import Peers

# A number, as on a busy machine a time may pass without a response.
SHORT = ["--h1", "-c", "2", "-n", "2000", "--warmup", "0s"]


def whole(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The whole command: Python's, with the native one in it."""
    return subprocess.run(
        [sys.executable, "-m", "trilane", "load", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )


def lines(text: str) -> list[str]:
    """What a report is made of, whatever its numbers."""
    return [re.sub(r"[\d.,]+", "N", line.split("  ")[0]) for line in text.splitlines() if line]


def test_the_page_comes_beside_what_is_printed(peers: Peers, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    # At a rate: what is drawn over time takes more than half a second, however fast the server is.
    paced = ["--h1", "-c", "2", "-R", "100", "-n", "100", "--warmup", "0s"]
    asked = [*paced, peers["embedded"].url("h1")]
    done = whole("--html", str(page), "--format", "json", *asked)
    assert done.returncode in {0, 4}, done
    assert f"report: {page}" in done.stderr
    document = page.read_text()
    assert document.startswith("<!doctype html>")
    for chart in ("rate", "latency-over-time", "distribution", "processors"):
        assert f'id="chart-{chart}"' in document
    assert json.loads(done.stdout).keys() == (load(*asked).report or {}).keys()


def test_a_breached_gate_is_told_all_the_same(peers: Peers, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    asked = [*SHORT, "--fail-if", "rate>1", peers["embedded"].url("h1")]
    done = whole("--html", str(page), *asked)
    assert done.returncode == 3, done
    assert page.exists()
    # How many requests there were says whether they have a p99.
    assert lines(done.stdout)[0] == lines(load_text(*asked).out)[0]
    assert "\nRequests/sec: " in done.stdout
    assert "<" not in done.stdout


def test_a_search_is_drawn_as_latency_against_load(peers: Peers, tmp_path: Path) -> None:
    page = tmp_path / "search.html"
    shape = ["--h1", "-c", "1", "-d", "100ms", "--warmup", "0s", "--search", "p50<5ms", "-R", "40"]
    done = whole(*shape, "--html", str(page), peers["embedded"].url("h1", "/delay/20ms"))
    # It holds nowhere: each answer takes 20 ms; 4 where the client was late on a busy machine.
    assert done.returncode in {3, 4}, done
    assert 'id="chart-load"' in page.read_text()


def test_counts_by_latency_are_those_of_the_requests(peers: Peers) -> None:
    report = load(*SHORT, peers["embedded"].url("h1")).good
    for window in report["windows"]:
        counts = window.get("latencies", [])
        assert sum(count for _, count in counts) == window["ok"], window
        assert counts == sorted(counts)
        if window["ok"]:
            # Step i begins at 10^(i/10) microseconds.
            low, high = (10 ** (step / 10) / 1e6 for step in (counts[0][0], counts[-1][0] + 1))
            assert low <= window["p50"] * 1.001
            assert window["p50"] <= high * 1.001


def test_the_native_program_alone_says_what_to_install(peers: Peers, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    shown = load_text(*SHORT, "--html", str(page), peers["embedded"].url("h1"))
    assert shown.code == 2
    assert shown.out == ""
    assert "--html" in shown.err
    assert "pip install 'trilane[lab]'" in shown.err
    assert "trilane report run.json" in shown.err
    assert not page.exists()
    assert (
        "--html"
        in subprocess.run(
            [native(), "load", "--help"], capture_output=True, text=True, check=True, timeout=60
        ).stdout
    )


def test_a_place_where_no_page_can_be_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    # Nobody listens on port 1: it would be told had a request been tried.
    done = whole(*SHORT, "--html", str(tmp_path / "no" / "run.html"), "http://127.0.0.1:1/")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "--html: it takes a file in a folder that exists" in done.stderr
