"""What the tests of servers share."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trilane import client
from trilane.lab.targets import running

HERE = Path(__file__).parent
FAKE = HERE / "fake_server.py"
PATIENCE_S = 60.0


def connect(target: running.Target, version: str = "h1") -> http.client.HTTPConnection:
    """A connection of http.client."""
    parts = urlsplit(target.origins[version])
    host = str(parts.hostname)
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=PATIENCE_S)
    context = ssl.create_default_context(cafile=target.cacert)
    return http.client.HTTPSConnection(host, parts.port, timeout=PATIENCE_S, context=context)


def connect_for_content(
    target: running.Target,
) -> http.client.HTTPConnection | client.HTTPConnection:
    """A connection of http.client; of Trilane's client over h2 where the target has no h1."""
    if "h1" in target.origins:
        return connect(target)
    parts = urlsplit(target.origins["h2"])
    return client.HTTPSConnection(
        str(parts.hostname), parts.port, timeout=PATIENCE_S, versions=("h2",), ca=target.cacert
    )


def ask(
    connection: http.client.HTTPConnection | client.HTTPConnection,
    path: str,
    body: bytes | None = None,
) -> tuple[int, bytes]:
    """Status and body."""
    connection.request("GET" if body is None else "POST", path, body)
    response = connection.getresponse()
    return response.status, response.read()


def load(url: str, version: str, cacert: str | None, *flags: str) -> dict[str, Any]:
    """The result of `trilane load`, a client that shares no code with the servers."""
    command = [sys.executable, "-m", "trilane", "load", url, f"--{version}", *flags]
    command += ["--format", "json", *(("--cacert", cacert) if cacert else ())]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.stdout, done.stderr.decode()
    run: dict[str, Any] = json.loads(done.stdout)
    return run


def fake(
    folder: Path,
    mode: str,
    *arguments: str,
    name: str = "fake",
    port: str = "{port}",
    more: str = "",
) -> Path:
    """A folder of a server that is `fake_server.py`."""
    server = folder / name
    server.mkdir(exist_ok=True)
    command = [sys.executable, str(FAKE), mode, port, *arguments]
    (server / "server.toml").write_text(
        f"command = {json.dumps(command)}\n"
        f'versions = {{ h1 = "http://127.0.0.1:{port}" }}\n'
        'ready = { path = "/hello" }\n'
        f"{more}"
    )
    return server
