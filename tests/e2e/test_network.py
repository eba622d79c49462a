"""`trilane network run`: programs that are not ours, and ours, at the two ends of a network."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from peers import networks
from peers.process import is_alive, wait_until
from repository import ROOT, native

SERVE = "serve --port 8080 --tls-port 8443 --state"
HTTP = "http://127.0.0.1:8080"
CONNECT_FAILED_IN_TIME = 28


def network(
    spec: str, server: str, client: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the command, which has two minutes."""
    return subprocess.run(
        [native(), "network", "run", spec, "--server", server, "--client", client, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module", autouse=True)
def _there_are_networks() -> None:
    networks.need()


@pytest.fixture
def server(tmp_path: Path) -> str:
    """A line for a shell that starts the embedded server."""
    return f"exec {shlex.quote(native())} {SERVE} {shlex.quote(str(tmp_path / 'state'))}"


def test_a_connection_takes_the_round_trip_time_and_all_packets_are_told_and_recorded(
    server: str, tmp_path: Path
) -> None:
    told, file = tmp_path / "told.json", tmp_path / "passed.pcap"
    curl = f"curl --silent --output {tmp_path}/body --write-out '%{{time_connect}} %{{time_total}}'"
    where = ["--port", "8080", "--output", str(told), "--pcap", str(file)]
    done = network("rtt=80ms,seed=7", server, f"{curl} {HTTP}/hello", *where)
    assert done.returncode == 0, done.stderr
    connect_s, total_s = map(float, done.stdout.split())
    # The handshake of TCP, then the request.
    assert connect_s >= 0.08
    assert total_s >= 0.16
    assert (tmp_path / "body").read_text() == "hello world"
    found: dict[str, Any] = json.loads(told.read_text())
    assert found["schema"] == "trilane.network/1"
    assert found["network"] == "rtt=80ms,seed=7"
    for way in (found["up"], found["down"]):
        assert way["received"]["packets"] >= 3
        assert way["lost"]["packets"] == way["dropped"]["packets"] == 0
    assert found["check"]["verdict"] in ("valid", "suspect", "invalid")
    assert sum(count for _, count in found["lateness_s"]["histogram"]) == sum(
        found[way]["forwarded"]["packets"] for way in ("up", "down")
    )
    assert "client to server: " in done.stderr
    assert "µs of CPU per packet" in done.stderr
    check_recording(file.read_bytes(), found)


def check_recording(recorded: bytes, found: dict[str, Any]) -> None:
    """It has each packet that went on, when it did."""
    # draft-ietf-opsawg-pcap §4: instants in nanoseconds, and LINKTYPE_RAW.
    assert struct.unpack_from("=IHHIIII", recorded) == (0xA1B23C4D, 2, 4, 0, 0, 65535, 101)
    packets, instants, at = [], [], 24
    while at < len(recorded):
        seconds, nanoseconds, kept, length = struct.unpack_from("=IIII", recorded, at)
        assert kept == length
        instants.append(seconds + nanoseconds / 1e9)
        packets.append(recorded[at + 16 : at + 16 + kept])
        at += 16 + kept
    forwarded = {way: found[way]["forwarded"]["packets"] for way in ("up", "down")}
    # By their source address (RFC 791 §3.1).
    assert forwarded == {
        "up": sum(packet[12:16] == bytes([10, 0, 0, 2]) for packet in packets),
        "down": sum(packet[12:16] == bytes([127, 0, 0, 1]) for packet in packets),
    }
    assert abs(instants[0] - time.time()) < 3600
    # A SYN goes there, its answer comes back: half a round trip each.
    assert instants[1] - instants[0] >= 0.0399
    assert b"GET /hello" in recorded
    assert b"hello world" in recorded


@pytest.mark.parametrize("version", ["--h2", "--h3"])
def test_every_version_gets_through_loss_and_a_narrow_link(
    server: str, tmp_path: Path, version: str
) -> None:
    client = (
        f"{shlex.quote(native())} load {version} https://127.0.0.1:8443/bytes/20000 -n 20 -c 2 "
        f"-t 1 --cacert {shlex.quote(str(tmp_path / 'state' / 'ca.pem'))} --format json"
    )
    told = tmp_path / "told.json"
    spec = "rtt=10ms,rate=20mbit,queue=50p,loss=5%,seed=3"
    done = network(spec, server, client, "--port", "8443", "--output", str(told))
    assert done.returncode in (0, 4), done.stderr
    run = json.loads(done.stdout)
    assert (run["requests"]["ok"], run["requests"]["failed"]) == (20, 0)
    found = json.loads(told.read_text())
    assert found["down"]["lost"]["packets"] > 0
    # What came is what went out, was lost, dropped or was under way at the end.
    for way in (found["up"], found["down"]):
        gone = sum(way[fate]["packets"] for fate in ("lost", "dropped", "forwarded"))
        assert 0 <= way["received"]["packets"] - gone <= 50


def test_a_network_is_measured_by_itself(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    spec = "rtt=20ms,jitter=2ms,rate=10mbit,loss=5%,burst=2,seed=1"
    done = subprocess.run(
        [native(), "network", "check", spec, "--output", str(told)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    check = json.loads(told.read_text())["check"]
    # What a machine that others use makes of it is not known.
    assert done.returncode == (4 if check["verdict"] == "invalid" else 0), done.stderr
    named = [(row["way"], row["property"]) for row in check["properties"]]
    properties = ["loss", "burst", "packets out of order", "mean delay in order", "delay"]
    properties += ["spread of the delay", "rate"]
    ways = ("client to server", "server to client")
    assert named == [(way, name) for way in ways for name in properties]
    for row in check["properties"]:
        assert row["holds"] == (abs(row["seen"] - row["asked"]) <= row["tolerance"])
        assert f"{row['way']}: {row['property']} " in done.stdout
        # Seeded, and of the order of packets alone.
        if row["property"] == "loss":
            assert row["holds"], row


def test_what_passes_by_a_trace_is_measured(tmp_path: Path) -> None:
    trace, told = tmp_path / "trace", tmp_path / "told.json"
    # One packet of 1500 bytes every three milliseconds.
    trace.write_text("".join(f"{3 * n}\n" for n in range(1, 1000)))
    done = subprocess.run(
        [native(), "network", "check", f"trace={trace},rtt=4ms", "--output", str(told)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = json.loads(told.read_text())["check"]["properties"]
    rates = [each for each in found if each["property"] == "rate"]
    assert {each["way"] for each in rates} == {"client to server", "server to client"}, done.stderr
    assert [each["asked"] for each in rates] == pytest.approx([4e6, 4e6], rel=0.02)


def test_a_network_that_is_not_what_was_asked_is_invalid() -> None:
    asked = subprocess.run(
        [native(), "network", "check", "rate=10gbit,rtt=1ms"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    # No loop of one thread carries 800,000 packets a second in each direction.
    assert asked.returncode == 4, asked.stdout
    assert any(
        line.startswith("invalid ") and " rate " in line and "10000.000 Mbit/s" in line
        for line in asked.stdout.splitlines()
    )


def test_a_recording_that_cannot_be_written_is_told() -> None:
    done = network("", "true", "true", "--pcap", "/nowhere/passed.pcap")
    assert done.returncode == 1
    assert "/nowhere/passed.pcap: No such file" in done.stderr
    done = network("", "true", "true", "--pcap", "/dev/full")
    assert done.returncode == 1
    assert "/dev/full: No space left on device" in done.stderr
    assert "packets are missing there" in done.stderr


def test_a_client_exits_as_it_would_and_nothing_passes_where_all_is_lost(server: str) -> None:
    done = network("loss=100%", server, f"curl --silent --connect-timeout 1 {HTTP}/", "-p", "8080")
    assert done.returncode == CONNECT_FAILED_IN_TIME, done.stderr


def test_nothing_else_can_be_reached_and_the_interface_holds_what_a_fast_sender_makes() -> None:
    # netdevice(7): SIOCGIFMTU and SIOCGIFTXQLEN answer behind the name.
    look = (
        "import fcntl, socket, struct; s = socket.socket(); "
        "r = struct.pack('40s', b'road'); "
        "print(*(struct.unpack_from('i', fcntl.ioctl(s, n, r), 16)[0] for n in (0x8921, 0x8942)))"
    )
    program = f"{shlex.quote(sys.executable)} -c {shlex.quote(look)}"
    done = network("rtt=1ms", "true", f"{program}; cat /proc/net/dev /proc/net/route")
    first, *lines = done.stdout.splitlines()
    assert first.split() == ["1500", "10000"], done.stderr
    interfaces = {line.split(":")[0].strip() for line in lines if ":" in line}
    assert interfaces == {"lo", "road"}
    # No way leads anywhere but to the other end.
    ways = {line.split()[1] for line in lines if line.startswith("road\t")}
    # 127.0.0.0 is the other end's as well.
    assert ways == {"0000000A", "0000007F"}


TCP_OF = """
import socket, struct

def of(connection):
    name = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    # tcp(7): `tcpi_snd_cwnd`, which is the initial one before anything is sent.
    window = struct.unpack_from("I", connection.getsockopt(socket.IPPROTO_TCP, 11, 104), 80)[0]
    return f"{name.rstrip(bytes(1)).decode()} {window}".encode()
"""
TCP_SERVER = """
listener = socket.create_server(("", 9000))
for _ in range(2):
    connection, _ = listener.accept()
    connection.sendall(of(connection))
"""
TCP_CLIENT = """
for address in ("10.0.0.1", "127.0.0.1"):
    connection = socket.create_connection((address, 9000))
    print(of(connection).decode(), connection.recv(100).decode(), sep=", ")
"""


@pytest.mark.parametrize(
    ("arguments", "both"),
    [((), "cubic 10"), (("--congestion-control", "reno", "--initial-window", "3"), "reno 3")],
)
def test_tcp_sends_alike_at_both_ends_whatever_the_machine_does(
    tmp_path: Path, arguments: tuple[str, ...], both: str
) -> None:
    told = tmp_path / "told.json"
    server, client = (
        f"{shlex.quote(sys.executable)} -c {shlex.quote(TCP_OF + program)}"
        for program in (TCP_SERVER, TCP_CLIENT)
    )
    done = network("rtt=2ms", server, client, "-p", "9000", "-o", str(told), *arguments)
    assert done.stdout.splitlines() == [f"{both}, {both}"] * 2, done.stderr
    found = json.loads(told.read_text())
    assert " ".join(str(value) for value in found["tcp"].values()) == both
    assert found["mtu"] == 1500


def test_a_congestion_control_that_is_not_there_is_named() -> None:
    done = network("rtt=2ms", "true", "true", "--congestion-control", "nonsense")
    assert done.returncode == 1
    assert "cannot use this congestion control" in done.stderr
    assert "tcp_available_congestion_control" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests of this file are not root's then")
def test_root_is_not_needed() -> None:
    nobody = 65534
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        program = shutil.copy(native(), folder)
        done = subprocess.run(
            [program, "network", "run", "rtt=1ms", "--server", "true", "--client", "id -u"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            user=nobody,
            group=nobody,
            extra_groups=[],
            cwd=folder,
        )
    if "cannot make a" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.stdout.strip() == str(nobody), done.stderr
    assert "client to server: " in done.stderr


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("rtt=40", "rtt=40: say a unit, such as 40ms"),
        ("trace=/nowhere", "trace=/nowhere: No such file"),
        ("loss=80%,burst=3", "at most 75.0000% can be lost"),
    ],
)
def test_wrong_networks_are_named(spec: str, said: str) -> None:
    done = network(spec, "true", "true")
    assert done.returncode == 2
    assert said in done.stderr


def test_a_server_that_ends_or_does_not_listen_is_named() -> None:
    done = network("", "exit 3", "true", "--port", "8080")
    assert done.returncode == 1
    assert "the server ended before it was ready: exit status: 3" in done.stderr
    done = network("", "exec sleep 60", "true", "--port", "8080", "--ready", "100ms")
    assert done.returncode == 1
    assert "the server does not listen on port 8080 after 100ms" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_behind(tmp_path: Path, number: int) -> None:
    pids = [tmp_path / "server", tmp_path / "client"]
    # Each shell starts another, which lives on when the first is killed alone.
    # By its number outside of the namespace that it is in.
    own = [
        f"read pid rest < /proc/self/stat; echo $pid > {pid}.part; mv {pid}.part {pid}"
        for pid in pids
    ]
    lines = [f"sh -c '{line}; exec sleep 600' & wait; true" for line in own]
    command = subprocess.Popen(
        [native(), "network", "run", "rtt=1ms", "--server", lines[0], "--client", lines[1]],
        stderr=subprocess.PIPE,
    )
    with command:
        wait_until(lambda: all(pid.exists() for pid in pids), "both programs run")
        command.send_signal(number)

        def ended() -> bool:
            if number == signal.SIGINT:
                # The first is for the programs, which a terminal sends it as well; others may come
                # as one.
                command.send_signal(number)
            return command.poll() is not None

        wait_until(ended, "the command has ended")
    for pid in pids:
        left = int(pid.read_text())
        wait_until(lambda left=left: not is_alive(left), "the programs have ended")  # type: ignore[misc]


def profiles(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [native(), "network", "profiles", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_profiles_are_shown_with_their_sources() -> None:
    shown = profiles("leo")
    assert shown.returncode == 0
    assert shown.stdout.startswith("leo: satellites in a low orbit")
    assert "50ms" in shown.stdout
    assert "IMC 2022" in shown.stdout
    refused = profiles("6g")
    assert refused.returncode == 2
    assert "there is no such profile, but lan, datacenter" in refused.stderr


def test_the_documentation_has_the_table_of_profiles() -> None:
    told = json.loads(profiles("--format", "json").stdout)["profiles"]
    page = (ROOT / "docs" / "network.md").read_text(encoding="utf-8")
    for profile in told:
        assert documented(profile) in page, (
            f"write this into docs/network.md:\n{documented(profile)}"
        )


def documented(profile: dict[str, Any]) -> str:
    """The row of the table: medians, with the outer quantiles behind those of the round trip."""
    cells = [f"`{profile['name']}`", profile["about"]]
    known = {each["setting"]: each for each in profile["properties"]}
    for settings in (("rtt",), ("down.rate", "rate"), ("up.rate", "rate"), ("loss",)):
        found = next((known[name] for name in settings if name in known), None)
        if found is None:
            cells.append("–")
            continue
        unit = {"mbit": "Mbit/s"}.get(found["unit"], found["unit"])
        low, *_, median, _, high = found["quantiles"]
        cells.append(f"{median:g} ({low:g}–{high:g}) {unit}")
    return f"| {' | '.join(cells)} |"


def test_a_profile_is_drawn_by_the_seed(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    done = network("fibre,seed=3", "true", "true", "--output", str(told))
    assert done.returncode == 0, done.stderr
    drawn = json.loads(told.read_text())["network"]
    assert drawn.endswith("seed=3")
    assert "rtt=" in drawn
    assert "down.rate=" in drawn


def test_the_help_says_what_jitter_makes_of_the_mean_delay() -> None:
    """FINDINGS T15."""
    done = subprocess.run(
        [native(), "network", "run", "--help"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told = " ".join(done.stdout.split())
    assert "their mean delay is more than the rtt asks for" in told
