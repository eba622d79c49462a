"""`trilane doctor`: what it sees on machines made up of files, and what it says of runs."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from repository import ROOT
from synthetic import folders
from trilane.cli import run as command
from trilane.lab.machine import doctor, doctor_machine
from trilane.lab.machine.host import Check, Host

FACTORS = {"h1": 1.0, "h2": 1.5}
Trilane = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trilane(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Trilane:
    monkeypatch.setenv("COLUMNS", "200")
    # Programs are asked for their versions in tests/lab.
    monkeypatch.setattr(Host, "version", lambda _host, _program, *_arguments: "1.2.3")

    def call(*arguments: str, at: Path = tmp_path) -> tuple[int, str, str]:
        code = command(["doctor", *arguments, "--state", str(at)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def host(root: Path, files: dict[str, str]) -> Host:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    return Host(root=root, beside=root / "bin")


@pytest.fixture(autouse=True)
def _no_network_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "emulated_network", lambda _host: (0, ""))


def machine(root: Path, files: dict[str, str]) -> dict[str, Check]:
    return {check.name: check for check in doctor_machine.checks(host(root, files))}


GOOD = {
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "dev/cpu_dma_latency": "",
    "proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\n",
    "proc/loadavg": "0.00 0.00 0.00 1/100 1\n",
    "proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n",
    "proc/sys/net/ipv4/ip_local_port_range": "1024\t65535\n",
    "proc/sys/net/ipv4/tcp_congestion_control": "cubic\n",
    "proc/sys/net/core/rmem_max": "16777216\n",
    "proc/sys/net/core/wmem_max": "16777216\n",
    "sys/class/net/lo/mtu": "65536\n",
}
BAD = {
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "0\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
    "sys/fs/cgroup/cpu.max": "50000 100000\n",
    "proc/stat": "cpu  100 0 100 700 0 0 0 100 0 0\n",
    "proc/loadavg": "99.00 0.00 0.00 1/100 1\n",
    "proc/meminfo": "MemAvailable: 4000 kB\n",
    "proc/sys/net/ipv4/ip_local_port_range": "60000\t60999\n",
    "proc/sys/net/ipv4/tcp_congestion_control": "bbr\n",
    "proc/sys/net/ipv4/tcp_available_congestion_control": "bbr reno\n",
    "proc/sys/net/ipv4/tcp_allowed_congestion_control": "reno\n",
    "proc/sys/net/core/rmem_max": "212992\n",
    "proc/sys/net/core/wmem_max": "212992\n",
}


def test_a_good_machine_is_told_so(tmp_path: Path) -> None:
    checks = machine(tmp_path, GOOD)
    # These three depend on the machine that the test runs on.
    for real in ("CPUs", "pinning", "open files", "UDP GSO", "UDP GRO"):
        checks.pop(real)
    assert {name: check.status for name, check in checks.items() if check.status != "ok"} == {}
    assert checks["memory"].value == "3.8 GiB available"
    assert checks["client ports"].value == "64,512 (1024–65535)"
    assert checks["loopback MTU"].value == "65,536 B"


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("CPU governor", "powersave", "cpupower frequency-set -g performance"),
        ("turbo", "on", "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"),
        ("clock source", "hpet", "echo tsc"),
        ("CPU quota", "0.5 CPUs", "--cpuset-cpus"),
        ("CPU wake-up", "/dev/cpu_dma_latency is not writable", "setfacl"),
        ("steal", "10.0 % since", "a machine of your own"),
        ("load", "99.00 runnable", "top"),
        ("memory", "0.0 GiB", "end other programs"),
        ("client ports", "1,000 (60000–60999)", "sysctl net.ipv4.ip_local_port_range"),
        ("TCP congestion control", "bbr; this user may choose", "modprobe tcp_cubic"),
        ("UDP receive buffer", "0.203 MiB", "sysctl net.core.rmem_max=8388608"),
        ("UDP send buffer", "0.203 MiB", "sysctl net.core.wmem_max=8388608"),
    ],
)
def test_what_is_wrong_comes_with_a_way_out(
    tmp_path: Path, name: str, value: str, fix: str
) -> None:
    check = machine(tmp_path, BAD)[name]
    assert check.status == "warning"
    assert value in check.value
    assert check.fix
    assert fix in check.fix


def test_a_machine_that_shows_nothing_is_no_error(tmp_path: Path) -> None:
    checks = machine(tmp_path, {})
    assert checks["CPU governor"].status == "ok"
    assert checks["turbo"].value.startswith("not shown")
    assert "client ports" not in checks


def test_the_command_says_that_the_main_job_can_run(trilane: Trilane) -> None:
    code, out, _ = trilane()
    assert code == 0
    assert "trilane race can run here" in out
    assert "0 runs in" in out


def test_json_names_every_check(trilane: Trilane) -> None:
    code, out, _ = trilane("--format", "json")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "trilane.doctor/1"
    assert document["able"] is True
    assert {check["status"] for check in document["checks"]} <= {"ok", "warning", "missing"}
    assert all(check["value"] and check["why"] for check in document["checks"])
    assert len(document["machine"]["id"]) == 8


def test_without_a_folder_to_write_to_the_main_job_cannot_run(
    trilane: Trilane, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    code, out, _ = trilane(at=file / "state")
    assert code == 1
    assert "trilane race cannot run here: state folder" in out
    assert "--state DIR" in out


def test_without_the_packages_of_the_lab_it_says_how_to_get_them(
    trilane: Trilane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_LAB", ("numpy", "no-such-distribution"))
    code, out, _ = trilane()
    assert code == 1
    assert "without no-such-distribution" in out
    assert "pip install 'trilane[lab]'" in out


def test_every_package_of_the_lab_is_looked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = {re.split("[<>=]", each)[0] for each in project["optional-dependencies"]["lab"]}
    # uv is a program, which contenders ask for themselves; whoever runs the command has its extra.
    assert set(doctor._LAB) == extra - {"uv", "trilane[cli]"}


def silent(folder: Path) -> None:
    """As if nothing had been written for an hour."""
    long_ago = time.time() - 3600
    for path in (*folder.iterdir(), folder):
        os.utime(path, (long_ago, long_ago))


def test_runs_are_counted_and_the_unfinished_named_with_the_way_on(
    trilane: Trilane, tmp_path: Path
) -> None:
    folders.race(tmp_path, "20261116-100000", FACTORS)
    folders.lab(tmp_path, "20261117-100000", FACTORS, status="interrupted", result=False)
    silent(folders.lab(tmp_path, "20261118-100000", FACTORS, status="running", result=False))
    folders.lab(tmp_path, "20261119-100000", FACTORS, status="running", result=False)
    broken = folders.race(tmp_path, "20261120-100000", FACTORS)
    (broken / "result.json").write_text("{", encoding="utf-8")
    silent(broken)
    code, out, _ = trilane()
    assert code == 0
    assert "5 runs in" in out
    assert "1 complete" in out
    assert "interrupted   20261117-100000-bookstore-fair" in out
    assert "interrupted   20261118-100000-bookstore-fair" in out
    assert out.count("→ to go on with it: trilane lab run bookstore --form fair --seed 1\n") == 2
    # Somebody is at work on this one.
    assert "20261119-100000" not in out
    assert "broken   20261120-100000-race" in out
    assert "is damaged" in out


def test_an_experiment_that_holds_its_lock_is_at_work(trilane: Trilane, tmp_path: Path) -> None:
    folder = folders.lab(tmp_path, "20261118-100000", FACTORS, status="running", result=False)
    (folder / ".lock").write_text("", encoding="ascii")
    silent(folder)
    with (folder / ".lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "20261118" not in trilane()[1]
    assert "interrupted   20261118-100000-bookstore-fair" in trilane()[1]


@pytest.mark.parametrize(
    ("answer", "status", "value", "fix"),
    [
        ((0, "ok      client to server: delay …"), "ok", "made, and as it was asked for", None),
        (
            (4, "ok      a\ninvalid client to server: delay 2 ms where 1 ms ± 0.1 ms was asked"),
            "warning",
            "client to server: delay 2 ms where 1 ms ± 0.1 ms was asked",
            "stop what else runs on this machine",
        ),
        (
            (1, "trilane network: cannot make a TUN interface: No such file; modprobe tun"),
            "missing",
            "cannot make a TUN interface: No such file",
            "modprobe tun",
        ),
        (None, "missing", "it did not answer", None),
    ],
)
def test_whether_a_network_can_be_emulated_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: tuple[int, str] | None,
    status: str,
    value: str,
    fix: str | None,
) -> None:
    monkeypatch.setattr(Host, "emulated_network", lambda _host: answer)
    check = machine(tmp_path, GOOD)["emulated network"]
    assert (check.status, check.value, check.fix, check.needed) == (status, value, fix, False)
