"""`--prometheus`: what has been measured so far can be fetched while the run lasts."""

from __future__ import annotations

import signal
import socket
import time
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from peers.process import free_port

from .loading import Running, load

if TYPE_CHECKING:
    from peers.running import Peers


def samples(port: int) -> dict[str, float]:
    """What is fetched, by name and labels, as Prometheus's own parser reads it."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        assert response.headers["Content-Type"].startswith("application/openmetrics-text")
        text = response.read().decode()
    return {
        f"{sample.name}{''.join(sample.labels.values())}": sample.value
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
    }


def test_what_has_been_measured_is_fetched_while_it_runs(peers: Peers) -> None:
    port = free_port()
    arguments = ["-c", "2", "-d", "600s", "--warmup", "0s", "--prometheus", f":{port}"]
    running = Running(*arguments, peers["embedded"].url("h1"))

    def measured() -> dict[str, float] | None:
        try:
            found = samples(port)
        except OSError:
            return None
        return found if found.get("trilane_requests_totalok") else None

    limit = time.monotonic() + 60
    while (found := measured()) is None:
        assert time.monotonic() < limit, "nothing was measured"
        time.sleep(0.1)
    assert found["trilane_requests_totalfailed"] == 0
    assert found["trilane_requests_per_second"] > 0
    assert found["trilane_connections_open"] == 2
    assert 0 < found["trilane_service_time_seconds0.5"] <= found["trilane_service_time_seconds1"]
    assert found["trilane_client_cpu_seconds_total"] > 0
    assert found["trilane_responses_total200"] == found["trilane_requests_totalok"]
    assert found["trilane_transferred_bytes_totalreceived"] > 0
    assert found["trilane_requests_in_flight"] <= 2
    durations = "trilane_service_duration_seconds"
    assert found[f"{durations}_count"] == found["trilane_requests_totalok"]
    assert found[f"{durations}_bucket+Inf"] == found[f"{durations}_count"]
    assert len([name for name in found if name.startswith(f"{durations}_bucket")]) == 62
    # Nothing is due in the closed model.
    assert not [name for name in found if "late" in name or "asked" in name]
    with pytest.raises(HTTPError, match="404"):
        urlopen(f"http://127.0.0.1:{port}/", timeout=10)
    running.interrupt(signal.SIGINT)
    report = running.wait().checked
    assert report["requests"]["ok"] >= found["trilane_requests_totalok"]


def test_an_address_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = load("-n", "1", "--prometheus", f":{port}", "http://127.0.0.1:1/")
    assert run.code == 1
    assert f"--prometheus: cannot serve at 127.0.0.1:{port}" in run.message
