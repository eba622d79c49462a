"""OpenTelemetry, by its own SDK: spans, durations and what is sent along."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from client.face import MakeClient
from client.pool.recorder import Recorder
from client.pool.test_inside import _closes_after_the_first
from peers import chaos
from peers.peer import Peer
from trilane.client import Retries, errors
from trilane.client._pool import Client
from trilane.client.otel import Telemetry


class Recorded:
    """The SDK, and what it was told."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.telemetry = Telemetry(tracers, MeterProvider([self._reader]))

    @property
    def spans(self) -> Any:
        return self._exporter.get_finished_spans()

    @property
    def points(self) -> list[Any]:
        """Of the one metric."""
        data: Any = self._reader.get_metrics_data()
        [metric] = data.resource_metrics[0].scope_metrics[0].metrics
        assert (metric.name, metric.unit) == ("http.client.request.duration", "s")
        return list(metric.data.data_points)


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


@pytest.mark.parametrize("listener", ["h1", "h2", "h3"])
def test_a_request_is_a_span_and_a_duration(
    make_client: MakeClient, server: Peer, recorded: Recorded, listener: str
) -> None:
    client = make_client(versions=(listener,), verify=str(server.ca), telemetry=recorded.telemetry)
    url = server.url(listener, "/headers")
    secret = url.replace("://", "://user:secret@") + "?a=b&sig=secret"
    response = client.get(secret)
    [span] = recorded.spans
    assert (span.name, span.kind) == ("GET", SpanKind.CLIENT)
    assert span.status.status_code is StatusCode.UNSET
    host, port = url.split("/")[2].rsplit(":", 1)
    version = {"h1": "1.1", "h2": "2", "h3": "3"}[listener]
    shared = {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "network.protocol.name": "http",
        "network.protocol.version": version,
        "server.address": host,
        "server.port": int(port),
    }
    assert dict(span.attributes) == {
        **shared,
        "url.full": f"{url}?a=b&sig=REDACTED",
        "network.peer.address": response.peer[0] if response.peer else None,
        "network.peer.port": int(port),
    }
    [point] = recorded.points
    assert dict(point.attributes) == shared
    assert point.count == 1
    assert 0 < point.sum < 600
    # The server was told whose child its own span is (W3C Trace Context).
    context = span.get_span_context()
    ids = f"{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert f'"traceparent","00-{ids}"' in response.text


def test_errors_have_a_type(make_client: MakeClient, server: Peer, recorded: Recorded) -> None:
    client = make_client(versions=("h1",), telemetry=recorded.telemetry)
    assert client.get(server.url("h1", "/status/503")).status == 503
    with pytest.raises(errors.ConnectionRefused):
        client.request("BREW", "http://127.0.0.1:1/")
    answered, refused = recorded.spans
    assert answered.attributes["error.type"] == "503"
    assert answered.status.status_code is StatusCode.ERROR
    assert refused.attributes["error.type"] == "trilane.client.errors.ConnectionRefused"
    assert refused.status.status_code is StatusCode.ERROR
    assert (refused.name, refused.attributes["http.request.method"]) == ("HTTP", "_OTHER")
    assert refused.attributes["http.request.method_original"] == "BREW"
    assert {point.attributes["error.type"] for point in recorded.points} == {
        "503",
        "trilane.client.errors.ConnectionRefused",
    }


def test_what_is_sent_again_is_counted(make_client: MakeClient, recorded: Recorded) -> None:
    with chaos.serve(_closes_after_the_first()) as server:
        client = make_client(telemetry=recorded.telemetry)
        client.get(server.base)
        client.get(server.base)
    first, second = recorded.spans
    assert "http.request.resend_count" not in first.attributes
    assert second.attributes["http.request.resend_count"] == 1


def test_each_step_of_a_call_is_a_span_that_says_which(
    make_client: MakeClient, recorder: Recorder, recorded: Recorded
) -> None:
    client = make_client(
        telemetry=recorded.telemetry,
        follow_redirects=True,
        retries=Retries(2, backoff=0.0),
    )
    end = f"{recorder.base}/flaky?times=2"
    assert client.get(recorder.redirect(302, end)).status == 200
    told = [
        (
            span.attributes["http.response.status_code"],
            span.attributes.get("http.request.resend_count"),
        )
        for span in recorded.spans
    ]
    assert told == [(302, None), (503, 1), (503, 2), (200, 3)]
    sent = [got.field("traceparent") for got in recorder.got]
    contexts = [f"{span.context.span_id:016x}" for span in recorded.spans]
    assert [(value or "").split("-")[2] for value in sent] == contexts
    client.get(f"{recorder.base}/")
    assert "http.request.resend_count" not in recorded.spans[-1].attributes


def test_a_span_ends_with_its_response(
    make_client: MakeClient, server: Peer, recorded: Recorded
) -> None:
    client = make_client(versions=("h2",), verify=str(server.ca), telemetry=recorded.telemetry)
    with client.stream("GET", server.url("h2")) as response:
        assert response.status == 200
        assert recorded.spans == ()
    assert len(recorded.spans) == 1


def test_every_request_of_many_is_seen(server: Peer, recorded: Recorded) -> None:
    with Client(
        versions=("h2",), verify=str(server.ca), telemetry=recorded.telemetry, timings=True
    ) as client:
        responses = list(client.get_all([server.url("h2")] * 20))
        assert all(response.timings is not None for response in responses)
        many = client.get_all([server.url("h2")] * 20)
        assert next(many).status == 200
        many.close()  # type: ignore[attr-defined]
    assert all(span.end_time is not None for span in recorded.spans)
    assert len(recorded.spans) == 40
