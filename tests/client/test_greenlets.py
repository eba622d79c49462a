"""gevent: where it has patched sockets, a greenlet that waits holds up no other.

Each in a process of its own, as sockets are patched for good.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from peers import chaos
from peers.peer import Peer

SCRIPT = Path(__file__).with_name("greenlets_script.py")


def _run(what: str, base: str, version: str, ca: object = "") -> None:
    done = subprocess.run(
        [sys.executable, "-P", str(SCRIPT), what, base, version, str(ca)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_ten_greenlets_wait_side_by_side() -> None:
    arrived: list[asyncio.StreamWriter] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.append(writer)
        if len(arrived) == 10:
            for each in arrived:
                each.write(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world")
        await reader.read()

    with chaos.serve(script) as server:
        _run("together", server.base, "h1")


@pytest.mark.parametrize("version", ["h1", "h2", "h3"])
def test_greenlets_share_a_client(version: str, server: Peer) -> None:
    _run("behind content limits shape adapter", server.bases[version], version, server.ca or "")


def test_a_program_without_it_is_not_asked_to_have_it() -> None:
    code = (
        "import sys; from trilane.client._greenlets import patched\n"
        "assert not patched(); assert 'gevent' not in sys.modules\n"
        "import gevent, gevent.monkey; assert not patched()\n"
        "gevent.monkey.patch_all(); assert patched()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=environment, timeout=60, check=True)
