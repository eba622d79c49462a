"""The relay: what it delays, what it must not change, and what it says about itself."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from peers.process import free_port, wait_until
from trilane.lab.network import relay
from trilane.lab.targets import running

from .helping import PATIENCE_S, is_alive, load

DELAY_S = 0.08
# Clocks of two processes agree, but a timer may fire by its own resolution too early.
GRAIN_S = 0.001
# struct linger: on, for no time; closing then sends a reset.
LINGER = struct.pack("ii", 1, 0)


@contextlib.contextmanager
def serving(handle: Callable[[socket.socket], None]) -> Iterator[str]:
    """The origin of a TCP server; `handle` gets each connection in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        threads: list[threading.Thread] = []

        def talk(connection: socket.socket) -> None:
            with connection:
                connection.settimeout(PATIENCE_S)
                handle(connection)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threads.append(threading.Thread(target=talk, args=(connection,)))
                    threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(PATIENCE_S)
            for thread in threads:
                thread.join(PATIENCE_S)


@dataclass
class Opened:
    """A relay to one origin."""

    origin: str
    running: relay.Relay

    def punctuality(self) -> relay.Punctuality:
        return self.running.punctuality()

    @property
    def pid(self) -> int:
        assert self.running.pid is not None
        return self.running.pid


@contextlib.contextmanager
def opened_relay(origin: str, delay_s: float, cpus: str | None = None) -> Iterator[Opened]:
    with relay.open_relay({"h1": origin}, delay_s, cpus=cpus) as opened:
        yield Opened(opened.origins["h1"], opened)


def echo(connection: socket.socket) -> None:
    while data := connection.recv(65_536):
        connection.sendall(data)


def count(connection: socket.socket) -> None:
    """Reads to the end, then says how much that was."""
    total = 0
    while data := connection.recv(65_536):
        total += len(data)
    connection.sendall(str(total).encode())


def connect(origin: str) -> socket.socket:
    parts = urlsplit(origin)
    return socket.create_connection((str(parts.hostname), parts.port), timeout=PATIENCE_S)


def read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return bytes(data)


def round_trip_s(connection: socket.socket, data: bytes = b"ping") -> float:
    began = time.monotonic()
    connection.sendall(data)
    assert read(connection, len(data)) == data
    return time.monotonic() - began


def connect_and_round_trip_s(origin: str) -> float:
    """Counted from the connect: what a busy machine lets pass before the first byte counts too."""
    began = time.monotonic()
    with connect(origin) as client:
        round_trip_s(client)
        return time.monotonic() - began


def test_the_first_bytes_pay_for_the_connect_too() -> None:
    with serving(echo) as origin, opened_relay(origin, DELAY_S) as opened:
        began = time.monotonic()
        with connect(opened.origin) as client:
            round_trip_s(client)
            assert time.monotonic() - began >= 2 * DELAY_S - GRAIN_S
            for _ in range(3):
                assert round_trip_s(client) >= DELAY_S - GRAIN_S


def test_a_server_that_speaks_first_is_two_round_trips_away() -> None:
    with (
        serving(lambda connection: connection.sendall(b"hello")) as origin,
        opened_relay(origin, DELAY_S) as opened,
    ):
        began = time.monotonic()
        with connect(opened.origin) as client:
            assert read(client, 5) == b"hello"
            assert time.monotonic() - began >= 2 * DELAY_S - GRAIN_S
            assert client.recv(1) == b""


def test_a_large_answer_starts_slowly() -> None:
    """Ten segments, then twenty, then forty: 100 kB take three flights."""
    answer = os.urandom(100_000)

    def give(connection: socket.socket) -> None:
        while connection.recv(1):
            connection.sendall(answer)

    with serving(give) as origin, opened_relay(origin, DELAY_S) as opened:
        # Counted from the connect, whose round trip the first bytes pay for.
        began = time.monotonic()
        with connect(opened.origin) as client:
            for round_trips in (4, 1):
                client.sendall(b"x")
                assert read(client, len(answer)) == answer
                # The connect, the request with the first flight, two more; then the window is
                # open.
                assert time.monotonic() - began >= round_trips * DELAY_S - GRAIN_S
                began = time.monotonic()


def test_bytes_arrive_whole_and_in_order_both_ways() -> None:
    chance = random.Random(7)
    pieces = [chance.randbytes(chance.randrange(1, 200_000)) for _ in range(100)]
    with (
        serving(echo) as origin,
        opened_relay(origin, 0.01) as opened,
        connect(opened.origin) as client,
    ):

        def send() -> None:
            for piece in pieces:
                client.sendall(piece)

        sending = threading.Thread(target=send)
        sending.start()
        whole = b"".join(pieces)
        assert read(client, len(whole)) == whole
        sending.join(PATIENCE_S)
        assert opened.punctuality().bytes == 2 * len(whole)


def test_a_half_closed_connection_still_carries_the_answer() -> None:
    with (
        serving(count) as origin,
        opened_relay(origin, 0.01) as opened,
        connect(opened.origin) as client,
    ):
        client.sendall(bytes(300_000))
        client.shutdown(socket.SHUT_WR)
        assert read(client, 100) == b"300000"


def test_a_reset_is_a_reset_on_the_other_side() -> None:
    gone = threading.Event()

    def wait_for_reset(connection: socket.socket) -> None:
        assert connection.recv(1000) == b"x"
        with pytest.raises(ConnectionResetError):
            connection.recv(1000)
        gone.set()

    with serving(wait_for_reset) as origin, opened_relay(origin, 0.01) as opened:
        client = connect(opened.origin)
        client.sendall(b"x")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
        client.close()
        assert gone.wait(PATIENCE_S)


def test_a_reset_does_not_overtake_what_was_sent_before() -> None:
    def answer_and_reset(connection: socket.socket) -> None:
        assert connection.recv(1000) == b"x"
        connection.sendall(bytes(3000))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)

    with (
        serving(answer_and_reset) as origin,
        opened_relay(origin, 0.01) as opened,
        connect(opened.origin) as client,
    ):
        client.sendall(b"x")
        assert read(client, 3000) == bytes(3000)
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_receiver_that_does_not_read_holds_the_sender_back() -> None:
    go_on = threading.Event()

    def slow(connection: socket.socket) -> None:
        assert go_on.wait(PATIENCE_S)
        count(connection)

    with (
        serving(slow) as origin,
        opened_relay(origin, 0.01) as opened,
        connect(opened.origin) as client,
    ):
        client.settimeout(0.1)
        block, sent, held_back = bytes(1 << 20), 0, 0
        # What fits into the relay and four socket buffers, not more.
        while not held_back:
            with contextlib.suppress(TimeoutError):
                sent += client.send(block)
                assert sent < 200 << 20
                continue
            held_back = opened.punctuality().held_back
        assert sent > 1 << 20
        go_on.set()
        client.settimeout(PATIENCE_S)
        client.shutdown(socket.SHUT_WR)
        assert read(client, 100) == str(sent).encode()


def test_nobody_behind_it() -> None:
    port = free_port()
    with opened_relay(f"http://127.0.0.1:{port}", 0.01) as opened:
        with connect(opened.origin) as client, pytest.raises(ConnectionResetError):
            client.recv(1)
        assert opened.punctuality().refused == 1


@contextlib.contextmanager
def udp_echo() -> Iterator[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.1)
        over = threading.Event()

        def answer() -> None:
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    data, sender = server.recvfrom(65_536)
                    server.sendto(data, sender)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"https://127.0.0.1:{server.getsockname()[1]}"
        over.set()
        thread.join(PATIENCE_S)


def test_datagrams_are_delayed_and_keep_their_order_and_their_client() -> None:
    with udp_echo() as origin, opened_relay(origin, DELAY_S) as opened:
        there = ("127.0.0.1", urlsplit(opened.origin).port)
        clients = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
        began = time.monotonic()
        for number in range(20):
            for name, client in enumerate(clients):
                client.settimeout(PATIENCE_S)
                client.sendto(f"{name} {number}".encode(), there)
        for name, client in enumerate(clients):
            got = [client.recv(100).decode() for _ in range(20)]
            assert got == [f"{name} {number}" for number in range(20)]
            client.close()
        assert time.monotonic() - began >= DELAY_S - GRAIN_S
        told = opened.punctuality()
        assert (told.chunks, told.datagrams_dropped, told.connections) == (120, 0, 3)
        assert told.invalid() is None


def test_a_train_of_datagrams_stays_what_it_is() -> None:
    """UDP_SEGMENT: one call, several datagrams."""
    with udp_echo() as origin, opened_relay(origin, 0.01) as opened:
        address = ("127.0.0.1", urlsplit(opened.origin).port)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(PATIENCE_S)
            size = (1200).to_bytes(2, sys.byteorder)
            data = os.urandom(1200 * 9 + 77)
            client.sendmsg([data], [(socket.IPPROTO_UDP, 103, size)], 0, address)
            got = [client.recv(65_536) for _ in range(10)]
            assert [len(piece) for piece in got] == [1200] * 9 + [77]
            assert b"".join(got) == data


@pytest.mark.parametrize("version", ["h1", "h2", "h2c", "h3"])
def test_every_version_goes_through_it(version: str, tmp_path: Path) -> None:
    with (
        running.open_target(
            "embedded", state=tmp_path, folder=tmp_path, cpus=None, threads=1, versions=[version]
        ) as target,
        opened_relay(target.origins[version], 0.02) as opened,
    ):
        url = f"{opened.origin}/bytes/100k"
        run = load(url, version, target.cacert, "-n", "60", "-c", "20", "--check-body")
        assert run["requests"]["ok"] == 60, run["requests"]
        assert run["latency"]["service"]["min"] >= 0.02 - GRAIN_S
        told = opened.punctuality()
        assert told.connections == 20
        assert told.chunks > 120
        assert told.late_p99_s is not None
        assert 0 < told.busy < 1.5


def test_it_keeps_the_scheme_and_the_name() -> None:
    with serving(echo) as origin:
        port = urlsplit(origin).port
        with opened_relay(f"https://localhost:{port}", 0.01) as opened:
            assert opened.origin.startswith("https://localhost:")
            assert opened.origin != f"https://localhost:{port}"
            assert opened.running.scheduling in ("real-time", "nice -10", "normal")
            assert connect_and_round_trip_s(opened.origin) >= 0.02 - GRAIN_S


def test_origins_that_are_one_are_one_relay() -> None:
    with serving(echo) as one, serving(echo) as other:
        origins = {"h1": one, "h2": one, "h2c": other}
        with relay.open_relay(origins, 0.01) as opened:
            assert opened.origins["h1"] == opened.origins["h2"] != opened.origins["h2c"]
            assert not set(opened.origins.values()) & set(origins.values())
            for origin in set(opened.origins.values()):
                assert connect_and_round_trip_s(origin) >= 0.02 - GRAIN_S


def test_no_delay_no_relay() -> None:
    with relay.open_relay({"h1": "https://example.org"}, 0) as opened:
        assert opened.origins == {"h1": "https://example.org"}
        assert opened.pid is None
        assert opened.punctuality().suspect() is None


def test_it_runs_on_the_cpus_it_is_given() -> None:
    cpu = max(os.sched_getaffinity(0))
    with serving(echo) as origin, opened_relay(origin, 0.01, cpus=str(cpu)) as opened:
        assert os.sched_getaffinity(opened.pid) == {cpu}


@pytest.mark.parametrize(
    ("origin", "delay_s", "message"),
    [
        ("http://192.0.2.1", 0.01, "only for servers on this machine, not for 192.0.2.1"),
        ("http://127.0.0.1:1", -1.0, "cannot be emulated"),
        ("http://127.0.0.1:1", float("nan"), "cannot be emulated"),
        ("http://127.0.0.1:1", 3600.0, "cannot be emulated"),
    ],
)
def test_what_cannot_be_relayed(origin: str, delay_s: float, message: str) -> None:
    with pytest.raises(relay.RelayFailed, match=message), opened_relay(origin, delay_s):
        pass


def test_lateness_and_losses_are_judged() -> None:
    good = relay.Punctuality(1000, 1000, 1, 0, 0, 0, 0.5, 1e-5, 5e-4, 1e-2)
    assert good.suspect() is None
    assert good.invalid() is None
    late = relay.Punctuality(1000, 1000, 1, 0, 0, 0, 0.5, 1e-5, 2e-3, 1e-2)
    assert late.suspect() == "the emulated delay was late by 2.0 ms at p99"
    busy = relay.Punctuality(1000, 1000, 1, 0, 0, 0, 0.93, 1e-5, 5e-4, 1e-2)
    assert "93% busy" in str(busy.suspect())
    lossy = relay.Punctuality(1000, 1000, 1, 2, 0, 0, 0.5, 1e-5, 5e-4, 1e-2)
    assert lossy.invalid() == "the emulated network lost 2 datagrams"


def test_a_dead_relay_is_noticed() -> None:
    with serving(echo) as origin, opened_relay(origin, 0.01) as opened:
        os.kill(opened.pid, signal.SIGKILL)
        with pytest.raises(relay.RelayFailed, match="the relay died"):
            opened.punctuality()


_LAB = """
import sys, time
from trilane.lab.network import relay
with relay.open_relay({"h1": sys.argv[1]}, 0.01) as opened:
    print(opened.pid, flush=True)
    time.sleep(600)
"""


def test_it_ends_with_a_lab_that_is_killed() -> None:
    with serving(echo) as origin:
        command = [sys.executable, "-c", _LAB, origin]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            assert is_alive(pid)
            process.kill()
            process.wait()
            wait_until(lambda: not is_alive(pid), "the relay is gone")
