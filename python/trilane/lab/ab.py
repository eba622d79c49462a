"""Two revisions of a program as an experiment: `base` and `head`, in blocks, on the same machine.

`experiment` makes of the flags of `trilane ab` what `study.run` runs. What is compared is one of
three (`Flags`): a server, which becomes a server of the lab, whose `server.toml` is written here; a
client, run against the embedded server or a URL; or any command, timed from outside. Base runs
twice in some blocks, as everywhere, which shows the noise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from trilane.lab import race
from trilane.lab.analysis import gates
from trilane.lab.clients.executor import ORIGIN
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.form import Expect, Form, Stats
from trilane.lab.experiment.vocabulary import COMMAND
from trilane.lab.experiment.words import is_not
from trilane.lab.experiment.workload import ArmSpec, Workload
from trilane.lab.model.arm import EMBEDDED, ENGINE
from trilane.lab.model.measures import (
    BY_NAME,
    CLIENT_CPU,
    CPU,
    CPU_PERCENT,
    P50,
    P99,
    PEAK_RSS,
    RATE,
    SERVER_CPU,
    SERVER_PEAK_RSS,
    SYSTEM,
    USER,
    WALL,
    Measure,
)
from trilane.lab.model.revision import MeasuredRevision
from trilane.lab.revisions import Repository, Revision, build
from trilane.lab.storage.store import PRIVATE_FOLDER, write_text
from trilane.lab.targets import target_config

NAME: Final = "ab"
FORM: Final = "revisions"
BASE, HEAD = "base", "head"
LEAST_BLOCKS: Final = 7
"""Fewer interleaved blocks do not tell a change of 8 % from noise."""
TURN_S: Final = 0.02
"""Long for what a change of turns costs, short for what else changes on the machine."""
_BLOCKS: Final = 10
_BUDGET: Final = re.compile(r"(?P<measure>[a-z0-9_.]+)\s*(?P<change>[+-]\d+(?:\.\d+)?%)")
_SECURE: Final = ("h2", "h3")
_URL: Final = "url"
# What searches, repetitions and emulated networks have.
_OF_OTHERS: Final = ("capacity_per_s", "repetition_s", "round_trips")
_OF_PROCESS: Final = (WALL, CPU, USER, SYSTEM, CPU_PERCENT, PEAK_RSS)


class BadAb(ValueError):
    """What was asked for cannot be measured; the message says what to type."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What is compared, and what is measured of it."""

    flag: str
    """The flag that says it."""
    measures: tuple[Measure, ...]
    """What is shown."""
    rank: Measure
    """What decides."""
    names: Mapping[str, str]
    """What a budget calls measures beside their names."""
    known: frozenset[str]
    """The measures that a budget may be about."""


_SIZES: Final = {"wall": WALL.name, "rss": PEAK_RSS.name}
SERVER: Final = Kind(
    flag="--serve",
    measures=(RATE, P50, P99, SERVER_CPU, CLIENT_CPU),
    rank=RATE,
    # What is spent on a request here is the server's, whose revisions they are.
    names={"cpu": SERVER_CPU.name, "rss": SERVER_PEAK_RSS.name},
    known=frozenset(
        name
        for name, measure in BY_NAME.items()
        if measure not in _OF_PROCESS and name not in _OF_OTHERS and not name.endswith("_per_op")
    ),
)
CLIENT: Final = Kind(
    flag="--client",
    measures=(CLIENT_CPU, RATE, WALL, CPU, PEAK_RSS, SERVER_CPU),
    rank=CLIENT_CPU,
    names={"cpu": CLIENT_CPU.name, **_SIZES},
    known=frozenset(each.name for each in (*_OF_PROCESS, RATE, CLIENT_CPU, SERVER_CPU)),
)
"""Against the embedded server, which counts requests."""
PROCESS: Final = Kind(
    flag="--command",
    measures=(WALL, CPU, USER, SYSTEM, PEAK_RSS),
    rank=WALL,
    names={"cpu": CPU.name, **_SIZES},
    known=frozenset(measure.name for measure in _OF_PROCESS),
)
ELSEWHERE: Final = replace(PROCESS, flag="--client and --url")
"""A client whose server does not say what it has counted."""


@dataclass(frozen=True, slots=True)
class Flags:
    """What was asked for, already parsed."""

    base: str
    head: str
    serve: str | None = None
    """The shell command that starts the server, in the working tree of its revision …"""
    client: str | None = None
    """… or the one that asks `{url}` …"""
    command: str | None = None
    """… or any: one of the three."""
    url: str | None = None
    """What a client asks; None: the embedded server."""
    build: str | None = None
    """The shell command that builds it there."""
    build_timeout_s: float = 3600.0
    version: str = "h1"
    tls: bool = False
    path: str = "/"
    ready: str | None = None
    """The path that answers 200 once the server is ready; None: `path`."""
    connections: int | None = None
    streams: int | None = None
    rate: float | None = None
    """Requests per second, in the open model."""
    repeat: int | None = None
    """How often a run runs the command; None: for `duration_s`."""
    prepare: str | None = None
    """A shell command before each time the command is run."""
    duration_s: float = 1.0
    warmup_s: float = 1.0
    turn_s: float | None = None
    """Of a server: the runs of a block take turns of so many seconds; None: one after the other."""
    timeout_s: float = 30.0
    """Limit of a request, or of a command each time it is run."""
    threads: int = 1
    pin: bool = True
    margin: float = 0.05
    bodies_differ: bool = False
    """Responses of both may have other bodies: all but their bytes is compared."""
    budget: Sequence[str] = ()
    """`cpu +5%`, `p99 +10%`, `rate -5%`: how far head may be from base."""
    branch: str | None = None
    """What the branch of head is called; None: as git calls it."""
    load: Sequence[str] = ()
    """Flags handed to every `trilane load` unchanged."""

    @property
    def kind(self) -> Kind:
        """What is compared; raises `BadAb` where it is not one of the three."""
        given = {
            "--serve": self.serve,
            "--client": self.client,
            "--command": self.command,
        }
        said = [flag for flag, value in given.items() if value is not None]
        if not said:
            raise BadAb(
                "what is to be compared? type --serve COMMAND for a server, --client COMMAND for a"
                " client, or --command COMMAND for anything else"
            )
        if len(said) > 1:
            raise BadAb(f"{said[0]} and {said[1]}: one thing is compared at a time")
        if self.client is not None:
            return CLIENT if self.url is None else ELSEWHERE
        return SERVER if self.serve is not None else PROCESS

    @property
    def secure(self) -> bool:
        """Whether requests go over TLS."""
        if self.url is not None:
            return self.url.startswith("https://")
        return self.tls or self.version in _SECURE


@dataclass(frozen=True, slots=True)
class Made:
    """An experiment, and the revisions that it compares."""

    experiment: Experiment
    revisions: Mapping[str, Revision]
    """By the name of their arm."""
    budgets: Sequence[str]
    """What was typed for each of the gates."""

    @property
    def form(self) -> Form:
        """Its one form."""
        return self.experiment.forms[FORM]


def experiment(flags: Flags, folder: Path, state: Path, say: Callable[[str], None]) -> Made:
    """The two revisions as an experiment, once both are built.

    `folder` is in the repository, `state` is the state folder. `say` is told what is built.

    Raises:
        BadAb: what was asked for cannot be measured.
        RevisionFailed: a revision cannot be had (`NoRevision`) or built.
    """
    kind = flags.kind
    budget = [row for text in flags.budget for row in allowed(text, kind)]
    _check(flags)
    counted = [gate.measure for _, gate in budget if "bytes_per" in gate.measure]
    if flags.bodies_differ and counted:
        raise BadAb(f"--budget {counted[0]} and --bodies differ: other bodies have other sizes")
    repository = Repository.at(folder)
    revisions = {BASE: repository.revision(flags.base), HEAD: repository.revision(flags.head)}
    if flags.branch is not None:
        revisions[HEAD] = replace(revisions[HEAD], branch=flags.branch)
    if flags.head == "HEAD" and repository.has_changes():
        say("what is not committed is not measured: HEAD is the last commit")
    trees = {name: repository.checked_out(rev, state) for name, rev in revisions.items()}
    if flags.build is not None:
        for revision in revisions.values():
            place = repository.place(revision, state)
            build(place, revision, flags.build, flags.build_timeout_s, say)
    place = repository.place(revisions[HEAD], state) / f"against-{revisions[BASE].commit[:12]}"
    workload = _workload(flags)
    arms = tuple(
        _served(flags, workload, name, revision, _server(flags, place / name, trees[name]))
        if flags.serve is not None
        else _run(flags, workload, name, revision, trees[name])
        for name, revision in revisions.items()
    )
    # At a rate that both keep, it is what that costs.
    rank = SERVER_CPU if kind is SERVER and flags.rate is not None else kind.rank
    gated = [gate for _, gate in budget]
    measures = [*(measure.name for measure in kind.measures), *(gate.measure for gate in gated)]
    form = Form(
        name=FORM,
        baseline=BASE,
        rank=rank.name,
        measures=tuple(dict.fromkeys(measures)),
        workload=workload,
        arms=arms,
        margin=flags.margin,
        pin=flags.pin,
        stats=Stats(blocks=_BLOCKS, budgets=bool(budget)),
        expect=tuple(gated),
        threads=flags.threads,
        turn_s=flags.turn_s,
        bodies_differ=flags.bodies_differ,
    )
    made = Experiment(
        name=NAME,
        title=f"{repository.folder.name}: {revisions[HEAD].subject}",
        question=f"What does {flags.head} change against {flags.base}?",
        forms={FORM: form},
        revisions=tuple(
            MeasuredRevision(
                arm=name,
                repository=repository.folder.name,
                commit=revision.commit,
                subject=revision.subject,
                branch=revision.branch,
                command=flags.serve or flags.client or flags.command or "",
            )
            for name, revision in revisions.items()
        ),
    )
    return Made(made, revisions, [text for text, _ in budget])


def _check(flags: Flags) -> None:
    if flags.serve is not None:
        _check_server(flags, flags.serve)
    if flags.url is not None and flags.client is None:
        raise BadAb("--url is what a client asks: it goes with --client")
    if flags.client is not None:
        if _URL not in target_config.placeholders(flags.client):
            raise BadAb(
                f"--client {flags.client!r} asks nothing: write {{url}} where the URL belongs"
            )
        if flags.url is not None:
            _check_url(flags, flags.url)
    if flags.command is not None and not flags.command.strip():
        raise BadAb("--command is empty: what is to be timed?")
    if not flags.path.startswith("/"):
        raise BadAb(f"--path {flags.path}: a path begins with a slash")


def _check_url(flags: Flags, url: str) -> None:
    if flags.version != "h1" or flags.tls:
        flag = "tls" if flags.tls else flags.version
        raise BadAb(f"--{flag} and --url: the client decides what it speaks: leave one out")
    try:
        race.parse_url(url)
    except race.BadRace as error:
        raise BadAb(f"--url: {error}") from error


def _check_server(flags: Flags, serve: str) -> None:
    named = set(target_config.placeholders(serve))
    for name in sorted(named - set(target_config.PLACEHOLDERS)):
        problem = is_not("placeholder", name, target_config.PLACEHOLDERS)
        raise BadAb(f"--serve {serve!r}: {problem}")
    if "port" not in named:
        raise BadAb(
            f"--serve {serve!r} says no port: both revisions run at the same time, so write"
            " {port} where a free one belongs"
        )
    if flags.secure and not {"cert", "key"} <= named:
        raise BadAb(
            f"--serve {serve!r}: over TLS the server needs the lab's certificate: write"
            " {cert} and {key} where the PEM files belong"
        )


def _workload(flags: Flags) -> Workload:
    """What every run of both does."""
    if flags.serve is not None:
        return Workload(
            paths=(flags.path,),
            duration_s=flags.duration_s,
            warmup_s=flags.warmup_s,
            timeout_s=flags.timeout_s,
            rate=flags.rate,
            gzip=None,
            flags=tuple(flags.load),
        )
    return Workload(
        kind=COMMAND,
        paths=(),
        count=flags.repeat,
        duration_s=None if flags.repeat is not None else flags.duration_s,
        warmup_s=flags.warmup_s,
        timeout_s=flags.timeout_s,
        gzip=None,
        prepare=flags.prepare,
    )


def _server(flags: Flags, folder: Path, tree: Path) -> str:
    """The folder of the server of one revision, written anew."""
    # What was typed may have secrets.
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    scheme = "https" if flags.secure else "http"
    # The inner shell becomes the server, so that it gets the signals.
    command = ["/bin/sh", "-c", 'cd "$1" && exec /bin/sh -c "$2"', "sh", str(tree)]
    command.append(flags.serve or "")
    lines = (
        f"title = {_text(folder.name)}",
        f"command = [{', '.join(map(_text, command))}]",
        f"versions = {{ {flags.version} = {_text(f'{scheme}://127.0.0.1:{{port}}')} }}",
        f"http_1 = {'true' if flags.version == 'h1' else 'false'}",
        f"ready = {{ path = {_text(flags.ready or flags.path)} }}",
        "[facts]",
        f"tree = {_text(str(tree))}",
    )
    write_text(folder / target_config.FILE, "\n".join(lines) + "\n")
    return str(folder)


def _text(text: str) -> str:
    # A string of JSON is one of TOML.
    return json.dumps(text, ensure_ascii=False)


def _served(
    flags: Flags, workload: Workload, name: str, revision: Revision, server: str
) -> ArmSpec:
    """A revision of a server, under load."""
    single = flags.version == "h1"
    return workload.arm(
        ENGINE,
        flags.version,
        "load",
        name=name,
        title=f"{name} {revision.short}",
        server=server,
        connections=flags.connections or (8 if single else 1),
        streams=flags.streams or (1 if single else 8),
        threads=flags.threads,
    )


def _run(flags: Flags, workload: Workload, name: str, revision: Revision, tree: Path) -> ArmSpec:
    """A revision of a client or of any command, timed from outside."""
    command, server, path = flags.command or "", EMBEDDED, flags.path
    if flags.client is not None:
        if flags.url is not None:
            parts = race.parse_url(flags.url)
            server, path = f"{parts.scheme}://{parts.netloc}", race.path_of(parts)
        asked = f"{{{ORIGIN}}}{path}"
        command = target_config.fill(flags.client, {_URL: asked})
    return workload.arm(
        COMMAND,
        flags.version,
        name=name,
        title=f"{name} {revision.short}",
        command=command,
        folder=str(tree.absolute()),
        server=server,
        tls=flags.secure or flags.version != "h1",
    )


def allowed(text: str, kind: Kind = SERVER) -> list[tuple[str, Expect]]:
    """What a budget such as `cpu +5%, p99 +10%` allows: each part of it as typed, and its gate."""
    rows = []
    for part in (part.strip() for part in text.split(",")):
        match = _BUDGET.fullmatch(part)
        if match is None:
            raise BadAb(f"--budget {part!r}: write MEASURE +N%, such as 'cpu +5%, p99 +10%'")
        grows = match["change"].startswith("+")
        measure = kind.names.get(match["measure"], match["measure"])
        gate = gates.parse(f"{measure}{'>' if grows else '<'}{match['change']}")
        if gate.measure not in kind.known:
            problem = _unknown(match["measure"], gate.measure, kind)
            raise BadAb(f"--budget {part!r}: {problem}")
        if grows == (BY_NAME[gate.measure].better == "higher"):
            other = part.replace("+", "-") if grows else part.replace("-", "+")
            raise BadAb(f"--budget {part!r} would forbid what is better: write {other!r}")
        rows.append((part, Expect.forbid(gate.measure, HEAD, BASE, gate.limit, above=gate.above)))
    return rows


def _unknown(typed: str, measure: str, kind: Kind) -> str:
    """Why a budget cannot be about a measure, which was typed so."""
    known = [*kind.names, *sorted(kind.known)]
    if measure in BY_NAME or typed in _SIZES:
        return f"it is not measured with {kind.flag}: choose from {', '.join(known)}"
    return is_not("measure", typed, known)
