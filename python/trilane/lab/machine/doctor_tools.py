"""Checks of other people's programs: what each is for, and how to get it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from trilane.lab.machine.host import Check, Host

_GROUP = "Programs"
_THREADS = 4


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that some experiments use."""

    title: str
    names: Sequence[str]
    """What it may be called."""
    ask: Sequence[str]
    """Arguments that make it tell its version."""
    why: str
    package: str | None = None
    """Of Debian and Ubuntu."""
    fix: str | None = None
    """Where no distribution's package will do."""


_TOOLS = (
    Tool(
        "uv",
        ("uv",),
        ("--version",),
        "environments of the Python clients and servers",
        fix="pip install uv",
    ),
    Tool("Go", ("go",), ("version",), "the client and server of net/http", "golang-go"),
    Tool("Node", ("node",), ("--version",), "the client undici", "nodejs"),
    Tool(
        ".NET",
        ("dotnet",),
        ("--version",),
        "the server Kestrel",
        fix="see https://dotnet.microsoft.com/download",
    ),
    Tool("wrk", ("wrk",), ("-v",), "a second opinion on HTTP/1.1", "wrk"),
    Tool("h2load", ("h2load",), ("--version",), "a second opinion on HTTP/2", "nghttp2-client"),
    Tool("nginx", ("nginx",), ("-v",), "a server for HTTP/1.1 and HTTP/2", "nginx-light"),
    Tool("nghttpd", ("nghttpd",), ("--version",), "a server for HTTP/2", "nghttp2-server"),
    Tool("Caddy", ("caddy",), ("version",), "a server for all three versions", "caddy"),
    Tool("strace", ("strace",), ("-V",), "system calls per request", "strace"),
    Tool(
        "perf",
        ("perf",),
        ("--version",),
        "flame graphs of --profile",
        fix="sudo apt-get install linux-perf (Ubuntu: linux-tools-generic)",
    ),
    Tool(
        "Chromium",
        ("chromium", "chromium-browser", "google-chrome"),
        ("--version",),
        "tests of the report",
        "chromium",
    ),
)


def checks(host: Host) -> Iterator[Check]:
    """All of them, in the order shown."""
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(lambda tool: _check(host, tool), _TOOLS)


def _check(host: Host, tool: Tool) -> Check:
    path = next((found for name in tool.names if (found := host.program(name))), None)
    if path is None:
        return Check(_GROUP, tool.title, "missing", "not installed", tool.why, _fix(tool))
    version = host.version(path, *tool.ask)
    if version is None:
        return Check(
            _GROUP,
            tool.title,
            "warning",
            f"{path} does not tell its version",
            tool.why,
            f"try: {path} {' '.join(tool.ask)}",
        )
    return Check(_GROUP, tool.title, "ok", version, tool.why)


def _fix(tool: Tool) -> str:
    if tool.fix is not None:
        return tool.fix
    if shutil.which("apt-get"):
        return f"sudo apt-get install {tool.package}"
    return f"install {tool.names[0]} with the package manager of this system"
