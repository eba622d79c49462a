"""Second interpreters of one process, other versions of Python, and uvloop."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from client.interpreters import interpreter
from peers.peer import Peer
from peers.running import absent
from repository import ROOT

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def _program(version: str) -> str:
    program = sys.executable if version == RUNNING else interpreter(version)
    if program is None:
        absent(f"no CPython {version} is here")
    return program


def _run(program: str, code: str, *arguments: str) -> str:
    done = subprocess.run(
        [program, "-c", code, *arguments],
        env={"PYTHONPATH": str(ROOT / "python"), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


SECOND = """
import sys
import trilane.client  # the first has it

trilane.client.Client().get(sys.argv[1])
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = '''
try:
    import trilane.client
except ImportError as error:
    print(error, flush=True)
else:
    print(trilane.client.Client().get(sys.argv[1]).text, flush=True)
'''
run = getattr(interpreters, "exec", None) or interpreters.run_string
run(interpreters.create(), f"import sys; sys.argv = {sys.argv!r}\n{code}")
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_second_interpreter_says_what_to_do(version: str, server: Peer) -> None:
    said = _run(_program(version), SECOND, server.url("h1"))
    if version == "3.11":
        # There all interpreters share one lock.
        assert said == "hello world\n"
        return
    assert said.startswith("trilane.client cannot be imported in an isolated interpreter"), said
    assert "Use threads" in said


REQUESTS = """
import asyncio, sys
from trilane.client import AsyncClient, Client

base, ca = sys.argv[1:]
with Client(verify=ca) as client:
    print(client.get(base + "/hello").text, [len(r.content) for r in client.get_all(
        f"{base}/bytes/{size}" for size in range(3))])

async def main():
    async with AsyncClient(verify=ca) as client:
        print((await client.get(base + "/hello")).text)

asyncio.run(main())
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_other_versions_of_python(version: str, server: Peer) -> None:
    """The module is built once for all of them (abi3)."""
    said = _run(_program(version), REQUESTS, server.bases["h2"], str(server.ca))
    assert said == "hello world [0, 1, 2]\nhello world\n"


UVLOOP = """
import asyncio, sys
import uvloop
from trilane.client import AsyncClient, ReadTimeout, Timeouts

base, version, ca = sys.argv[1:]

async def main():
    assert type(asyncio.get_running_loop()).__module__ == "uvloop"
    async with AsyncClient(verify=ca or True, versions=(version,), max_per_origin=200) as client:
        sizes = range(200)
        responses = await asyncio.gather(*(client.get(f"{base}/bytes/{size}") for size in sizes))
        assert [len(response.content) for response in responses] == list(sizes)
        data = bytes(range(256)) * 8192

        async def blocks():
            yield data
            yield data

        async with client.stream("POST", f"{base}/echo", content=blocks()) as response:
            assert await response.aread() == data + data
        never = asyncio.create_task(client.get(f"{base}/delay/60s"))
        await asyncio.sleep(0)
        assert (await client.get(f"{base}/hello")).text == "hello world"
        never.cancel()
        try:
            await client.get(f"{base}/delay/60s", timeout=Timeouts(read=0.1))
        except ReadTimeout:
            print("late")
    try:
        async with AsyncClient(versions=("h1",)) as client:
            await client.get("http://127.0.0.1:1/")
    except ConnectionRefusedError:
        print("refused")

uvloop.run(main())
"""


@pytest.mark.parametrize("version", ["h1", "h2", "h3"])
def test_uvloop_drives_the_client(version: str, server: Peer) -> None:
    arguments = [server.bases[version], version, str(server.ca or "")]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", UVLOOP, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "late\nrefused\n")
