"""What a report says, for machines and for people."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import termios
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hdrh.histogram import HdrHistogram

from peers import embedded
from repository import DOCS, native

from .loading import check, load, load_text, validator

if TYPE_CHECKING:
    from conftest import Own
    from peers.running import Peers

_QUANTILES = {"p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99, "p99_9": 99.9}


def test_the_example_is_valid() -> None:
    check(json.loads((DOCS / "run-example.json").read_text()))


def test_the_schema_refuses_what_it_does_not_know(peers: Peers) -> None:
    report = load("-n", "5", "-c", "1", peers["gonet"].url("h1")).good
    for path in (["requests"], ["latency", "service"], ["bytes"], ["target"]):
        spoiled: Any = json.loads(json.dumps(report))
        inner = spoiled
        for key in path:
            inner = inner[key]
        inner["surprise"] = 1
        assert not validator().is_valid(spoiled), path


@pytest.mark.parametrize("model", ["closed", "open"])
def test_histograms_are_read_by_python(peers: Peers, model: str) -> None:
    # A busy machine may miss the rate, which makes a measurement invalid; the counts are right.
    rate = ["-R", "10k"] if model == "open" else []
    report = load("--h1", "-n", "3000", "-c", "4", *rate, peers["gonet"].url("h1")).checked
    assert report["plan"]["model"] == model
    latency = report["latency"]
    assert {name for name in ("response", "late", "queued") if latency[name] is None} == (
        {"response", "late", "queued"} if model == "closed" else set()
    )
    blocks = [block for block in latency.values() if block is not None]
    assert blocks
    for block in blocks:
        histogram = HdrHistogram.decode(block["hdr"])
        assert histogram.get_total_count() == block["count"] == 3000
        for name, percent in _QUANTILES.items():
            if block[name] is not None:
                seconds = histogram.get_value_at_percentile(percent) / 1e9
                assert seconds == pytest.approx(block[name], rel=2e-3, abs=2e-6), name
        ordered = [block[name] for name in _QUANTILES if block[name] is not None]
        assert ordered == sorted(ordered)
        assert block["min"] <= block["mean"] <= block["max"]
        # 3,000 samples are fewer than 10 ÷ (1 − 0.9999).
        assert block["p99_99"] is None


def test_text_keeps_the_lines_that_scripts_scrape(peers: Peers) -> None:
    run = load_text("-n", "500", "-c", "4", peers["gonet"].url("h1"))
    assert run.code == 0, run
    lines = run.out.splitlines()
    for label in ("Requests/sec:", "Transfer/sec:"):
        (line,) = [line for line in lines if line.strip().startswith(label)]
        assert line.split(":", 1)[1].strip()[0].isdigit()
    assert "\x1b" not in run.out + run.err


def test_all_of_a_report_is_printed_by_a_flag(peers: Peers) -> None:
    asked = ["-n", "50", "-c", "4", peers["gonet"].url("h1")]
    brief, whole = load_text(*asked), load_text("-v", *asked)
    assert brief.code == whole.code == 0, (brief, whole)
    assert "50 started = 50 ok" in brief.out
    assert "More with -v: " in brief.out
    for paragraph in ("Connections  4 of 4", "Phases ", "Slowest ", "Wire "):
        assert f"\n\n{paragraph}" in whole.out
        assert f"\n{paragraph}" not in brief.out


def test_a_report_on_a_terminal_fits_it(peers: Peers) -> None:
    run = [native(), "load", "-n", "50", "-c", "4", peers["gonet"].url("h1")]
    for columns in (55, 40):
        shown = on_terminal(columns, run)
        assert "\nRequests/sec: " in shown
        assert max(map(len, shown.splitlines())) <= columns, shown


def on_terminal(columns: int, command: list[str]) -> str:
    """What a command prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, columns))
    parts = []
    # Its only terminal is this one.
    with subprocess.Popen(
        command, stdout=theirs, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        os.close(theirs)
        # Linux has an error for the end.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65_536):
                parts.append(part)
        os.close(ours)
        assert process.wait() == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_the_report_goes_to_a_file(peers: Peers, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    run = load("-n", "100", "-c", "2", "-o", str(path), peers["gonet"].url("h1"))
    assert run.code == 0, run
    report = json.loads(path.read_text())
    check(report)
    assert report["requests"]["ok"] == 100
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_cost_bytes_and_windows_are_measured(peers: Peers) -> None:
    url = peers["gonet"].url("h1")
    report = load("-d", "1200ms", "--warmup", "300ms", "-c", "4", "-t", "2", url).checked
    cost, sent = report["cost"], report["bytes"]
    assert cost["user_s"] + cost["system_s"] > 0
    assert len(cost["busy"]) == 2
    assert all(0 < busy <= 1.05 for busy in cost["busy"])
    assert cost["cpu_us_per_request"] > 0
    assert cost["syscalls"] is None or cost["syscalls"] >= report["requests"]["ok"]
    assert sent["segments_sent"] > 0
    assert sent["datagrams_sent"] is None
    assert sent["rtt_s"] > 0
    assert sent["received"] > sent["body_received"] > 0
    assert report["requests"]["warmup"]["ok"] > 0
    windows = report["windows"]
    starts = [window["start_s"] for window in windows]
    # One that passed before the worker was there has no row.
    assert starts == sorted({round(start * 10) / 10 for start in starts})
    assert starts[-1] >= 1.0
    # A worker that the machine let wait has connections later than the other.
    assert windows[-1]["open"] == 4
    assert cost["server_cpu_us_per_request"] is None
    assert {window["server_cpu_s"] for window in windows} == {None}
    assert sum(window["cpu_s"] for window in windows) == pytest.approx(
        cost["user_s"] + cost["system_s"], rel=0.1, abs=0.02
    )
    assert report["rate"]["requests_per_s"] == pytest.approx(
        report["requests"]["ok"] / report["rate"]["window_s"], rel=1e-6
    )


def test_the_server_s_processor_time_is_told(own: Own) -> None:
    peer = own(lambda folder: embedded.start(native(), folder))
    watched = ["-n", "3000", "-c", "4", "-k", "--server-pid", str(peer.process.pid)]
    report = load(*watched, peer.url("h1")).good
    spent = [window["server_cpu_s"] for window in report["windows"]]
    assert all(seconds >= 0 for seconds in spent)
    told = report["cost"]["server_cpu_us_per_request"]
    assert told * 3000 / 1e6 == pytest.approx(sum(spent), rel=0.2)
    ticks = Path(f"/proc/{peer.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    own_time = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    assert 0 < sum(spent) <= own_time + 0.02
    lines = load_text(*watched, peer.url("h1")).out.splitlines()
    assert any(
        line.startswith("Server cost  ") and "µs CPU per request" in line for line in lines
    ), lines


def test_a_process_that_is_not_there_is_named(peers: Peers) -> None:
    url = peers["gonet"].url("h1")
    gone = subprocess.run(["/bin/sh", "-c", "echo $$"], capture_output=True, check=True)
    pid = gone.stdout.decode().strip()
    run = load("-n", "1", "--server-pid", pid, url)
    assert run.code == 2, run
    assert f"--server-pid {pid}: no such process runs here" in run.err
    assert load("-n", "1", "--server-pid", "0", url).code == 2


def test_headers_compress_better_over_h2(peers: Peers) -> None:
    url = peers["gonet"].url("h2c")
    sent = load("--h2c", "-n", "500", "-c", "1", "-m", "4", "-H", "X-Long: " + "a" * 200, url).good[
        "bytes"
    ]
    assert sent["header_sent_decoded"] > 500 * 200
    assert sent["header_sent_encoded"] < sent["header_sent_decoded"] / 10


def repeated(report: dict[str, Any]) -> list[str]:
    """The arguments of the same run, from its report alone."""
    plan, asked = report["plan"], report["plan"]["asked"]
    given = [
        *("-n", str(plan["requests"]), "-c", str(plan["connections"]), "-X"),
        *(plan["request"]["method"], "--timeout", f"{plan['timeout_s']}s"),
        *("--connect-timeout", f"{asked['connect_timeout_s']}s"),
        *(f"--{asked['version']}", "--stream-window", str(asked["stream_window"])),
        *("--connection-window", str(asked["connection_window"]), "--bind", asked["bind"]),
        *("--connect-parallel", str(asked["connect_parallel"])),
        *("--congestion-control", asked["congestion_control"]),
    ]
    for field in asked["header"]:
        given += ["-H", field]
    for known in asked["resolve"]:
        given += ["--resolve", known]
    codes = ",".join(f"{low}-{high}" for low, high in asked["expect_status"])
    given += ["--expect-status", codes] + ["--check-body"] * asked["check_body"]
    return [*given, *asked["urls"]]


def test_the_report_can_repeat_the_run(peers: Peers) -> None:
    url = peers["gonet"].url("h2c").replace("127.0.0.1", "api.example")
    port = url.split(":")[2].split("/")[0]
    first = load(
        *("-n", "20", "-c", "2", "-X", "GET", "--h2c", "-H", "X-Trace: 7", "--check-body"),
        *("--resolve", f"api.example:{port}:127.0.0.1", "--bind", "127.0.0.3"),
        *("--stream-window", "1m", "--connect-parallel", "1", "--congestion-control", "cubic"),
        *("--timeout", "7s", "--connect-timeout", "3s", "--expect-status", "200-299,404"),
        *(url, url + "?again"),
    ).good
    again = load(*repeated(first)).good
    assert again["plan"] == first["plan"]
    asked = first["plan"]["asked"]
    assert asked["expect_status"] == [[200, 299], [404, 404]]
    assert asked["urls"] == [url, url + "?again"]
