"""What h2load wrote of a run against a server, read by `trilane compare`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from peers.running import absent

from .loading import load_text

if TYPE_CHECKING:
    from pathlib import Path

    from peers.running import Peers

REQUESTS = 2000


def h2load() -> str:
    """The program; without it a skip at home and a failure in CI."""
    path = shutil.which("h2load")
    if path is None:
        absent("h2load is not installed: apt-get install nghttp2-client")
    return path


def compared(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "trilane", "compare", *arguments, "--format", "json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_report_and_log_of_h2load_beside_a_run_of_ours(peers: Peers, tmp_path: Path) -> None:
    url = peers["embedded"].url("h2c")
    log, printed, ours = (tmp_path / name for name in ("h2load.log", "h2load.txt", "run.json"))
    shape = ["-c", "2", "-m", "8", "-n", str(REQUESTS)]
    done = subprocess.run(
        [h2load(), *shape, "--log-file", str(log), url],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    printed.write_text(done.stdout)
    shown = load_text("--h2c", *shape, "--format", "json", "-o", str(ours), url)
    assert shown.code in {0, 4}, shown
    _, document = compared(f"{printed},{log}", str(ours))
    report, lines = document["a"]
    (own,) = document["b"]
    assert (report["tool"], lines["tool"], own["tool"]) == ("h2load", "h2load", "trilane")
    assert [told["requests"]["ok"] for told in (report, lines, own)] == [REQUESTS] * 3
    assert report["requests"]["status"] == {"2xx": REQUESTS}
    assert lines["requests"]["status"] == {"200": REQUESTS}
    # Both tell the same requests: one as a table, one each by itself.
    for name in ("min", "max", "mean"):
        one, other = report["latency"][name], lines["latency"][name]
        # The table rounds to three digits or more; both to microseconds.
        assert abs(one - other) <= 0.01 * other + 2e-6, (name, one, other)
    assert lines["latency"]["p99"] is not None
    assert report["latency"]["p99"] is None
    assert report["bytes_received"] > 0
