"""Arms of kind `go-bench`: one row of `go test -bench` is one arm, one process is one run.

The test binaries of a Go module are built once for each state of its sources, so that no run
compiles. What a run says comes from its output, in Go's benchmark format
(https://go.dev/design/14313-benchmark-format); the process is watched from outside as well.
Client and server of such a benchmark are one process: its CPU and allocations are those of both.
"""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace

from trilane.interpreter import TRILANE
from trilane.lab.clients import as_run
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.clients.observe import Ending, Watch
from trilane.lab.experiment.vocabulary import GO_BENCH
from trilane.lab.experiment.workload import ArmSpec, Workload
from trilane.lab.model.contender import Benchmark, Client
from trilane.lab.model.run import (
    SCHEMA,
    Plan,
    Request,
    Requests,
    Run,
    Target,
)
from trilane.lab.model.traffic import Cost, Latency, Rate
from trilane.lab.model.validity import RunValidity
from trilane.lab.processes import launch, supervisor
from trilane.lab.processes.supervisor import ProcessFailed
from trilane.lab.processes.words import how_ended, told
from trilane.lab.programs import builds
from trilane.lab.programs.builds import BuildFailed
from trilane.lab.storage import store

INSTALL = "go is not installed: https://go.dev/dl, version 1.26 or newer"
_LIST_S = 60.0
_KEPT_LINES = 40
# Name, GOMAXPROCS where it is not 1, iterations, then pairs of value and unit.
_RESULT = re.compile(r"(Benchmark\S*?)(?:-(\d+))?\s+(\d+)\s+(\S.*)")
# A module that Go could not fetch. From where is a setting of the machine.
_NOT_HAD = re.compile(r"(\S+@v\S+): reading \S+: (.+)")
_SETTING = re.compile(r"(goos|goarch|pkg|cpu): .+")
_NS = 1e9


class NotReady(RuntimeError):
    """A module or a benchmark of it cannot be used here; the message says why."""


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module whose test binaries are built."""

    name: str
    folder: Path
    binaries: tuple[Path, ...]
    go: str
    """Version of Go, such as `go1.26.8`."""


def ready(name: str, folder: Path, flags: Sequence[str] = ()) -> Module:
    """The module in `folder`, built.

    `flags` are further ones of `go test -c`: `-tags TAG`. Where the module has a file `TAG.mod`, it
    stands for `go.mod`: it requires modules without which the others can be built, and whose hashes
    Go's checksum database tells.

    Raises:
        NotReady: it cannot be built here.
    """
    go = launch.find_program("go")
    if go is None:
        raise NotReady(INSTALL)
    if not (folder / "go.mod").is_file():
        raise NotReady(f"{name} is no Go module: there is no go.mod in {folder}")
    try:
        build = builds.built(f"{name}-bench", folder, _steps(go, folder, flags))
    except BuildFailed as error:
        if not_had := _NOT_HAD.search(str(error)):
            reason = f"{name} needs {not_had[1]}, which cannot be had: {not_had[2]}"
            raise NotReady(reason) from error
        raise NotReady(str(error)) from error
    binaries = tuple(sorted(build.glob("*.test")))
    if not binaries:
        raise NotReady(f"{name} has no tests, so no benchmarks")
    return Module(name, folder, binaries, _version(go))


def _steps(go: str, folder: Path, flags: Sequence[str]) -> list[list[str]]:
    words = [go, "test", "-c", *flags]
    tag = next((tag for flag, tag in pairwise(flags) if flag == "-tags"), None)
    steps = []
    if tag is not None and (folder / f"{tag}.mod").is_file():
        # Go writes to both, and they are to stay as they are.
        steps = [
            ["cp", f"{{folder}}/{tag}.mod", f"{{build}}/{tag}.mod"],
            ["cp", "{folder}/go.sum", f"{{build}}/{tag}.sum"],
        ]
        words += ["-mod=mod", f"-modfile={{build}}/{tag}.mod"]
    return [*steps, [*words, "-o", "{build}/", "./..."]]


def binary(module: Module, benchmark: str) -> Path:
    """The test binary that has this benchmark; raises `NotReady` with those there are."""
    first = benchmark.partition("/")[0]
    there: list[str] = []
    for path in module.binaries:
        names = _benchmarks(path)
        if first in names:
            return path
        there += names
    raise NotReady(
        f"{module.name} has no benchmark {first}, only {', '.join(sorted(there)) or 'none at all'}"
    )


def pattern(benchmark: str) -> str:
    """The argument of `-bench` that runs this benchmark only."""
    return "/".join(f"^{re.escape(part)}$" for part in benchmark.split("/"))


def benchtime(workload: Workload) -> str:
    """The argument of `-benchtime`."""
    if workload.duration_s is not None:
        return f"{workload.duration_s:g}s"
    return f"{workload.count}x"


def parse(output: str, benchmark: str) -> Benchmark:
    """The result of `benchmark` in the output of a run, which does not tell its CPU.

    Raises:
        RunFailed: there is none.
    """
    settings: list[str] = []
    found: list[tuple[str, re.Match[str]]] = []
    other: list[tuple[str, re.Match[str]]] = []
    for line in output.splitlines():
        if _SETTING.fullmatch(line):
            settings.append(line)
        elif match := _RESULT.fullmatch(line.rstrip()):
            (found if match[1] == benchmark else other).append((line.rstrip(), match))
    if not found:
        said = f"it printed a result of {other[0][1][1]} only" if other else "it printed no result"
        raise RunFailed(f"{benchmark} is not there, or was skipped: {said}")
    line, match = found[-1]
    words = match[4].split()
    try:
        values = {unit: float(value) for value, unit in zip(words[::2], words[1::2], strict=True)}
    except ValueError:
        raise RunFailed(f"this is not a result of a benchmark: {line[:200]!r}") from None
    if not values.get("ns/op"):
        raise RunFailed(f"the result of {benchmark} has no ns/op: {line[:200]!r}")
    return Benchmark(
        name=match[1],
        iterations=int(match[3]),
        gomaxprocs=int(match[2] or 1),
        ns_per_op=values["ns/op"],
        alloc_bytes_per_op=values.get("B/op"),
        allocs_per_op=values.get("allocs/op"),
        cpu_us_per_op=0.0,
        lines=[*settings, line][-_KEPT_LINES:],
    )


def run(
    module: Module,
    path: Path,
    arm: ArmSpec,
    workload: Workload,
    *,
    log: Path,
    limit_s: float,
) -> Run:
    """One run of the arm's benchmark; raises `RunFailed`."""
    benchmark = arm.benchmark or ""
    command = [
        str(path),
        *("-test.run", "^$", "-test.bench", pattern(benchmark), "-test.benchmem"),
        *("-test.count", "1", "-test.benchtime", benchtime(workload)),
        *("-test.timeout", f"{limit_s:g}s"),
    ]
    started_at, started = store.now(), time.monotonic()
    try:
        with (
            supervisor.started(
                command, log=log, cwd=module.folder, environment=_environment()
            ) as child,
            closing(Watch(child, begun=started)) as watch,
        ):
            ending, peak = watch.until_end(limit_s)
            said = child.output().decode(errors="replace")
            if ending.code != 0:
                raise RunFailed(_why(benchmark, ending.code, said, child.errors()))
    except ProcessFailed as error:
        raise RunFailed(f"{benchmark} {error}") from error
    row = parse(said, benchmark)
    return _run_of(module, arm, workload, row, ending, peak, started_at)


def _environment() -> dict[str, str]:
    """That of this process, and the words that start trilane, one a line."""
    return {**os.environ, "TRILANE": "\n".join(TRILANE)}


def _why(benchmark: str, code: int, said: str, errors: bytes) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    failed = next((i for i, line in enumerate(lines) if line.startswith("--- FAIL")), None)
    # After the name of what failed stands why.
    words = " ".join(lines[failed : failed + 3]) if failed is not None else told(errors)
    return f"{benchmark} failed: {words[:500] or how_ended(code)}"


def _run_of(
    module: Module,
    arm: ArmSpec,
    workload: Workload,
    row: Benchmark,
    ending: Ending,
    peak: int | None,
    started_at: str,
) -> Run:
    window_s = row.iterations * row.ns_per_op / _NS
    process = ending.process(peak)
    cpu_s = process.user_s + process.system_s
    return Run(
        schema=SCHEMA,
        trilane=as_run.program(),
        started_at=started_at,
        interrupted=False,
        client=Client(
            name=GO_BENCH,
            library="testing",
            library_version=module.go,
            runtime=f"GOMAXPROCS {row.gomaxprocs}",
        ),
        target=Target.of_client(f"{module.name} {row.name}"),
        plan=Plan(
            connections=None,
            streams=None,
            threads=None,
            model="closed",
            rate_per_s=None,
            requests=workload.count,
            duration_s=workload.duration_s,
            warmup_s=0.0,
            timeout_s=workload.timeout_s,
            cpus=None,
            request=Request(
                method="GET", urls=1, header_fields=None, header_bytes=None, body_bytes=0
            ),
            strategy=arm.strategy,
            in_flight=arm.in_flight,
            workload=f"go test -bench {row.name} -benchtime {benchtime(workload)}",
        ),
        requests=Requests.of_client(row.iterations, row.iterations, 0, {}),
        status={},
        rate=Rate(requests_per_s=_NS / row.ns_per_op, goodput_bytes_per_s=0.0, window_s=window_s),
        latency=Latency.of_client(None),
        connections=None,
        phases=None,
        bytes=None,
        cost=Cost(
            user_s=process.user_s,
            system_s=process.system_s,
            cpu_us_per_request=None,
            server_cpu_us_per_request=None,
            context_switches=process.context_switches,
            syscalls=None,
            peak_rss_bytes=peak,
            busy=[],
        ),
        elapsed_s=window_s,
        process=process,
        # Go tries smaller numbers of iterations first and does not say how many: so it is the share
        # of the process's life that was computed, times what an operation took.
        benchmark=replace(row, cpu_us_per_op=cpu_s / process.wall_s * row.ns_per_op / 1e3),
        windows=[],
        validity=RunValidity.of([]),
    )


@functools.cache
def _benchmarks(path: Path) -> tuple[str, ...]:
    """The benchmarks of a test binary."""
    done = _ask([str(path), "-test.list", "^Benchmark"])
    return tuple(line for line in done.splitlines() if line.startswith("Benchmark"))


@functools.cache
def _version(go: str) -> str:
    return _ask([go, "env", "GOVERSION"]).strip() or "unknown"


def _ask(command: Sequence[str]) -> str:
    try:
        done = supervisor.finished(command, limit_s=_LIST_S)
    except ProcessFailed as error:
        raise NotReady(f"{command[0]} {error}") from error
    if done.code:
        raise NotReady(f"{' '.join(command)}: {done.why()}")
    return done.output.decode(errors="replace")
