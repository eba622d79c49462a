"""A race: one target, one request, every HTTP version, in interleaved blocks.

`run` starts the embedded server when there is no URL, asks which versions the target serves, makes
the runs and judges them. It leaves the folder `runs/<time>-race/` under the state folder, which is
the truth: `manifest.json` (what was asked), `runs/*.json` (one `trilane.run/1` each) and
`comparison.json`.
"""

from __future__ import annotations

import contextlib
import random
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from trilane.lab import blocks, runner
from trilane.lab.analysis import comparison
from trilane.lab.arms import BadArms, arms_for
from trilane.lab.keeping import store
from trilane.lab.keeping.runs import write_result
from trilane.lab.machine import facts as machine
from trilane.lab.machine.meter import Meter
from trilane.lab.model.arm import Arm
from trilane.lab.model.comparison import Comparison
from trilane.lab.model.documents import Json
from trilane.lab.serving import servers

QUESTION = "Which HTTP version is fastest here, and what does each cost?"
PATH = "/hello"


class CannotRace(RuntimeError):
    """The race could not be run; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for, already parsed."""

    url: str | None
    versions: Sequence[str] = ()
    in_flight: int | None = None
    connections: int | None = None
    streams: int | None = None
    baseline: str | None = None
    blocks: int | None = None
    duration_s: float = 1.0
    warmup_s: float = 1.0
    timeout_s: float = 30.0
    seed: int | None = None
    margin: float = 0.05
    threads: int = 1
    pin: bool = True
    congestion_control: str | None = None
    """Of the TCP arms; None chooses what QUIC uses, where the kernel has it."""
    flags: Sequence[str] = ()
    """Flags handed to every `trilane load` unchanged."""
    state: Path | None = None
    command: Sequence[str] = ("trilane", "race")
    """What was typed, to be typed again."""
    load_program: Sequence[str] = runner.PROGRAM
    serve_program: Sequence[str] = servers.PROGRAM


@dataclass(frozen=True, slots=True)
class Watcher:
    """How a race tells what it does."""

    say: Callable[[str], None]
    begin: Callable[[int, float], None]
    """Number of runs, and how long each is expected to take, in seconds."""
    step: Callable[[runner.Entry], None]


@dataclass(frozen=True, slots=True)
class Result:
    """A judged race and where it lies on disk."""

    comparison: Comparison
    folder: Path


def run(wanted: Wanted, watcher: Watcher) -> Result:
    """Run a race."""
    arms = _arms(wanted)
    if wanted.baseline is not None and wanted.baseline not in [arm.name for arm in arms]:
        known = ", ".join(arm.name for arm in arms)
        raise BadArms(f"--baseline {wanted.baseline} is not in this race: choose from {known}")
    pinning = _pinning(wanted)
    folder = store.new_run_folder(store.state_folder(wanted.state), "race")
    try:
        return _run(wanted, watcher, arms, pinning, folder)
    except BaseException:
        # Nothing was measured: leave nothing behind.
        if not (folder / "manifest.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(
    wanted: Wanted, watcher: Watcher, arms: Sequence[Arm], pinning: _Pinning, folder: Path
) -> Result:
    runs, probes = folder / "runs", folder / "probes"
    runs.mkdir()
    probes.mkdir()
    with _target(wanted, pinning, watcher) as target:
        load = runner.Load(
            url=target.url,
            flags=[*target.flags, *wanted.flags],
            duration_s=wanted.duration_s,
            warmup_s=wanted.warmup_s,
            timeout_s=wanted.timeout_s,
            threads=wanted.threads,
            cpus=pinning.client,
            congestion_control=wanted.congestion_control or _like_quic(arms),
            server_pids=target.server_pids,
            program=wanted.load_program,
        )
        watcher.say(f"asking {target.url} which versions it serves")
        present, absent = _present(load, arms, probes)
        race = _plan(wanted, present, absent, target, pinning)
        planned = runner.order(present, race.blocks, race.seed)
        race = replace(race, order=[[entry.arm.name for entry in block] for block in planned])
        _write_manifest(folder, race, "running")
        each = wanted.warmup_s + wanted.duration_s
        watcher.begin(sum(len(block) for block in planned), each)
        outcome = runner.run_blocks(load, planned, runs, target.meter, watcher.step)
    race = replace(race, samples=outcome.samples, interrupted=outcome.interrupted)
    if outcome.stopped:
        raise CannotRace(f"every run of a block failed, the last one with: {outcome.stopped}")
    judged = comparison.compare(race)
    write_result(folder, judged)
    _write_manifest(folder, race, "interrupted" if outcome.interrupted else "complete")
    return Result(judged, folder)


@dataclass(frozen=True, slots=True)
class _Pinning:
    server: str | None
    client: str | None
    text: str


@dataclass(frozen=True, slots=True)
class _Target:
    url: str
    flags: Sequence[str]
    meter: runner.ServerMeter | None
    facts: Json | None
    server_pids: Sequence[int] = ()


def _arms(wanted: Wanted) -> list[Arm]:
    scheme = "https"
    if wanted.url is not None:
        scheme = parse_url(wanted.url).scheme
    elif "h2c" in wanted.versions:
        scheme = "http"
    return arms_for(
        scheme,
        versions=wanted.versions,
        in_flight=wanted.in_flight,
        connections=wanted.connections,
        streams=wanted.streams,
    )


def _like_quic(arms: Sequence[Arm]) -> str | None:
    """CUBIC for the TCP arms of a race with HTTP/3: a BBR default would be another experiment."""
    versions = {arm.version for arm in arms}
    mixed = "h3" in versions and len(versions) > 1
    return "cubic" if mixed and machine.may_use_congestion_control("cubic") else None


def parse_url(url: str) -> SplitResult:
    """Check that a URL can be raced at all."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadArms(f"{url!r} is not a URL: {error}") from error
    if "://" not in url:
        raise BadArms(f"{url!r} has no scheme: try https://{url}")
    if parts.scheme not in ("http", "https"):
        raise BadArms(f"a race needs an http:// or https:// URL, not {parts.scheme}://")
    if not parts.hostname or port == 0:
        raise BadArms(f"{url!r} names no host to connect to")
    return parts


def _pinning(wanted: Wanted) -> _Pinning:
    if not wanted.pin:
        return _Pinning(None, None, "none (--no-pin)")
    if wanted.url is not None:
        return _Pinning(None, None, "none (the server is not ours to pin)")
    split = machine.split_cpus(wanted.threads)
    if split is None:
        return _Pinning(
            None,
            None,
            f"none ({2 * wanted.threads} CPUs needed, {len(machine.usable_cpus())} here)",
        )
    server, client = (",".join(map(str, cpus)) for cpus in split)
    return _Pinning(server, client, f"server on CPU {server}, client on CPU {client}")


@contextlib.contextmanager
def _target(wanted: Wanted, pinning: _Pinning, watcher: Watcher) -> Iterator[_Target]:
    """The URL, or our own server for as long as the race lasts."""
    if wanted.url is not None:
        yield _Target(wanted.url, (), None, None)
        return
    watcher.say("starting the embedded server")
    try:
        with servers.embedded(
            threads=wanted.threads,
            cpus=pinning.server,
            state=wanted.state,
            program=wanted.serve_program,
        ) as server:
            cpus = wanted.threads if pinning.server else len(machine.usable_cpus())
            meter = Meter(server.pid, cpus)
            clear = "h2c" in wanted.versions
            yield _Target(
                (server.http if clear else server.https) + PATH,
                () if clear else ("--cacert", server.cacert),
                meter,
                dict(server.facts),
                (server.pid,),
            )
    except servers.ServerFailed as error:
        raise CannotRace(f"{error}\ntry: trilane serve, or race a URL: trilane race URL") from error


def _present(
    load: runner.Load, arms: Sequence[Arm], folder: Path
) -> tuple[list[Arm], list[tuple[Arm, str]]]:
    """Which arms the target serves, and why not the others."""
    answers = [(arm, runner.probe(load, arm, folder)) for arm in arms]
    present = [arm for arm, problem in answers if problem is None]
    if not present:
        reasons: dict[str, list[str]] = {}
        for arm, problem in answers:
            reasons.setdefault(str(problem), []).append(arm.title)
        if len(reasons) == 1:
            raise CannotRace(next(iter(reasons)))
        raise CannotRace(
            f"{load.url} answers over no version: "
            + "; ".join(f"{' and '.join(titles)}: {why}" for why, titles in reasons.items())
        )
    parts = urlsplit(load.url)
    where = f"{parts.hostname}:{parts.port or {'http': 80, 'https': 443}[parts.scheme]}"
    absent = [
        (arm, f"the server does not speak {arm.title} on {where}: {problem}")
        for arm, problem in answers
        if problem is not None
    ]
    return present, absent


def _plan(
    wanted: Wanted,
    present: Sequence[Arm],
    absent: Sequence[tuple[Arm, str]],
    target: _Target,
    pinning: _Pinning,
) -> comparison.Observed:
    names = [arm.name for arm in present]
    baseline = wanted.baseline if wanted.baseline in names else names[0]
    seed = random.SystemRandom().randrange(1 << 32) if wanted.seed is None else wanted.seed
    repeat = [*wanted.command, *(("--seed", str(seed)) if wanted.seed is None else ())]
    return comparison.Observed(
        question=QUESTION,
        url=target.url,
        command=shlex.join(repeat),
        arms=present,
        baseline=str(baseline),
        samples=(),
        blocks=wanted.blocks or blocks.DEFAULT,
        seed=seed,
        margin=wanted.margin,
        duration_s=wanted.duration_s,
        warmup_s=wanted.warmup_s,
        started_at=store.now(),
        machine={**machine.facts(), "pinning": pinning.text},
        server=target.facts,
        absent=absent,
    )


def _write_manifest(folder: Path, race: comparison.Observed, status: str) -> None:
    manifest: dict[str, Any] = {
        "schema": "trilane.manifest/1",
        "status": status,
        "kind": "race",
        "command": race.command,
        "url": race.url,
        "started_at": race.started_at,
        "seed": race.seed,
        "blocks": race.blocks,
        "baseline": race.baseline,
        "order": [list(block) for block in race.order],
        "machine": dict(race.machine),
        "runs": [
            {"file": s.file, "arm": s.arm, "block": s.block, "slot": s.slot, "problem": s.problem}
            for s in race.samples
        ],
    }
    store.write_json(folder / "manifest.json", manifest)
