"""The load generators: their command lines, and what their output says of requests."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from peers import grpc_tools
from peers.process import MissingProgramError, find, pinned

from .calls import Call

if TYPE_CHECKING:
    import resource
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[1]


class RunError(RuntimeError):
    """A run that cannot be compared: it failed, or requests in it did."""


@dataclass(frozen=True)
class Work:
    """One kind of load; `version` is h1, h2, h2c or h3. A call goes to the server of the URL."""

    url: str
    version: str
    connections: int
    streams: int
    seconds: float
    call: Call | None = None


@dataclass(frozen=True)
class Sample:
    """What one process did and what it cost."""

    requests: int
    user_s: float
    system_s: float
    peak_rss_bytes: int
    voluntary_switches: int

    @property
    def waits(self) -> float:
        """How often the process slept per request."""
        return self.voluntary_switches / self.requests

    @property
    def cpu_us(self) -> float:
        """User and system CPU of the whole process per request, microseconds."""
        return (self.user_s + self.system_s) * 1e6 / self.requests


class Tool(ABC):
    """A load generator: where it is, how it is told, what it answers."""

    name: str
    how: str

    def __init__(self) -> None:
        self.program = self.locate()

    def locate(self) -> str:
        """Path of the program; raises `MissingProgramError`."""
        return find(self.name, self.how)

    @abstractmethod
    def argv(self, work: Work) -> list[str]:
        """The command line for a load."""

    @abstractmethod
    def requests(self, output: str) -> int:
        """Requests that ended well, from standard output; raises `RunError` if others did not."""

    def version(self) -> str:
        """As the program says it."""
        done = subprocess.run(
            [self.program, "--version"], capture_output=True, text=True, check=False
        )
        return (done.stdout or done.stderr).strip().splitlines()[0]

    def run(self, work: Work, cpus: Iterable[int]) -> Sample:
        """One run, pinned to `cpus`, billed by the kernel's account of the whole process."""
        code, output, errors, usage = measure(self.argv(work), cpus, work.seconds + 60)
        if code != 0:
            raise RunError(f"{self.name} exited with {code}: {errors.strip() or output.strip()}")
        requests = self.requests(output)
        if requests == 0:
            raise RunError(f"{self.name} got no response: {errors.strip() or output.strip()}")
        memory = usage.ru_maxrss * 1024
        return Sample(requests, usage.ru_utime, usage.ru_stime, memory, usage.ru_nvcsw)


def measure(
    argv: list[str], cpus: Iterable[int], patience_s: float
) -> tuple[int, str, str, resource.struct_rusage]:
    """Run a command pinned to `cpus`: exit code, output, errors, usage of that child alone."""
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    # Files, not pipes: reading a pipe would cost CPU beside the client while it is measured.
    with (folder / "stdout").open("w+") as output, (folder / "stderr").open("w+") as errors:
        child = subprocess.Popen(
            pinned(argv, cpus),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
        )
        watchdog = threading.Timer(patience_s, os.kill, (child.pid, signal.SIGKILL))
        watchdog.start()
        try:
            # Not `Popen.wait`: only wait4 tells what this child alone has used.
            _, status, usage = os.wait4(child.pid, 0)
        finally:
            watchdog.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        return child.returncode, output.read(), errors.read(), usage


class Wrk(Tool):
    """wrk: h1 only."""

    name = "wrk"
    how = "apt-get install wrk"

    def argv(self, work: Work) -> list[str]:
        return [self.program, "-t1", f"-c{work.connections}", f"-d{work.seconds:.0f}s", work.url]

    def requests(self, output: str) -> int:
        if bad := re.search(r"(Socket errors: .*|Non-2xx or 3xx responses: .*)", output):
            raise RunError(f"wrk: {bad[1]}")
        return _count(r"(\d+) requests in", output, "wrk")

    def version(self) -> str:
        done = subprocess.run([self.program, "-v"], capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).splitlines()[0].split(" Copyright")[0]


class H2load(Tool):
    """h2load of nghttp2: h2 and h2c (and h1, not used here)."""

    name = "h2load"
    how = "apt-get install nghttp2-client"

    def argv(self, work: Work) -> list[str]:
        shape = [f"-c{work.connections}", f"-m{work.streams}", f"-D{work.seconds:.0f}"]
        if work.call is None:
            return [self.program, "-t1", *shape, work.url]
        # It knows no gRPC: it is given the bytes, and believes the status of HTTP.
        frame = ROOT / "build" / "bench" / "frame"
        frame.parent.mkdir(parents=True, exist_ok=True)
        frame.write_bytes(work.call.frame)
        fields = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
        url = f"{work.url}/{work.call.method}"
        return [self.program, "-t1", *shape, "-d", str(frame), *fields, url]

    def requests(self, output: str) -> int:
        if _count(r"(\d+) failed", output, "h2load") > 0:
            raise RunError("h2load: requests failed")
        return _count(r"status codes: (\d+) 2xx", output, "h2load")


class Oha(Tool):
    """oha with its http3 feature, from `$OHA`, the PATH or `--install-peers`."""

    name = "oha"
    how = "python bench/run.py --install-peers (cargo install oha --features http3)"
    built = ROOT / "build" / "oha"

    def locate(self) -> str:
        for path in (os.environ.get("OHA"), str(self.built / "bin" / "oha")):
            if path and os.access(path, os.X_OK):
                return path
        return super().locate()

    def argv(self, work: Work) -> list[str]:
        shape = ["-c", str(work.connections), "-p", str(work.streams), "-z", f"{work.seconds:g}s"]
        quiet = ["--no-tui", "--output-format", "json", "--insecure"]
        return [self.program, "--http-version", "3", *shape, *quiet, work.url]

    def requests(self, output: str) -> int:
        report = json.loads(output)
        if set(report["statusCodeDistribution"]) - {"200"}:
            raise RunError(f"oha: {report['statusCodeDistribution']}")
        return int(report["statusCodeDistribution"].get("200", 0))

    @classmethod
    def install(cls) -> None:
        """Build it from the Rust registry into `build/oha`."""
        command = [
            "cargo",
            "install",
            "oha",
            "--features",
            "http3",
            "--locked",
            "--root",
            str(cls.built),
        ]
        subprocess.run(command, check=True)


class Ghz(Tool):
    """ghz: unary calls over h2c, by grpc-go; built from `tests/peers/grpc-tools`."""

    name = "ghz"
    how = "go build in tests/peers/grpc-tools"

    def locate(self) -> str:
        return grpc_tools.program(self.name)

    def argv(self, work: Work) -> list[str]:
        if work.call is None:
            raise RunError("ghz makes calls only")
        host, port, _ = _split(work.url)
        proto, imports = work.call.proto
        # It shares its workers out among the connections. `wait` lets the last calls end well.
        shape = [f"--connections={work.connections}", f"-c{work.connections * work.streams}"]
        time = [f"-z{work.seconds:g}s", "--duration-stop=wait"]
        plain = ["--insecure", "--disable-template-functions", "--disable-template-data"]
        call = [f"--proto={proto}", f"--import-paths={imports}", f"--call={work.call.method}"]
        return [
            *(self.program, *plain, "--cpus=1", *shape, *time, *call),
            *("-d", work.call.data, f"{host}:{port}"),
        ]

    def requests(self, output: str) -> int:
        ended = dict(re.findall(r"\[(\w+)\]\s+(\d+) responses", output))
        if set(ended) - {"OK"}:
            raise RunError(f"ghz: {ended}")
        return _count(r"\[OK\]\s+(\d+) responses", output, "ghz")

    def version(self) -> str:
        return grpc_tools.version(self.name)


class Floor(Tool):
    """The loop of `bench/floor`, built by cargo."""

    name = "floor"
    how = "cargo build --release -p trilane-floor"

    def locate(self) -> str:
        if (cargo := shutil.which("cargo")) is not None:
            command = [cargo, "build", "--quiet", "--release", "--package", "trilane-floor"]
            subprocess.run(command, cwd=ROOT, check=True)
        return built("trilane-floor", self.how)

    def argv(self, work: Work) -> list[str]:
        host, port, path = _split(work.url)
        return [self.program, host, port, path, str(work.connections), f"{work.seconds:g}"]

    def requests(self, output: str) -> int:
        return int(json.loads(output)["requests"])

    def version(self) -> str:
        return "trilane-floor"


class Trilane(Tool):
    """Our own: `trilane load`, the native binary (`$TRILANE_BIN`, or what cargo built)."""

    name = "trilane"
    how = "cargo build --release"

    def locate(self) -> str:
        return os.environ.get("TRILANE_BIN") or built("trilane", self.how)

    def argv(self, work: Work) -> list[str]:
        shape = ["-t", "1", "-c", str(work.connections), "-m", str(work.streams)]
        time = ["-d", f"{work.seconds:g}s", "--warmup", "0s"]
        if work.call is not None:
            proto, imports = work.call.proto
            shape += ["--grpc", work.call.method, "-b", work.call.data]
            shape += ["--proto", proto, "--proto-path", imports]
        return [
            *(self.program, "load", f"--{work.version}", *shape, *time),
            *("--insecure", "--format", "json", work.url),
        ]

    def requests(self, output: str) -> int:
        report = json.loads(output)
        requests = report["requests"]
        if requests["failed"] > 0:
            raise RunError(f"trilane: {requests['failures']}")
        if report["target"]["version"] is None:
            raise RunError("trilane: no version was negotiated")
        return int(requests["ok"]) + int(requests["warmup"]["ok"])


def built(name: str, how: str) -> str:
    """Path of a release binary of this workspace."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = target / "release" / name
    if not path.is_file():
        raise MissingProgramError(name, how)
    return str(path)


def _count(pattern: str, output: str, name: str) -> int:
    found = re.search(pattern, output)
    if found is None:
        raise RunError(f"the output of {name} has changed: nothing matches {pattern!r}\n{output}")
    return int(found[1])


def _split(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url)
    return parts.hostname or "", str(parts.port), parts.path or "/"
