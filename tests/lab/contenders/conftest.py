"""The embedded server, a server of HTTP/1.1 only, and every contender there is."""

from __future__ import annotations

import functools
import http.client
import http.server
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lab.contenders.conversation import Said, converse, plan
from lab.contenders.loads import CONNECTIONS, STREAMS, Load
from lab.contenders.together import Together, serving
from others import CONTENDERS as KEPT
from others import others
from peers.running import absent
from repository import ROOT
from trilane.lab.clients import contenders
from trilane.lab.clients.contenders import Contender, ContenderFailed
from trilane.lab.targets.servers import Server, embedded

CONTENDERS = contenders.discover([ROOT / "contenders"])
# Programs that .ci/run installs: without them a test fails there.
INSTALLED_BY_CI = frozenset({"cargo", "go", "h2load", "uv", "wrk"})


def case(contender: Contender, version: str, strategy: str, name: str) -> Any:
    """One contender over one version; skipped where this machine's build lacks the version.

    `make test` has those of some contenders only.
    """
    reason = None
    if contender.name == "curl" and version == "h3" and "HTTP3" not in _about_curl():
        reason = "this curl was built without HTTP3"
    marks = [] if contender.name in KEPT else [others]
    marks += [pytest.mark.skip(reason=reason)] if reason else []
    return pytest.param(contender, version, strategy, id=name, marks=marks)


@functools.cache
def _about_curl() -> str:
    program = shutil.which("curl")
    if program is None:
        return ""
    command = [program, "--version"]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="session")
def server(state: Path) -> Iterator[Server]:
    with embedded(threads=1, cpus=None, state=state) as running:
        yield running


@pytest.fixture(scope="session")
def origin(server: Server) -> Callable[[str], str]:
    return lambda version: server.http if version == "h2c" else server.https


@pytest.fixture(scope="session")
def reference(server: Server) -> Callable[[str], bytes]:
    """The body of a path, got without any contender."""

    @functools.cache
    def get(path: str) -> bytes:
        host, port = server.http.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        connection.request("GET", path)
        body = connection.getresponse().read()
        connection.close()
        return body

    return get


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An authority that has not signed the server's certificate."""
    with embedded(threads=1, cpus=None, state=tmp_path_factory.mktemp("stranger")) as other:
        copy = tmp_path_factory.mktemp("authority") / "ca.pem"
        shutil.copy(other.cacert, copy)
    return str(copy)


@pytest.fixture(scope="session")
def together(
    server: Server, state: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Together]:
    """A server with the same certificate that answers only requests under way together."""
    with serving(
        tmp_path_factory.mktemp("together"),
        cert=state / "cert.pem",
        key=state / "key.pem",
        cacert=server.cacert,
    ) as running:
        yield running


@dataclass
class OldServer:
    """A server of HTTP/1.1, and the names of the fields of each request that came to it."""

    origin: str
    fields: list[list[str]]


@pytest.fixture(scope="session")
def h1_only(server: Server, state: Path) -> Iterator[OldServer]:
    """A server with the same certificate that never chooses HTTP/2."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(state / "cert.pem", state / "key.pem")
    context.set_alpn_protocols(["http/1.1"])
    with _Quiet(("127.0.0.1", 0), _Hello, context) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield OldServer(f"https://127.0.0.1:{running.server_address[1]}", running.fields)
        running.shutdown()
        thread.join(20)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, and that nobody else gets meanwhile."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@dataclass
class Trouble:
    """Where requests fail."""

    stranger: str
    """An authority that has not signed the server's certificate."""
    closed_port: int
    h1_only: str
    """An origin that never chooses HTTP/2."""


@pytest.fixture
def trouble(stranger: str, closed_port: int, h1_only: OldServer) -> Trouble:
    return Trouble(stranger, closed_port, h1_only.origin)


@pytest.fixture(scope="session")
def command() -> Callable[[Contender], list[str]]:
    """What starts a contender; a test of one that this machine cannot have is skipped."""

    @functools.cache
    def ready(name: str) -> list[str] | str:
        try:
            return CONTENDERS[name].command()
        except ContenderFailed as error:
            return str(error)

    def get(contender: Contender) -> list[str]:
        found = ready(contender.name)
        if isinstance(found, list):
            return found
        missing = any(f"{program} is not installed" in found for program in INSTALLED_BY_CI)
        if missing or "could not be" in found:
            absent(found)
        pytest.skip(found)

    return get


@pytest.fixture
def load(
    command: Callable[[Contender], list[str]], server: Server, origin: Callable[[str], str]
) -> Load:
    """A second of load; `changes` replace parts of the plan."""

    def run(name: str, version: str, paths: list[str], /, **changes: Any) -> Said:
        workload = {"paths": paths, "count": None, "duration_s": 1.0, **changes.pop("workload", {})}
        changes = {
            "cacert": server.cacert,
            "connections": CONNECTIONS,
            "in_flight": CONNECTIONS * STREAMS[version],
            **changes,
        }
        wanted = plan(origin(version), version, "load", workload=workload)
        return converse(command(CONTENDERS[name]), {**wanted, **changes})

    return run


class _Quiet(http.server.ThreadingHTTPServer):
    fields: ClassVar[list[list[str]]] = []

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[http.server.BaseHTTPRequestHandler],
        context: ssl.SSLContext,
    ) -> None:
        super().__init__(address, handler)
        self._context = context

    def get_request(self) -> tuple[socket.socket, Any]:
        accepted, address = super().get_request()
        # The handshake comes with the first read, in the connection's own thread and with its time
        # limit: a client that is slow at it must not hold up the others.
        wrapped = self._context.wrap_socket(
            accepted, server_side=True, do_handshake_on_connect=False
        )
        return wrapped, address

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that speaks HTTP/2 to it breaks off, as it should."""


class _Hello(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 20

    def do_GET(self) -> None:
        _Quiet.fields.append([name.lower() for name in self.headers])
        self.send_response(200)
        self.send_header("content-length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing: the tests say what went wrong."""
