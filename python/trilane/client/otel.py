"""OpenTelemetry for the clients: a span and a duration for each request, its context sent along.

    client = Client(telemetry=Telemetry())

What is recorded follows the semantic conventions for HTTP clients, in their stable form. It needs
the packages of `trilane[otel]`; without an SDK that is set up nothing is kept.
"""

from __future__ import annotations

import time
import urllib.parse
from typing import TYPE_CHECKING, Final

from opentelemetry import metrics, propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from trilane.client._flow.response import BaseResponse
    from trilane.client._flow.watching import RequestView

__all__ = ["Telemetry"]

_NAME: Final = "trilane.client"
_METHODS: Final = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"}
)
"""Methods that names of spans may have: those of a peer's making would be without number."""
_VERSIONS: Final = {"h1.0": "1.0", "h1": "1.1", "h2": "2", "h3": "3"}
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_BUCKETS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
)  # fmt: skip
"""Bounds in seconds that the conventions recommend for durations."""
_SECRET: Final = frozenset({"awsaccesskeyid", "signature", "sig", "x-goog-signature"})
"""Parameters of a query whose values the conventions have redacted, in lower case."""
_FIRST_ERROR: Final = 400
_RESENDS: Final = "http.request.resend_count"

Value = str | int


class Telemetry:
    """What is given to a client as `telemetry=`. Any number of clients may have the same one."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        """Without providers the global ones are used, as they are when a request begins."""
        self._tracer = trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        meter = metrics.get_meter(_NAME, meter_provider=meter_provider)
        self._duration = meter.create_histogram(
            "http.client.request.duration",
            unit="s",
            description="Duration of HTTP client requests.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

    def begin(self, request: RequestView) -> _Observation:
        """A request begins: its span, whose context goes into its fields (`traceparent`)."""
        parts = urllib.parse.urlsplit(request.url)
        method = request.method if request.method in _METHODS else "_OTHER"
        attributes: dict[str, Value] = {
            "http.request.method": method,
            "server.address": parts.hostname or "",
            "server.port": parts.port or _DEFAULT_PORTS[parts.scheme],
        }
        span = self._tracer.start_span(
            method if method != "_OTHER" else "HTTP",
            kind=SpanKind.CLIENT,
            attributes={**attributes, "url.full": _redacted(parts)},
        )
        if method == "_OTHER":
            span.set_attribute("http.request.method_original", request.method)
        if request.resends:
            span.set_attribute(_RESENDS, request.resends)
        propagate.inject(request.headers, trace.set_span_in_context(span))
        return _Observation(span, self._duration, attributes, request.resends)


class _Observation:
    """One request."""

    def __init__(
        self, span: Span, duration: Histogram, attributes: dict[str, Value], resends: int
    ) -> None:
        self._resends = resends
        self._span = span
        self._duration = duration
        self._attributes = attributes
        """Those that span and duration have alike."""
        self._began = time.perf_counter()

    def answered(self, response: BaseResponse, sends: int) -> None:
        """The head of the response has come."""
        del sends
        version = _VERSIONS[response.version]
        found: dict[str, Value] = {
            "http.response.status_code": response.status,
            "network.protocol.name": "http",
            "network.protocol.version": version,
        }
        if response.status >= _FIRST_ERROR:
            found["error.type"] = str(response.status)
            self._span.set_status(Status(StatusCode.ERROR))
        self._attributes.update(found)
        self._span.set_attributes(found)
        if response.peer is not None:
            host, port = response.peer
            self._span.set_attributes({"network.peer.address": host, "network.peer.port": port})

    def ended(self, error: BaseException | None, sends: int) -> None:
        """The response has ended, or the request has failed."""
        if error is not None:
            kind = type(error)
            builtin = kind.__module__ == "builtins"
            name = kind.__qualname__ if builtin else f"{kind.__module__}.{kind.__qualname__}"
            self._attributes["error.type"] = name
            self._span.set_attribute("error.type", name)
            self._span.record_exception(error)
            self._span.set_status(Status(StatusCode.ERROR, str(error)))
        if sends > 1:
            self._span.set_attribute(_RESENDS, self._resends + sends - 1)
        # In the context of the span, so that a sample of the duration leads to it.
        self._duration.record(
            time.perf_counter() - self._began,
            self._attributes,
            trace.set_span_in_context(self._span),
        )
        self._span.end()


def _redacted(parts: urllib.parse.SplitResult) -> str:
    """The URL, which has no userinfo, without what the conventions name secrets."""
    if not parts.query:
        return parts.geturl()
    shown = []
    for pair in parts.query.split("&"):
        name, equals, _ = pair.partition("=")
        shown.append(f"{name}=REDACTED" if equals and name.lower() in _SECRET else pair)
    return parts._replace(query="&".join(shown)).geturl()
