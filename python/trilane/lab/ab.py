"""Two revisions of a server as an experiment: `base` and `head`, in blocks, on the same machine.

`experiment` makes of the flags of `trilane ab` what `study.run` runs. Each revision is a server of
the lab, whose `server.toml` is written here; base runs twice in some blocks, as everywhere, which
shows the noise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trilane.lab.analysis import gates
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.form import Expect, Form, Stats
from trilane.lab.experiment.words import is_not
from trilane.lab.experiment.workload import ArmSpec, Workload
from trilane.lab.model.arm import ENGINE
from trilane.lab.model.measures import BY_NAME, CLIENT_CPU, P50, P99, RATE, SERVER_CPU, Measure
from trilane.lab.revisions import Repository, Revision, build
from trilane.lab.storage.store import write_text
from trilane.lab.targets import target_config

NAME: Final = "ab"
FORM: Final = "revisions"
BASE, HEAD = "base", "head"
LEAST_BLOCKS: Final = 7
"""Fewer interleaved blocks do not tell a change of 8 % from noise."""
_BLOCKS: Final = 10
_MEASURES: Final = (RATE, P50, P99, SERVER_CPU, CLIENT_CPU)
_BUDGET: Final = re.compile(r"(?P<measure>[a-z0-9_.]+)\s*(?P<change>[+-]\d+(?:\.\d+)?%)")
# What is spent on a request here is the server's, whose revisions they are.
_OURS: Final = {"cpu": SERVER_CPU.name}
_SECURE: Final = ("h2", "h3")


class BadAb(ValueError):
    """What was asked for cannot be measured; the message says what to type."""


@dataclass(frozen=True, slots=True)
class Flags:
    """What was asked for, already parsed."""

    base: str
    head: str
    serve: str
    """The shell command that starts the server, in the working tree of its revision."""
    build: str | None = None
    """The shell command that builds it there."""
    build_timeout_s: float = 3600.0
    version: str = "h1"
    tls: bool = False
    path: str = "/"
    ready: str | None = None
    """The path that answers 200 once it is ready; None: `path`."""
    connections: int | None = None
    streams: int | None = None
    rate: float | None = None
    """Requests per second, in the open model."""
    duration_s: float = 1.0
    warmup_s: float = 1.0
    timeout_s: float = 30.0
    threads: int = 1
    pin: bool = True
    margin: float = 0.05
    budget: Sequence[str] = ()
    """`cpu +5%`, `p99 +10%`, `rate -5%`: how far head may be from base."""
    load: Sequence[str] = ()
    """Flags handed to every `trilane load` unchanged."""


def experiment(flags: Flags, folder: Path, state: Path, say: Callable[[str], None]) -> Experiment:
    """The two revisions as an experiment, once both are built.

    `folder` is in the repository, `state` is the state folder. `say` is told what is built.

    Raises:
        BadAb: what was asked for cannot be measured.
        RevisionFailed: a revision cannot be had (`NoRevision`) or built.
    """
    budget = [row for text in flags.budget for row in allowed(text)]
    secure = flags.tls or flags.version in _SECURE
    _check(flags, secure=secure)
    repository = Repository.at(folder)
    revisions = {BASE: repository.revision(flags.base), HEAD: repository.revision(flags.head)}
    if flags.head == "HEAD" and repository.has_changes():
        say("what is not committed is not measured: HEAD is the last commit")
    trees = {name: repository.checked_out(rev, state) for name, rev in revisions.items()}
    if flags.build is not None:
        for revision in revisions.values():
            place = repository.place(revision, state)
            build(place, revision, flags.build, flags.build_timeout_s, say)
    place = repository.place(revisions[HEAD], state) / f"against-{revisions[BASE].commit[:12]}"
    workload = Workload(
        paths=(flags.path,),
        duration_s=flags.duration_s,
        warmup_s=flags.warmup_s,
        timeout_s=flags.timeout_s,
        rate=flags.rate,
        gzip=None,
        flags=tuple(flags.load),
    )
    arms = tuple(
        _arm(flags, workload, name, revision, _server(flags, place / name, trees[name], secure))
        for name, revision in revisions.items()
    )
    rank = _rank(flags)
    form = Form(
        name=FORM,
        baseline=BASE,
        rank=rank.name,
        measures=tuple(dict.fromkeys([*(m.name for m in _MEASURES), *(b.measure for b in budget)])),
        workload=workload,
        arms=arms,
        margin=flags.margin,
        pin=flags.pin,
        stats=Stats(blocks=_BLOCKS, budgets=bool(budget)),
        expect=tuple(budget),
        threads=flags.threads,
    )
    return Experiment(
        name=NAME,
        title=f"{repository.folder.name}: {revisions[HEAD].subject}",
        question=f"What does {flags.head} change against {flags.base}?",
        forms={FORM: form},
    )


def _check(flags: Flags, *, secure: bool) -> None:
    named = set(target_config.placeholders(flags.serve))
    for name in sorted(named - set(target_config.PLACEHOLDERS)):
        problem = is_not("placeholder", name, target_config.PLACEHOLDERS)
        raise BadAb(f"--serve {flags.serve!r}: {problem}")
    if "port" not in named:
        raise BadAb(
            f"--serve {flags.serve!r} says no port: both revisions run at the same time, so write"
            " {port} where a free one belongs"
        )
    if secure and not {"cert", "key"} <= named:
        raise BadAb(
            f"--serve {flags.serve!r}: over TLS the server needs the lab's certificate: write"
            " {cert} and {key} where the PEM files belong"
        )
    if not flags.path.startswith("/"):
        raise BadAb(f"--path {flags.path}: a path begins with a slash")


def _server(flags: Flags, folder: Path, tree: Path, secure: bool) -> str:
    """The folder of the server of one revision, written anew."""
    folder.mkdir(parents=True, exist_ok=True)
    scheme = "https" if secure else "http"
    # The inner shell becomes the server, so that it gets the signals.
    command = ["/bin/sh", "-c", 'cd "$1" && exec /bin/sh -c "$2"', "sh", str(tree), flags.serve]
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


def _arm(flags: Flags, workload: Workload, name: str, revision: Revision, server: str) -> ArmSpec:
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


def _rank(flags: Flags) -> Measure:
    """What decides: at a rate that both keep, what it costs."""
    return RATE if flags.rate is None else SERVER_CPU


def allowed(text: str) -> list[Expect]:
    """What a budget such as `cpu +5%, p99 +10%` allows."""
    rows = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _BUDGET.fullmatch(part)
        if match is None:
            raise BadAb(f"--budget {part!r}: write MEASURE +N%, such as 'cpu +5%, p99 +10%'")
        grows = match["change"].startswith("+")
        measure = _OURS.get(match["measure"], match["measure"])
        gate = gates.parse(f"{measure}{'>' if grows else '<'}{match['change']}")
        if gate.measure not in BY_NAME:
            raise BadAb(f"--budget {part!r}: {is_not('measure', match['measure'], BY_NAME)}")
        if grows == (BY_NAME[gate.measure].better == "higher"):
            other = part.replace("+", "-") if grows else part.replace("-", "+")
            raise BadAb(f"--budget {part!r} would forbid what is better: write {other!r}")
        rows.append(Expect.forbid(gate.measure, HEAD, BASE, gate.limit, above=gate.above))
    return rows
