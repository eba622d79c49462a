"""The memory of ten thousand h1 connections that are mostly idle."""

from __future__ import annotations

import json
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING

from peers.process import MissingProgramError, NotReadyError

from .tools import Tool, measure

if TYPE_CHECKING:
    from .servers import Servers

NAME = "idle"
CONNECTIONS = 10_000
LIMIT_BYTES = 100 * 1024 * 1024
# Enough to open them all; at this rate each connection sees a request in a hundred seconds.
_RATE = 100
_SECONDS = 8


@dataclass(frozen=True)
class Memory:
    """Peak resident set of the client in bytes; none when it could not be measured."""

    peak_rss_bytes: int | None
    met: bool | None
    sentence: str


def run(trilane: Tool | None, missing: dict[str, str], servers: Servers, client: int) -> Memory:
    """Open the connections, send a little, and read the peak of the process."""
    if trilane is None:
        return Memory(None, None, f"idle: {missing['trilane']}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = CONNECTIONS + 200
    if hard != resource.RLIM_INFINITY and hard < needed:
        return Memory(
            None,
            None,
            f"idle: at most {hard} files may be open here, {needed} are needed: ulimit -n",
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    try:
        url = servers.url("nginx", "h1", 11)
    except (MissingProgramError, NotReadyError) as error:
        return Memory(None, None, f"idle: {error}")
    argv = [trilane.program, "load", "--h1", "-t", "1", "-c", str(CONNECTIONS), "-R", str(_RATE)]
    argv += ["-d", f"{_SECONDS}s", "--warmup", "0s", "--format", "json", url]
    code, output, errors, usage = measure(argv, [client], _SECONDS + 60)
    if code not in (0, 4):
        return Memory(None, False, f"idle: trilane exited with {code}: {errors.strip()}")
    report = json.loads(output)
    opened = report["phases"]["connect"]["count"]
    if opened < CONNECTIONS or report["requests"]["failed"] > 0:
        wrong = f"{opened} connections opened, {report['requests']['failed']} requests failed"
        return Memory(None, False, f"idle: {wrong}: {report['requests']['failures']}")
    # The kernel's peak of the child; a client smaller than this Python process would be overstated.
    peak = usage.ru_maxrss * 1024
    met = peak < LIMIT_BYTES
    verdict = "met" if met else "NOT MET"
    size = f"peak {peak / 2**20:.1f} MiB, goal < 100 MiB"
    text = f"{CONNECTIONS:,} idle h1 connections: {size}: {verdict}"
    return Memory(peak, met, text)
