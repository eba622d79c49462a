"""Targets that are not as they should be, and what is said about them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from peers.process import MissingProgramError, free_port, is_alive, wait_until
from peers.running import absent
from peers.shipped import require
from repository import DOCS, ROOT
from trilane.lab.targets import running, servers, target_config, target_ready

from .helping import FAKE, ask, connect, fake


def open_(
    name: Path | str, folder: Path, **more: object
) -> contextlib.AbstractContextManager[running.Target]:
    return running.open_target(
        str(name),
        state=folder / "state",
        folder=folder / "logs",
        **({"cpus": None, "threads": 1, "versions": ()} | more),  # type: ignore[arg-type]
    )


def said(name: Path | str, folder: Path, **more: object) -> str:
    """The message with which it cannot be opened."""
    with pytest.raises(running.TargetFailed) as caught, open_(name, folder, **more):
        pass
    return str(caught.value)


def test_a_server_of_your_own(tmp_path: Path) -> None:
    server = fake(tmp_path, "good", more='[facts]\nkeepalive_requests = 1\nplace = "{folder}"\n')
    with open_(server, tmp_path) as target:
        with contextlib.closing(connect(target)) as connection:
            assert ask(connection, "/hello") == (200, b"hello world")
        assert target.facts["keepalive_requests"] == 1
        assert target.facts["place"] == str(server)
        assert target.cacert is None
        assert target.pid is not None
        # It is started here, but what it asks its sockets for nobody knows: FINDINGS T6.
        controller = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
        default = f"{controller}, the kernel's default, unless the server chose another"
        assert str(running.sent_by(target, "h1")) == default
        assert running.sent_by(target, "h1") == running.sent_by(target, "h2")
        assert str(running.sent_by(target, "h3")) == "unknown (the server's own)"
    assert not is_alive(target.pid)


def test_the_embedded_server_is_a_target_like_others(tmp_path: Path) -> None:
    with open_("embedded", tmp_path, versions=["h3", "h2c"]) as target:
        assert list(target.origins) == ["h3", "h2c"]
        assert target.origins["h2c"].startswith("http://127.0.0.1:")
        assert target.cacert == str(tmp_path / "state" / "ca.pem")
        assert target.facts["software"].startswith("trilane serve ")


def test_http_1_1_without_tls_may_have_a_port_of_its_own(tmp_path: Path) -> None:
    config = target_config.load(ROOT / "servers" / "nginx")
    assert config.origins["h1-plain"] != config.origins["h2c"]
    assert running.find("embedded").origins["h1-plain"] == running.find("embedded").origins["h2c"]
    server = fake(tmp_path, "good", more='plain = "http://127.0.0.1:{port}"\n')
    with open_(server, tmp_path, versions=["h1-plain"]) as target:
        port = urlsplit(target.origins["h1-plain"]).port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        with contextlib.closing(connection):
            connection.request("GET", "/hello")
            assert connection.getresponse().read() == b"hello world"


def test_a_url_is_a_target(tmp_path: Path) -> None:
    with open_("https://example.org/path", tmp_path, versions=["h2"]) as target:
        assert dict(target.origins) == {"h2": "https://example.org"}
        assert target.pid is None
        assert target.pids == ()


def test_a_url_with_a_readiness_of_its_own(tmp_path: Path) -> None:
    with open_(fake(tmp_path, "good"), tmp_path) as ours:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "server.toml").write_text(
            f'url = "{ours.origins["h1"]}"\nversions = ["h1"]\nready = {{ path = "/hello" }}\n'
        )
        with open_(elsewhere, tmp_path) as target:
            assert target.origins == ours.origins


def test_a_url_whose_authority_is_not_there(tmp_path: Path) -> None:
    with open_("embedded", tmp_path) as ours:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "server.toml").write_text(
            f'url = "{ours.origins["h1"]}"\nversions = ["h1"]\ncacert = "/nowhere/ca.pem"\n'
            'ready = { path = "/hello", timeout = "200ms" }\n'
        )
        message = said(elsewhere, tmp_path)
        assert "elsewhere was not ready within 0.2 s" in message
        assert "No such file" in message
        good = (elsewhere / "server.toml").read_text().replace("/nowhere/ca.pem", str(ours.cacert))
        (elsewhere / "server.toml").write_text(good.replace("200ms", "20s"))
        with open_(elsewhere, tmp_path) as target:
            assert target.cacert == ours.cacert


def test_unknown_names_and_versions(tmp_path: Path) -> None:
    message = said("apache", tmp_path)
    assert "no server 'apache'" in message
    assert "embedded, " in message
    assert "nginx does not speak h3, only h1, h2, h2c" in said("nginx", tmp_path, versions=["h3"])
    assert "is not the URL of a server" in said("ftp://example.org", tmp_path)


def test_a_missing_program(tmp_path: Path) -> None:
    needy = fake(tmp_path, "good", more='requires = ["no-such-program"]\ninstall = "ask for it"\n')
    assert said(needy, tmp_path) == (
        "fake needs no-such-program, not installed on this machine: ask for it"
    )
    text = (needy / "server.toml").read_text()
    (needy / "server.toml").write_text(
        text.replace(json.dumps(sys.executable), '"no-such-program"').split("requires")[0]
    )
    assert "the program no-such-program is not on this machine" in said(needy, tmp_path)


def test_one_that_dies_at_the_start(tmp_path: Path) -> None:
    message = said(fake(tmp_path, "dies"), tmp_path)
    assert "fake ended with exit code 1 before it was ready" in message
    assert "the dog ate the configuration" in message
    assert "Traceback" not in message


def over_once(monkeypatch: pytest.MonkeyPatch, holds: Callable[[], bool]) -> None:
    """The time for a server to be ready is over when this holds."""
    clock = SimpleNamespace(monotonic=lambda: 3600.0 if holds() else 0.0, sleep=time.sleep)
    monkeypatch.setattr(target_ready, "time", clock)


def test_one_that_is_never_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = fake(tmp_path, "nothing")
    log = tmp_path / "logs" / "fake.log"
    over_once(monkeypatch, lambda: log.exists() and "thinking" in log.read_text())
    message = said(server, tmp_path)
    assert "fake was not ready within 120 s" in message
    assert "Connection refused" in message
    assert "thinking" in message


def test_one_that_answers_but_not_200(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[str | None] = [None]
    ask = target_ready._ask

    def asked(*how: Any) -> str | None:
        problems.append(ask(*how))
        return problems[-1]

    monkeypatch.setattr(target_ready, "_ask", asked)
    over_once(monkeypatch, lambda: problems[-1] == "status 503")
    assert "status 503" in said(fake(tmp_path, "sad"), tmp_path)


def test_a_taken_port_is_not_taken_for_readiness(tmp_path: Path) -> None:
    port = free_port()
    with open_(fake(tmp_path, "good", port=str(port)), tmp_path):
        message = said(fake(tmp_path, "good", name="second", port=str(port)), tmp_path)
    assert f"port {port} is taken by another program" in message


def test_a_chosen_port_that_is_lost_is_chosen_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as thief:
        lost = thief.getsockname()[1]
        ports = iter([lost, *(free_port() for _ in range(5))])
        monkeypatch.setattr(running, "_free_port", lambda: next(ports))
        with open_(fake(tmp_path, "good"), tmp_path) as target:
            assert f":{lost}" not in target.origins["h1"]


def test_a_build_that_fails(tmp_path: Path) -> None:
    server = fake(tmp_path, "good")
    text = (server / "server.toml").read_text()
    (server / "server.toml").write_text('build = [["sh", "-c", "echo error: no; exit 3"]]\n' + text)
    assert "fake cannot be built" in said(server, tmp_path)


def test_a_build_and_its_files(tmp_path: Path) -> None:
    server = fake(tmp_path, "good")
    (server / "greeting.txt").write_text("port {port}, {unknown} and {} stay\n")
    text = (server / "server.toml").read_text()
    text = text.replace(json.dumps(str(FAKE)), '"{build}/server.py"')
    (server / "server.toml").write_text(
        f'build = [["cp", "{FAKE}", "{{build}}/server.py"]]\nfiles = ["greeting.txt"]\n{text}'
    )
    with open_(server, tmp_path) as target:
        port = target.origins["h1"].rpartition(":")[2]
    written = (tmp_path / "logs" / "fake" / "greeting.txt").read_text()
    assert written == f"port {port}, {{unknown}} and {{}} stay\n"


def test_it_runs_on_the_cpus_it_is_given(tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    for name in (str(fake(tmp_path, "good")), "embedded"):
        with open_(name, tmp_path, cpus=str(cpu)) as target:
            assert target.facts["cpus"] == str(cpu)
            assert target.pid is not None
            threads = Path(f"/proc/{target.pid}/task").iterdir()
            assert {cpu} in [os.sched_getaffinity(int(thread.name)) for thread in threads]
    assert "no CPU 4000" in said(fake(tmp_path, "good"), tmp_path, cpus="4000")
    assert "not a list of CPUs" in said(fake(tmp_path, "good"), tmp_path, cpus="all")


def test_keys_are_private(tmp_path: Path) -> None:
    with servers.embedded(threads=1, cpus=None, state=tmp_path / "state"):
        pass
    for name in ("key.pem", "ca-key.pem"):
        assert (tmp_path / "state" / name).stat().st_mode & 0o077 == 0, name


def written(path: Path) -> bool:
    return path.exists() and path.read_text() != ""


def test_stubborn_processes_end_too(tmp_path: Path) -> None:
    child = tmp_path / "child"
    stubborn = fake(tmp_path, "stubborn", str(child), more='stop_timeout = "300ms"\n')
    with open_(stubborn, tmp_path) as target:
        wait_until(lambda: written(child), "the child has written its id")
        pids = [*target.pids, int(child.read_text())]
        assert all(is_alive(pid) for pid in pids)
    assert not [pid for pid in pids if is_alive(pid)]


_LAB = """
import sys, time
from pathlib import Path
from trilane.lab.targets import running
with running.open_target(
    sys.argv[1], state=Path(sys.argv[2]), folder=Path(sys.argv[2]), cpus=None, threads=1,
    versions=["h1"],
) as target:
    print(*target.pids, flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def lab(name: Path | str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Another process that has opened a target, and the target's processes."""
    command = [sys.executable, "-c", _LAB, str(name), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, [int(pid) for pid in process.stdout.readline().split()]
        finally:
            process.kill()


@pytest.mark.parametrize("name", ["embedded", "nginx", "stubborn"])
def test_nothing_is_left_when_the_lab_is_killed(name: str, tmp_path: Path) -> None:
    child = tmp_path / "child"
    if name == "stubborn":
        name = str(fake(tmp_path, "stubborn", str(child), more='stop_timeout = "300ms"\n'))
    else:
        try:
            require(name)
        except MissingProgramError as error:
            absent(error)
    with lab(name, tmp_path) as (process, pids):
        assert pids
        if "fake" in name:
            wait_until(lambda: written(child), "the child has written its id")
            pids.append(int(child.read_text()))
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda: not any(is_alive(pid) for pid in pids), f"{name} is gone: {pids}")


def test_the_kernel_stops_a_server_whose_guard_is_killed(tmp_path: Path) -> None:
    with lab(fake(tmp_path, "good"), tmp_path) as (_, pids):
        stat = Path(f"/proc/{pids[0]}/stat").read_text()
        guard = int(stat.rpartition(")")[2].split()[1])
        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: not is_alive(pids[0]), "the server has gone with its guard")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("command = [", "is not TOML"),
        ("title = 'x'", "give either command (the lab starts it) or url"),
        ("command = ['x']\nurl = 'https://example.org'", "give either command"),
        ("command = ['x']", "ready is missing"),
        ("command = ['x']\nready = { path = 'hello' }", ":2: ready.path: starts with a slash"),
        ("command = ['x']\nready = { path = '/', timeout = 3 }", "ready.timeout"),
        ("command = ['x']\nready = { path = '/' }", "versions: say where"),
        ("command = ['x']\nready = { path = '/', grpc = 'a.B' }", "ready.path: either a path or"),
        (f"command = ['x']\nready = {{ grpc = '{'a' * 128}' }}", "ready.grpc: has more than 127"),
        (
            "command = ['x']\nready = { grpc = 'a.B' }\nversions = { h1 = 'https://a' }",
            ":2: ready: gRPC needs HTTP/2 or HTTP/3",
        ),
        (
            "command = ['x']\nready = { path = '/' }\nversions = { h4 = 'https://a' }",
            ":3: versions: 'h4' is not a version: choose from h1, h2, h2c, h3",
        ),
        (
            "command = ['x']\nready = { path = '/' }\nversions = { h2 = 'http://a' }",
            "versions: h2 needs https://",
        ),
        ("title = 3\nurl = 'https://example.org'", ":1: title: takes text, not 3"),
        ("url = 'https://example.org'\nstop_timeout = '5'", ":2: stop_timeout: '5' is not a time"),
        ("url = 'https://example.org'\n[calls.json]", ":2: calls.json: path is missing"),
        (
            "url = 'https://example.org'\nversions = { h1 = 'https://a' }",
            ":2: versions: takes a list beside url, not a table",
        ),
        (
            "command = ['x']\nready = { path = '/' }\nplain = 'https://a'\n[versions]\nh1 = 'https://a'",
            ":3: plain: is without TLS: it needs http://, not 'https://a'",
        ),
        ("url = 'https://example.org'\nready = {}", ":2: ready: either a path or a grpc service"),
        ("title = 'x'\ntitle = 'y'", ":2: is not TOML: cannot overwrite a value"),
        ("colour = 'red'\nurl = 'https://example.org'", "colour: unknown key"),
        ("url = 'example.org'", "url: 'example.org' is not a URL"),
        ("url = 'http://example.org'\nversions = ['h3']", "h3 cannot be had"),
        ("url = 'http://example.org'\nstop = 'SIGNICE'", "'SIGNICE' is not a signal"),
    ],
)
def test_a_file_that_makes_no_sense_is_explained(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text(text)
    with pytest.raises(target_config.BadServer) as caught:
        target_config.load(tmp_path)
    assert str(tmp_path / "server.toml") in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("command = ['x', '{prot}']", "{prot} stands for nothing: did you mean port?"),
        ("command = ['{python}']", "script is missing"),
        ("command = ['{build}/x']", "build is missing"),
        ("command = ['x']\nscript = 'missing.py'", "missing.py is not in"),
        ("command = ['x']\nfiles = ['missing.conf']", "missing.conf is not in"),
        ("command = ['x']\nsources = '../missing'", "../missing is not a folder beside"),
    ],
)
def test_what_a_command_needs_must_be_there(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text(
        f"{line}\nversions = {{ h1 = 'http://127.0.0.1:{{port}}' }}\nready = {{ path = '/' }}\n"
    )
    with pytest.raises(target_config.BadServer) as caught:
        target_config.load(tmp_path)
    assert message in str(caught.value)


def examples() -> list[str]:
    """The server.toml files that the documentation shows."""
    text = (DOCS / "servers.md").read_text()
    return re.findall(r"```toml\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("example", examples())
def test_the_examples_of_the_documentation_are_right(example: str, tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text(example)
    (tmp_path / "server.py").touch()
    config = target_config.load(tmp_path)
    assert config.versions
    assert config.ready_path


def test_the_documentation_knows_every_server_key_and_placeholder() -> None:
    text = (DOCS / "servers.md").read_text()
    assert len(examples()) == 3
    for name in running.names():
        assert f"| `{name}` |" in text
        versions = " ".join(running.find(name).versions)
        assert any(
            line.startswith(f"| `{name}` |") and f"| {versions} |" in line
            for line in text.splitlines()
        ), name
    for name in target_config.PLACEHOLDERS:
        assert f"`{{{name}}}`" in text
