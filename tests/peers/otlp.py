"""A collector of OTLP metrics, which keeps what it is sent; read by Google's protobuf."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from .process import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

_PROTO = Path(__file__).with_name("otlp.proto")


@functools.cache
def _message(name: str) -> Any:
    """The class of a message of `otlp.proto`."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "otlp.fds"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{_PROTO.parent}"]
        subprocess.run([*command, f"--descriptor_set_out={out}", _PROTO.name], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"otlp.{name}"))


@dataclass(frozen=True)
class Export:
    """One request."""

    path: str
    headers: Mapping[str, str]
    content: bytes

    @functools.cached_property
    def _metrics(self) -> Any:
        (metrics,) = (
            _message("ExportMetricsServiceRequest").FromString(self.content).resource_metrics
        )
        return metrics

    @property
    def resource(self) -> dict[str, str]:
        """What the metrics are of."""
        return _labels(self._metrics.resource.attributes)

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics by name."""
        (scope,) = self._metrics.scope_metrics
        assert scope.scope.name == "trilane"
        return {metric.name: metric for metric in scope.metrics}

    def values(self, name: str) -> dict[str, float]:
        """The numbers of a counter or gauge by the values of their labels."""
        metric = self.metrics[name]
        points = getattr(metric, metric.WhichOneof("data")).data_points
        return {
            "".join(_labels(point.attributes).values()): getattr(point, point.WhichOneof("value"))
            for point in points
        }


def _labels(attributes: Any) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in attributes}


class Collector:
    """Listens within the context; answers with `status`, and to the first export with `first`."""

    def __init__(self, status: int = 200, *, first: int | None = None) -> None:
        self._changed = threading.Condition()
        self._exports: list[Export] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                content = self.rfile.read(int(self.headers["Content-Length"]))
                number = collector._keep(Export(self.path, headers, content))
                self.send_response(first if first is not None and number == 0 else status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """What it is sent is told by the tests."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://{HOST}:{self._server.server_address[1]}"

    def _keep(self, export: Export) -> int:
        with self._changed:
            self._exports.append(export)
            self._changed.notify_all()
            return len(self._exports) - 1

    def until(self, count: int, patience_s: float = 120.0) -> list[Export]:
        """Wait until it has been sent so many exports."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._exports) >= count, patience_s)
            return list(self._exports)

    @property
    def exports(self) -> list[Export]:
        """What it has been sent so far."""
        return self.until(0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
