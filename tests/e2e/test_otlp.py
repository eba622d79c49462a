"""`--otlp`: a collector has the numbers of the report, and one that is not there stops nothing."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from peers.otlp import Collector
from peers.process import free_port

from .grpc_calls import WATCH, grpc
from .loading import Running, load, load_text

if TYPE_CHECKING:
    from peers.running import Peers

CUMULATIVE = 2


def test_the_last_export_is_the_report(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20secret")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=nightly,team=web")
    url = peers["embedded"].url("h1")
    before = time.time_ns()
    with Collector() as collector:
        timing = ["-R", "300", "-d", "1500ms", "--warmup", "0s"]
        run = load("-c", "2", *timing, "--otlp", collector.url, url)
        report, exports = run.checked, collector.exports
    assert "--otlp" not in run.err
    # A second and a half; a collector that is slow is sent fewer.
    assert 1 <= len(exports) <= 2
    for export in exports:
        assert export.path == "/v1/metrics"
        assert export.headers["content-type"] == "application/x-protobuf"
        assert export.headers["api-key"] == "a secret"
        named = {"service.name": "nightly", "team": "web", "trilane.url": url}
        assert named.items() <= export.resource.items()
    last = exports[-1]
    requests, status = report["requests"], report["status"]
    ended = {"ok": requests["ok"], "failed": requests["failed"]}
    assert last.values("trilane.requests") == ended
    assert last.values("trilane.responses") == status
    assert last.values("trilane.failures") == {}
    moved = last.values("trilane.transferred")
    # What says goodbye to the server is in the report alone.
    assert 0 < moved["received"] <= report["bytes"]["received"]
    assert 0 < moved["sent"] <= report["bytes"]["sent"]
    assert last.values("trilane.asked_per_second")[""] == pytest.approx(300)
    assert last.values("trilane.connections_open") == {"": 2}
    sums = last.metrics["trilane.requests"].sum
    assert (sums.is_monotonic, sums.aggregation_temporality) == (True, CUMULATIVE)
    begun = {
        point.start_time_unix_nano
        for export in exports
        for point in export.metrics["trilane.requests"].sum.data_points
    }
    assert len(begun) == 1
    for point in sums.data_points:
        assert before < point.start_time_unix_nano < point.time_unix_nano < time.time_ns()
    for name in ["service", "response"]:
        metric = last.metrics[f"trilane.{name}_duration"]
        (point,) = metric.histogram.data_points
        latency = report["latency"][name]
        assert metric.unit == "s"
        assert metric.histogram.aggregation_temporality == CUMULATIVE
        assert point.count == sum(point.bucket_counts) == latency["count"]
        assert point.sum == pytest.approx(latency["mean"] * latency["count"])
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
        # The median is in the bucket in which half of them are reached.
        half, reached = latency["count"] / 2, 0
        for bound, count in zip(point.explicit_bounds, point.bucket_counts, strict=False):
            reached += count
            if reached >= half:
                assert latency["p50"] <= bound * 1.01
                break


def test_failures_have_their_kinds(peers: Peers) -> None:
    with Collector() as collector:
        wrong = ["-n", "40", "-c", "2", "--expect-status", "418"]
        report = load(*wrong, "--otlp", collector.url, peers["embedded"].url("h1")).checked
        last = collector.exports[-1]
    assert report["requests"]["failed"] == 40
    assert last.values("trilane.failures") == {"status": 40}
    assert last.values("trilane.requests") == {"ok": 0, "failed": 40}


def test_a_collector_that_is_not_there_stops_nothing(peers: Peers) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    run = load("-c", "2", "-n", "200", "--otlp", nowhere, peers["embedded"].url("h1"))
    assert run.good["requests"]["ok"] == 200
    warnings = [line for line in run.err.splitlines() if "--otlp" in line]
    assert len(warnings) == 1, run.err
    assert "1 of 1 exports failed, and the run went on" in warnings[0]


def test_an_export_that_fails_is_made_good_by_the_next(peers: Peers) -> None:
    with Collector(first=503) as collector:
        arguments = ["-c", "2", "-d", "600s", "--warmup", "0s", "--otlp", collector.url]
        running = Running(*arguments, peers["embedded"].url("h1"))
        collector.until(2)
        running.interrupt()
        run = running.wait()
        last = collector.exports[-1]
    assert last.values("trilane.requests")["ok"] == run.checked["requests"]["ok"]
    assert run.code == 130
    assert "exports failed, and the run went on; the last: the collector answered with" in run.err
    assert "HTTP status 503" in run.err


def test_a_header_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "secret")
    run = load_text("--otlp", "http://127.0.0.1:4318", "http://127.0.0.1:1/")
    assert run.code == 2
    assert "OTEL_EXPORTER_OTLP_HEADERS" in run.message


def test_streams_have_messages(peers: Peers) -> None:
    with Collector() as collector:
        span = ["-d", "300ms", "--warmup", "0s", "--otlp", collector.url]
        endless = json.dumps({"parent": "shelves/3", "count": 1_000_000, "interval": "0.005s"})
        run = grpc(peers["embedded"], "h2c", WATCH, *span, "-c", "2", body=endless)
        last = collector.exports[-1]
    messages = run.good["grpc"]["messages"]
    assert last.values("trilane.messages") == messages
    assert last.values("trilane.messages_per_second")["received"] > 0
    (point,) = last.metrics["trilane.message_duration"].histogram.data_points
    assert point.count == run.good["grpc"]["message_latency"]["count"] > 0
    assert last.values("trilane.message_time")["1"] > 0
