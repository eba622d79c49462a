"""Faults from outside: servers that stop and go, and what the client's machine does not have."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import pytest

from peers import chaos, embedded
from peers.peer import Peer
from peers.process import HOST, find, free_port
from repository import native

from .loading import Run, Watched, codes, flag, load

if TYPE_CHECKING:
    import asyncio

    from peers.running import Peers

Own = Callable[[Callable[[Path], Peer]], Peer]
HANG_S = 120
"""Ends a hang only."""
FACES = ["native", "python"]
"""What runs the command: the program of cargo's, or the interpreter."""


def streams(listener: str) -> list[str]:
    return [] if listener.startswith("h1") else ["-m", "8"]


def in_shell(
    script: str, *arguments: str, stdout: int = subprocess.PIPE, held: Sequence[int] = ()
) -> Run:
    """Run `script`, whose words (`"$@"`) are a `trilane load`, which inherits what is `held`."""
    argv = ["sh", "-c", script, "sh", native(), "load", *arguments, "--format", "json"]
    return finish(argv, stdout=stdout, held=held)


def program(face: str) -> list[str]:
    return [native()] if face == "native" else [sys.executable, "-m", "trilane"]


def finish(
    argv: Sequence[str],
    *,
    stdout: int = subprocess.PIPE,
    held: Sequence[int] = (),
    env: dict[str, str] | None = None,
) -> Run:
    """What a command leaves behind."""
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=HANG_S,
        check=False,
        pass_fds=held,
        env={**os.environ, "NO_COLOR": "1", **(env or {})},
    )
    out = done.stdout or ""
    assert "panicked" not in done.stderr, done
    return Run(done.returncode, out, done.stderr, json.loads(out) if out.strip() else None)


def apart(kind: str, possible: str, script: str, *arguments: str, **env: str) -> Run:
    """As `in_shell`, in namespaces of its own, where the kernel gives them and it is `possible`."""
    unshare = [find("unshare", "apt-get install util-linux"), kind, "sh", "-c"]
    if subprocess.run([*unshare, possible], check=False, capture_output=True).returncode:
        pytest.skip(f"this kernel does not allow it: unshare {kind}, {possible}")
    argv = [*unshare, script, "sh", native(), "load", *arguments, "--format", "json"]
    return finish(argv, env=env)


@pytest.mark.parametrize("listener", ["h2", "h3"])
def test_a_server_that_stops_and_goes_on(own: Own, listener: str) -> None:
    peer = own(lambda folder: embedded.start(native(), folder))
    # Connections have the usual time: a busy machine may need it for the first ones.
    patience = ["--timeout", "500ms"]
    arguments = ["-c", "4", *streams(listener), "-d", "1h", "--warmup", "0s", "-k", *patience]
    running = Watched(flag(listener), *arguments, peer.url(listener))
    running.until_ok()
    peer.process.signal(signal.SIGSTOP)
    running.until(lambda counts: counts.failed > 0)
    peer.process.signal(signal.SIGCONT)
    ended = running.until(lambda _: True)
    running.until_ok(ended.ok)
    running.interrupt()
    run = running.wait()
    assert run.code == 130, run
    failures = run.checked["requests"]["failures"]
    assert "no complete response within 500ms" in failures["timeout"]["example"], failures
    # A server that wakes finds connections that were given up, and requests that were cancelled.
    assert set(failures) <= {"timeout", "handshake_timeout", "closed", "reset", "goaway"}, failures


def test_a_load_that_was_stopped_itself(peers: Peers) -> None:
    url = peers["embedded"].url("h1")
    running = Watched("--h1", "-c", "1", "-d", "1h", "--warmup", "0s", url)
    running.until_ok()
    running.stop()
    # Meanwhile the server lets some time pass.
    assert load("-n", "1", urljoin(url, "/delay/300ms")).checked["requests"]["ok"] == 1
    running.interrupt(signal.SIGCONT)
    ended = running.until(lambda _: True)
    running.until_ok(ended.ok)
    running.interrupt()
    report = running.wait().checked
    assert "stood_still" in codes(report)
    # All but what it would have waited of its own accord.
    assert max(report["cost"]["stood_still_s"]) >= 0.25


def test_a_result_for_a_full_device(peers: Peers) -> None:
    url = peers["nginx"].url("h1")
    run = load("-n", "50", "-c", "2", "-o", "/dev/full", url)
    assert run.code == 1, run
    assert "-o: cannot write /dev/full: No space left" in run.message
    assert "the result is on stdout instead" in run.message
    assert run.checked["requests"]["ok"] == 50


def test_a_result_for_a_full_disk(peers: Peers, tmp_path: Path) -> None:
    """What stood there stays, whole, and the new result is on stdout."""
    script = """
        set -e
        mount -t tmpfs -o size=64k none "$DISK"
        echo before > "$DISK/run.json"
        cat /dev/zero > "$DISK/filler" 2> /dev/null || true
        "$@" -o "$DISK/run.json" || code=$?
        test "$(cat "$DISK/run.json")" = before
        test "$(ls "$DISK" | tr '\\n' ' ')" = "filler run.json "
        exit "${code:-0}"
    """
    arguments = ["-n", "50", "-c", "2", peers["nginx"].url("h1")]
    run = apart("-rm", f"mount -t tmpfs none {tmp_path}", script, *arguments, DISK=str(tmp_path))
    assert run.code == 1, run
    assert "No space left" in run.message
    assert "the result is on stdout instead" in run.message
    assert run.checked["requests"]["ok"] == 50


def test_a_full_device_as_stdout(peers: Peers) -> None:
    with Path("/dev/full").open("w") as full:
        run = in_shell(
            'exec "$@"', "-n", "50", "-c", "2", peers["nginx"].url("h1"), stdout=full.fileno()
        )
    assert run.code == 1, run
    assert "cannot write the result: No space left" in run.message


def test_fewer_descriptors_than_connections(peers: Peers) -> None:
    arguments = ["--h1", "-c", "600", "-n", "600", peers["embedded"].url("h1")]
    run = in_shell('ulimit -n 256 && exec "$@"', *arguments)
    assert run.code == 1, run
    assert run.report is None
    assert "256" in run.message
    assert "'ulimit -n 664'" in run.message
    assert "-c" in run.message
    # The limit that the process may raise by itself, it does.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard > 4096:
        raised = in_shell('ulimit -S -n 256 && exec "$@"', *arguments)
        # A connection that is early may serve two requests: not all need to be made.
        assert raised.good["connections"]["open_at_most"] > 256


@pytest.mark.parametrize("listener", ["h1", "h3"])
def test_descriptors_that_run_out(peers: Peers, listener: str) -> None:
    """The process may have 256, and was born with half of them: nobody can tell before."""
    url = peers["embedded"].url(listener)
    arguments = [flag(listener), "-k", "-c", "190", *streams(listener), "-n", "2000", url]
    with ExitStack() as stack:
        held = [stack.enter_context(Path(os.devnull).open()).fileno() for _ in range(120)]
        held = [number for number in held if number < 256]
        run = in_shell('ulimit -n 256 && exec "$@"', *arguments, held=held)
    assert run.code == 4, run
    report = run.checked
    connections = report["connections"]
    assert connections["exhausted"] > 0, connections
    assert connections["failed"]["connect"] == connections["exhausted"], connections
    assert connections["open_at_most"] < 190
    assert "exhausted" in codes(report), report["validity"]
    assert report["requests"]["ok"] > 0
    failures = report["requests"]["failures"]
    assert set(failures) <= {"connect"}, failures
    if failures:
        assert "'ulimit -n'" in failures["connect"]["example"]


# A namespace of its own has ports of its own, and few.
FEW_PORTS = """
    set -e
    ip link set lo up
    echo "40000 40015" > /proc/sys/net/ipv4/ip_local_port_range
    cd "$STATE"
    "$1" serve --port 8080 --tls-port 8443 --state . --format json > ready 2> errors &
    server=$!
    until grep -qs '"ready":true' ready; do sleep 0.05; kill -0 $server; done
    "$@" || code=$?
    kill $server
    exit "${code:-0}"
"""


@pytest.mark.parametrize("listener", ["h1", "h3"])
def test_no_local_port_is_left(tmp_path: Path, listener: str) -> None:
    possible = "ip link set lo up && test -w /proc/sys/net/ipv4/ip_local_port_range"
    url = f"http://{HOST}:8080/hello" if listener == "h1" else f"https://{HOST}:8443/hello"
    arguments = [flag(listener), "-k", "-c", "40", *streams(listener), "-n", "2000", url]
    run = apart("-rn", possible, FEW_PORTS, *arguments, STATE=str(tmp_path))
    if run.code == 1:
        # All the others failed before one of the 16 was ready.
        assert "no local port is free" in run.message
        assert "--bind" in run.message
        return
    assert run.code == 4, run
    connections = run.checked["connections"]
    assert 1 <= connections["open_at_most"] <= 16, connections
    assert connections["failed"]["connect"] == connections["exhausted"] > 0, connections
    assert "exhausted" in codes(run.checked), run.checked["validity"]
    failures = run.checked["requests"]["failures"]
    assert set(failures) <= {"connect"}, failures
    if failures:
        assert "no local port is free" in failures["connect"]["example"]
        assert "--bind" in failures["connect"]["example"]


def closed_pipe() -> int:
    """The writing end of a pipe whose reader has gone."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def test_a_reader_that_has_gone(peers: Peers) -> None:
    """As `head` goes: it had enough, and nothing is wrong."""
    pipe = closed_pipe()
    try:
        url = peers["nginx"].url("h1")
        run = in_shell('exec "$@"', "-n", "1000", "-c", "2", url, stdout=pipe)
    finally:
        os.close(pipe)
    assert run.err == "", run
    assert run.code == 0, run


@pytest.mark.parametrize("where", ["a pipe", "/dev/full"])
def test_messages_that_nobody_can_read(where: str) -> None:
    """What was to be said is lost, but not the exit code."""
    errors = closed_pipe() if where == "a pipe" else os.open("/dev/full", os.O_WRONLY)
    try:
        code = subprocess.run(
            [native(), "load", "-n", "10", "-c", "2", f"http://{HOST}:{free_port()}/"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            timeout=HANG_S,
            check=False,
        ).returncode
    finally:
        os.close(errors)
    assert code == 1


@pytest.mark.parametrize(
    ("face", "closed"),
    [
        ("native", "<&-"),
        ("native", ">&-"),
        ("native", "<&- >&- 2>&-"),
        ("python", "<&- >&- 2>&-"),
    ],
)
def test_standard_streams_that_are_closed(face: str, closed: str, tmp_path: Path) -> None:
    """No socket gets the number of one: nothing that is printed goes to the server."""
    path = tmp_path / "run.json"
    requests: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()

    output = ["-o", str(path)] if ">&-" in closed else []
    with chaos.serve(script) as server:
        argv = ["sh", "-c", f'exec "$@" {closed}', "sh", *program(face), "load", "--h1"]
        run = finish([*argv, "-n", "20", "-c", "2", "--format", "json", *output, server.base + "/"])
    assert run.err == "", run
    assert run.code == 0, run
    assert len(requests) == 20
    assert all(each.startswith(b"GET / HTTP/1.1\r\n") for each in requests), requests
    if output:
        run = replace(run, report=json.loads(path.read_text()))
    assert run.checked["requests"]["ok"] == 20


@pytest.mark.parametrize("face", FACES)
def test_a_closed_stdout_is_told_before_anything_is_sent(face: str) -> None:
    """A run may take hours, and its result would be lost."""
    connections: list[asyncio.StreamWriter] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)

    with chaos.serve(script) as server:
        argv = ["sh", "-c", 'exec "$@" >&-', "sh", *program(face), "load", "--h1"]
        run = finish([*argv, "-n", "20", "-c", "2", server.base + "/"])
    assert run.code == 1, run
    assert run.message == (
        "trilane: stdout is closed: write the result to a file by -o, or to nobody by >/dev/null"
    )
    assert connections == []


def test_a_full_device_and_a_closed_stdout() -> None:
    with chaos.serve(chaos.good) as server:
        argv = ["sh", "-c", 'exec "$@" >&-', "sh", native(), "load", "--h1", "-n", "20"]
        run = finish([*argv, "-c", "2", "-o", "/dev/full", server.base + "/"])
    assert run.code == 1, run
    assert run.message.startswith("trilane: -o: cannot write /dev/full: No space left"), run
    assert run.message.endswith(": stdout is closed"), run
