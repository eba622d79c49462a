"""Load generators of others as contenders: a script starts one and translates what it reports.

The conversation with the runner (docs/contenders.md) is held here; what the program can, how it is
told and what its report means is its script's. Such a program reads bodies without looking at them
and does not verify certificates. So the script asks the server itself, verifying its certificate,
before it says that it is ready.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from trilane_contender.plan import BadPlan, Plan, parse
from trilane_contender.protocol import own_stdout, say
from trilane_contender.tally import histogram

# Beside the time that a program is told to work.
GRACE_S = 30.0
# Slower answers than the plan's timeout are the program's to report.
VERIFY_S = 30.0
# How often the memory of the program is looked at, the first time early: each look takes CPU beside
# it.
FIRST_LOOK_S, LOOK_S = 0.01, 0.25


@dataclass(frozen=True, slots=True)
class Used:
    """What the kernel charged to the program itself, from its start to its end (wait4(2))."""

    user_s: float
    system_s: float
    voluntary: int
    """Context switches by which it gave up the processor, …"""
    involuntary: int
    """… and by which it was taken away."""
    peak_rss_bytes: int | None
    """The largest resident memory that was seen (`VmHWM`)."""


class Generator(ABC):
    """One load generator, for one plan."""

    name: ClassVar[str]
    versions: ClassVar[tuple[str, ...]]
    speaks_grpc: ClassVar[bool] = False
    """Whether it makes calls of gRPC itself, and nothing else."""
    used: Used | None = None
    """By the last program that `output` ran."""

    def __init__(self, plan: Plan, threads: int, folder: Path) -> None:
        """`folder` is for the program's files and is removed afterwards."""
        self.plan = plan
        self.connections = plan.connections or plan.in_flight
        self.threads = min(threads, self.connections)
        self.folder = folder
        self.body = plan.body_file
        if plan.body is not None:
            self.body = folder / "body"
            self.body.write_bytes(plan.body)

    @abstractmethod
    def cannot(self) -> Iterable[tuple[bool, str]]:
        """Reasons against the plan, and whether they apply."""

    @abstractmethod
    def verify(self) -> None:
        """Ask the server before the clock starts, with its certificate verified.

        Raises if it cannot be trusted, does not answer or speaks something else.
        """

    @abstractmethod
    def run(self, seconds: float | None) -> str:
        """Do the workload once, for so many seconds or by its count; what the program printed."""

    @abstractmethod
    def result(self, output: str) -> dict[str, Any]:
        """What it printed, and left in its files, in the words of the protocol.

        Raises:
            RuntimeError: that is not what this program prints.
        """

    @abstractmethod
    def version(self) -> str:
        """What the program says of itself."""

    def refusal(self) -> str | None:
        """Why the program cannot do the plan."""
        plan, name = self.plan, self.name
        reasons = (
            (
                plan.version not in self.versions,
                f"{name} speaks {' and '.join(self.versions)} only, not {plan.version}",
            ),
            (plan.strategy != "load", f"{name} has no strategy {plan.strategy!r}, only load"),
            (plan.workload.kind not in {"urls", "call"}, f"{name} cannot follow links"),
            (
                self.speaks_grpc and (plan.call is None or plan.call.message is None),
                f"{name} makes calls of gRPC only",
            ),
            (not plan.session, f"{name} keeps its connections: it needs session = true"),
            (plan.gzip, f"{name} does not decode gzip"),
            (plan.warmup > 0, f"{name} warms up by time, not by a number of requests"),
            (plan.repeat > 1, f"{name} does not repeat a workload"),
            *self.cannot(),
        )
        return next((reason for applies, reason in reasons if applies), None)

    def output(self, words: list[str], seconds: float) -> str:
        """What the program prints; afterwards `used` tells what that took.

        It has `seconds` and some grace.

        Raises:
            RuntimeError: it did not end in time, or not well.
        """
        # Files, not pipes: reading a pipe would take CPU beside the program while it is measured.
        with (
            (self.folder / "stdout").open("w+", errors="replace") as printed,
            (self.folder / "stderr").open("w+", errors="replace") as errors,
        ):
            child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=printed, stderr=errors, cwd=self.folder
            )
            try:
                status, self.used, late = _ended(child.pid, seconds + GRACE_S)
            except BaseException:
                child.kill()
                raise
            child.returncode = os.waitstatus_to_exitcode(status)
            printed.seek(0)
            errors.seek(0)
            output, said = printed.read(), errors.read()
        sys.stderr.write(said)
        if late:
            raise RuntimeError(f"{self.name} had not ended after {seconds + GRACE_S:g} s")
        if child.returncode != 0:
            told = (said or output).strip()[-300:]
            raise RuntimeError(f"{self.name} exited with {child.returncode}: {told}")
        return output

    def get_all(self) -> float:
        """Ask for each path once over HTTP/1.1: the mean length of the bodies in bytes."""
        plan = self.plan
        connection: http.client.HTTPConnection
        if plan.scheme == "https":
            connection = http.client.HTTPSConnection(
                plan.host, plan.port, timeout=VERIFY_S, context=_trust(plan)
            )
        else:
            connection = http.client.HTTPConnection(plan.host, plan.port, timeout=VERIFY_S)
        lengths = []
        try:
            for path in plan.workload.paths:
                connection.request(plan.method, path, plan.body, dict(plan.headers))
                response = connection.getresponse()
                lengths.append(len(response.read()))
                if response.version != 11:
                    raise ConnectionError(f"HTTP {response.version} was spoken, not HTTP/1.1")
        finally:
            connection.close()
        return sum(lengths) / len(lengths)

    def shake_hands(self, alpn: str) -> None:
        """Open one connection and close it: TLS as the plan trusts it, with that protocol."""
        plan = self.plan
        with socket.create_connection((plan.host, plan.port), VERIFY_S) as opened:
            if plan.scheme != "https":
                return
            trust = _trust(plan)
            trust.set_alpn_protocols([alpn])
            with trust.wrap_socket(opened, server_hostname=plan.host) as secured:
                chosen = secured.selected_alpn_protocol()
            if chosen != alpn:
                raise ConnectionError(f"{chosen or 'nothing'} was negotiated, not {plan.version}")


def serve(generator: type[Generator]) -> int:
    """One plan, from its line to its result. Returns the exit code of the process."""
    events = own_stdout()
    line = sys.stdin.readline()
    try:
        plan = parse(line)
    except BadPlan as error:
        return say(events, event="cannot", reason=str(error))
    threads = int(json.loads(line).get("threads") or 1)
    with tempfile.TemporaryDirectory(prefix=f"trilane-{generator.name}-") as folder:
        program = generator(plan, threads, Path(folder))
        if reason := program.refusal():
            return say(events, event="cannot", reason=reason)
        try:
            program.verify()
            if plan.warmup_s:
                program.run(math.ceil(plan.warmup_s))
            say(
                events,
                event="ready",
                library=program.name,
                library_version=program.version(),
                runtime=f"{os.uname().sysname} {os.uname().machine}",
                sessions="one",
            )
            if sys.stdin.readline().strip() != "start":
                return 0
            output = program.run(plan.workload.duration_s)
            say(events, event="done")
            result = program.result(output)
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            sys.stderr.write(f"{plan.origin}: {error}\n")
            return 1
        except (LookupError, TypeError, ValueError) as error:
            told = f"{type(error).__name__}: {error}"
            sys.stderr.write(f"{program.name} reported something else than is known: {told}\n")
            return 1
        used = None if program.used is None else asdict(program.used)
        return say(events, event="result", **result, program=used)


def release(words: list[str], pattern: str) -> str:
    """The version in what a program prints of itself, whatever it exits with."""
    told = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    found = re.search(pattern, told.stdout + told.stderr)
    return found[1] if found else "unknown"


def report(name: str, output: str) -> dict[str, Any]:
    """The JSON that a program printed; raises RuntimeError where it is none."""
    try:
        read: dict[str, Any] = json.loads(output)
    except ValueError:
        raise RuntimeError(f"{name} reported nothing: {output.strip()[-300:]}") from None
    return read


def latency(counts: Mapping[int, int]) -> dict[str, str] | None:
    """Counts by latency in microseconds, as the protocol has them; None where there are none."""
    return histogram({microseconds * 1000: count for microseconds, count in counts.items()})


def counted(counts: Mapping[str, int]) -> dict[str, int]:
    """Those that happened."""
    return {kind: count for kind, count in counts.items() if count}


def fields(plan: Plan, option: str) -> Iterator[str]:
    """The plan's fields as words of a command line."""
    for name, value in plan.headers:
        yield from (option, f"{name}: {value}")


def _ended(pid: int, limit_s: float) -> tuple[int, Used, bool]:
    """The status of a child that has ended, what it used, and whether the limit ended it."""
    until, peak, late = time.monotonic() + limit_s, None, False
    wait_s = FIRST_LOOK_S
    handle = os.pidfd_open(pid)
    try:
        while not select.select([handle], [], [], wait_s)[0]:
            peak, wait_s = _peak(pid) or peak, LOOK_S
            if time.monotonic() > until:
                late = True
                os.kill(pid, signal.SIGKILL)
                break
    finally:
        os.close(handle)
    _, status, usage = os.wait4(pid, 0)
    used = Used(
        user_s=usage.ru_utime,
        system_s=usage.ru_stime,
        voluntary=usage.ru_nvcsw,
        involuntary=usage.ru_nivcsw,
        peak_rss_bytes=peak,
    )
    return status, used, late


def _peak(pid: int) -> int | None:
    """Not `ru_maxrss`, which holds that of this interpreter from before the program began."""
    try:
        told = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"^VmHWM:\s*(\d+) kB", told, re.MULTILINE)
    return None if found is None else int(found[1]) * 1024


def _trust(plan: Plan) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=plan.cacert)
