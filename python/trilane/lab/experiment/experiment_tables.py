"""The tables of an experiment file, key by key.

A field has the name that its value has in the experiment; `name=` is the key in the file where that
is another one. What a type says is refused as the file is read. What only the notes for editors and
`docs/experiment.schema.json` say (`extra_json_schema`) is decided by `check`, which also sees the
experiments that are built in code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, field

from trilane.lab.experiment.check import NAME, NAME_TOLD
from trilane.lab.experiment.check_arm import BENCHMARK, FOLDER, PLACE, URL
from trilane.lab.experiment.check_workload import METHOD
from trilane.lab.experiment.experiment import SCHEMA
from trilane.lab.experiment.factors import COMPARISON
from trilane.lab.experiment.form import Stats
from trilane.lab.experiment.schema_conditions import ARM, FORM, SWEEP, WORKLOAD
from trilane.lab.experiment.toml_document import Text
from trilane.lab.experiment.vocabulary import (
    ENGINE_FLAGS,
    GO_FLAGS,
    GRPC_MODES,
    KINDS,
    MEASURES,
    MESSAGES,
    SERVER_FLAGS,
    STRATEGIES,
    SWEEPS,
    TITLES,
    VERSIONS,
)
from trilane.lab.experiment.workload import Number, Workload
from trilane.lab.experiment.written import Header, Rate, Time


def _note(description: str, **schema: Any) -> Meta:
    """What a key means, and what its value is like beside its type."""
    return Meta(description=description, extra_json_schema=schema)


def _like(**schema: Any) -> Meta:
    return Meta(extra_json_schema=schema)


def _words(words: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"const": word, "description": means} for word, means in words.items()]


_SET = {"minItems": 1, "uniqueItems": True}
_STATS, _WORK = Stats(), Workload()
_REPETITION = "how often the whole workload is done"
_TO = "the arm it is divided by"
_AT = "value of the sweep; only where there is one"

Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Point: TypeAlias = Annotated[
    str | int | float,
    _note(
        "a value of the sweep: a number, a time where the rtt is swept, or settings of the network",
        minimum=0,
    ),
]
Name: TypeAlias = Annotated[str, _note(NAME_TOLD, pattern=f"^{NAME.pattern}$")]
Measure: TypeAlias = Annotated[str, _like(enum=list(MEASURES))]
Client: TypeAlias = Annotated[
    str,
    _note(
        "a client of contenders/, trilane for the native engine, or go-bench for a benchmark of "
        "Go's",
        pattern=f"^{FOLDER.pattern}$",
    ),
]
Server: TypeAlias = Annotated[
    str,
    _note(
        "a folder of servers/, embedded, or a URL",
        pattern=f"^({FOLDER.pattern}|{URL.pattern}|{PLACE.pattern})$",
        examples=["embedded", "twisted-bookstore", "https://www.example.org"],
    ),
]
Version: TypeAlias = Annotated[str, _like(oneOf=_words({each: TITLES[each] for each in VERSIONS}))]
Strategy: TypeAlias = Annotated[str, _like(oneOf=_words(STRATEGIES))]
Message: TypeAlias = Annotated[str, _like(oneOf=_words(MESSAGES))]
Network: TypeAlias = Annotated[
    str,
    _note(
        "as `trilane network` takes it",
        minLength=1,
        examples=["rtt=40ms", "rtt=40ms,rate=20mbit,loss=1%"],
    ),
]
Path: TypeAlias = Annotated[str, _like(pattern="^/")]
Points: TypeAlias = Annotated[tuple[Point, ...], _like(**_SET)]
Arms: TypeAlias = Annotated[tuple[Name, ...], _like(**_SET)]
Pair: TypeAlias = Annotated[
    tuple[Name, Name], Meta(extra={"takes": 'pairs of arms, such as ["one", "other"]'})
]


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A table: every key is one of its fields."""


class SourceTable(_Table, frozen=True, kw_only=True):
    """The post that it repeats."""

    title: Annotated[Text, _note("its title, or how it begins")]
    author: Annotated[Text | None, _note("who wrote it")] = None
    date: Annotated[Text | None, _note("when: 2016, 2016-07 or 2016-07-28")] = None
    claim: Annotated[Text | None, _note("what it claimed, in one sentence")] = None


class StatsTable(_Table, frozen=True, kw_only=True):
    """How often the arms run."""

    blocks: Annotated[int, _note("each holds every arm once, in random order", minimum=1)] = (
        _STATS.blocks
    )
    publish_blocks: Annotated[int, _note("blocks of --publish", minimum=1)] = _STATS.publish_blocks
    aa: Annotated[
        bool, _note("one arm runs twice in every block, the arms in turn, which shows the noise")
    ] = _STATS.aa
    until_decided: Annotated[
        bool,
        _note(
            "each point gets blocks until it is decided, three times blocks at most, as with "
            "--until-decided"
        ),
    ] = _STATS.until_decided
    within_s: Annotated[
        Time | None,
        _note(
            "with until_decided: after its first look a point gets more blocks only as far as this "
            "time lasts for all; no limit where missing"
        ),
    ] = field(default=None, name="within")


class WorkloadTable(_Table, frozen=True, kw_only=True):
    """The requests, the same for every arm."""

    kind: Annotated[str, _like(oneOf=_words(KINDS))] = _WORK.kind
    body: Annotated[Text | None, _note("body of every request")] = None
    body_bytes: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        _note("instead of a body: this many bytes, JSON where content_type says so"),
    ] = None
    body_file: Annotated[bool, _note("the body of body_bytes comes from a file, in pieces")] = (
        _WORK.body_file
    )
    content_type: Annotated[Text | None, _note("media type of the body")] = None
    duration_s: Annotated[
        Time | None, _note("urls, call, benchmark: length instead of a count")
    ] = field(default=None, name="duration")
    warmup: Annotated[
        str | int | None,
        _note(
            "before the clock starts: requests, or with a duration a time",
            minimum=0,
            pattern=Time.SCHEMA["pattern"],
        ),
    ] = None
    paths: Annotated[
        tuple[Path, ...] | None,
        _note(
            f"urls: taken in turn, {', '.join(_WORK.paths)} where missing; "
            "{body_bytes} stands for the value of a sweep over body_bytes",
            minItems=1,
        ),
    ] = None
    index: Annotated[Path | None, _note("index: path of the JSON list of ids")] = None
    item: Annotated[
        str | None, _note("index: path of one item; {id} is replaced", pattern=r"^/.*\{id\}")
    ] = None
    start: Annotated[Path | None, _note("crawl: the first page")] = None
    count: Annotated[
        int | None, _note("requests; index: ids at most; crawl: pages at most", minimum=1)
    ] = None
    method: Annotated[str, _note("method of every request", pattern=f"^{METHOD.pattern}$")] = (
        _WORK.method
    )
    discard: Annotated[
        bool, _note("urls: bodies of responses are read in pieces, counted and thrown away")
    ] = _WORK.discard
    check_body: Annotated[
        bool, _note("the native engine: every body that differs from the first of its path fails")
    ] = _WORK.check_body
    headers: Annotated[tuple[Header, ...], _note("header fields, each 'name: value'")] = ()
    gzip: Annotated[bool, _note("ask for gzip, and decode it")] = bool(_WORK.gzip)
    in_flight: Annotated[
        int | None, _note("requests under way at once, for arms that do not say", minimum=1)
    ] = None
    repeat: Annotated[int, _note(_REPETITION, minimum=1)] = _WORK.repeat
    repeat_processes: Annotated[
        int, _note("processes of the pool that does the repetitions; 0 for none", minimum=0)
    ] = _WORK.repeat_processes
    rate: Annotated[
        Rate | None,
        _note("open model: requests per second of every arm, whatever the responses do"),
    ] = None
    timeout_s: Annotated[
        Time | None, _note(f"limit of one request; {_WORK.timeout_s:g}s where it is missing")
    ] = field(default=None, name="timeout")


class _ArmsTable(_Table, frozen=True, kw_only=True):
    """What an arm may set, and a matrix for all its arms."""

    network: Annotated[Network | None, _note("the emulated network, instead of the form's")] = None
    in_flight: Annotated[
        Positive | None,
        _note("requests under way at once; with processes_asyncio in each process"),
    ] = None
    connections: Annotated[Positive | None, _note("connections that are kept open")] = None
    streams: Annotated[Positive | None, _note("load: streams on each connection")] = None
    threads: Annotated[
        Positive | None,
        _note("threads, asyncio_threads: size of the pool; load: threads of the native engine"),
    ] = None
    processes: Annotated[
        Positive | None, _note("processes: size of the pool; processes_asyncio: jobs")
    ] = None
    chunk: Annotated[Positive | None, _note("chunks: requests in a chunk")] = None
    gzip: Annotated[
        bool | None, _note("ask for gzip, and decode it, instead of the workload's")
    ] = None
    headers: Annotated[tuple[Header, ...] | None, _note("instead of those of the workload")] = None
    rate: Annotated[Rate | None, _note("load: requests per second, instead of the workload's")] = (
        None
    )
    at: Annotated[
        Points | None, _note("values of the sweep at which it runs; without it at all")
    ] = None
    congestion_control: Annotated[
        str | None,
        _note(
            "on a network: how both ends send, over TCP what the kernel has, over HTTP/3 cubic, "
            "reno or bbr",
            minLength=1,
            examples=["cubic", "bbr"],
        ),
    ] = None
    flags: Annotated[
        tuple[str, ...],
        _note(
            "load: further flags of `trilane load`, each with its value behind it: "
            f"{', '.join(ENGINE_FLAGS)}",
            examples=[["--new-connections", "--resume", "off"]],
        ),
    ] = ()
    server_flags: Annotated[
        tuple[str, ...],
        _note(
            "server embedded: further flags of `trilane serve`, each with its value behind it: "
            f"{', '.join(SERVER_FLAGS)}; client go-bench: of `go test -c`: {', '.join(GO_FLAGS)}",
            examples=[["--retry"]],
        ),
    ] = ()
    mode: Annotated[
        str | None,
        _note(
            "call with message grpc: what the client does for every message; wire where it is "
            "missing",
            oneOf=_words(GRPC_MODES),
        ),
    ] = None
    tls: Annotated[bool, _note("false: HTTP/1.1 without TLS, from where the server speaks h2c")] = (
        True
    )


class ArmTable(_ArmsTable, frozen=True, kw_only=True):
    """One column: client, version, strategy, session, server, network."""

    client: Client
    version: Version
    strategy: Strategy = "serial"
    name: Annotated[
        Name | None, _note("made of client, version and strategy where it is missing")
    ] = None
    title: Annotated[Text | None, _note("its name for people")] = None
    session: Annotated[bool, _note("whether connections are kept between requests")] = True
    server: Annotated[
        Server | None,
        _note(
            "a folder of servers/ or a URL, instead of the form's; with go-bench the folder that "
            "is the Go module"
        ),
    ] = None
    message: Annotated[Message | None, _note("call: what its messages are written as")] = None
    benchmark: Annotated[
        str | None,
        _note(
            "go-bench: name of the benchmark, parts joined by /",
            pattern=f"^{BENCHMARK.pattern}$",
        ),
    ] = None


class ExcludedTable(_Table, frozen=True, kw_only=True):
    """The arms that have, for every key, its value or one of its values."""

    client: Annotated[Client | tuple[Client, ...] | None, _like(minItems=1)] = None
    server: Annotated[Server | tuple[Server, ...] | None, _like(minItems=1)] = None
    version: Annotated[Version | tuple[Version, ...] | None, _like(minItems=1)] = None
    strategy: Annotated[Strategy | tuple[Strategy, ...] | None, _like(minItems=1)] = None
    session: bool | None = None
    message: Annotated[Message | tuple[Message, ...] | None, _like(minItems=1)] = None


class MatrixTable(_ArmsTable, frozen=True, kw_only=True):
    """Arms of every client, version, strategy, session, server and message, but the excluded."""

    client: Annotated[tuple[Client, ...], _like(**_SET)]
    version: Annotated[tuple[Version, ...], _like(**_SET)]
    strategy: Annotated[tuple[Strategy, ...], _like(**_SET)]
    session: Annotated[
        tuple[bool, ...], _note("whether connections are kept between requests", **_SET)
    ] = (True,)
    server: Annotated[
        Server | tuple[Server, ...] | None,
        _note("a folder of servers/ or a URL, instead of the form's, or several", **_SET),
    ] = None
    message: Annotated[
        tuple[Message, ...] | None, _note("call: what messages are written as", **_SET)
    ] = None
    exclude: Annotated[
        tuple[Annotated[ExcludedTable, _like(minProperties=1)], ...],
        _note("arms left out: those that have all of a row's values"),
    ] = ()


class SweepTable(_Table, frozen=True, kw_only=True):
    """A quantity that is varied; the arms are compared at each value."""

    key: Annotated[str, _note("what is varied", enum=list(SWEEPS))]
    values: Annotated[Points, _note("its values")]
    unit: Annotated[Text | None, _note("unit of the values")] = None
    crossings: Annotated[
        tuple[Annotated[Pair, _like(uniqueItems=True)], ...],
        _note("pairs of arms of which one may overtake the other, on the measure that ranks"),
    ] = ()


class PublishedTable(_Table, frozen=True, kw_only=True):
    """Two numbers of the post, of which the ratio is set beside ours."""

    values: Annotated[
        tuple[
            Annotated[Number, _like(exclusiveMinimum=0)],
            Annotated[Number, _like(exclusiveMinimum=0)],
        ],
        Meta(
            description="the post's number of arm, then of to, in one unit",
            extra={"takes": "two numbers: the post's of arm, and of to"},
        ),
    ]
    measure: Measure
    arm: Name
    to: Annotated[Name, _note(_TO)]
    at: Annotated[Point | None, _note(_AT)] = None
    where: Annotated[Text | None, _note("where in the post they stand")] = None


class ExpectTable(_Table, frozen=True, kw_only=True):
    """A gate: the ratio of arm to the other lies from low to high, or the run ends with 3."""

    measure: Measure
    arm: Name
    to: Annotated[Name, _note(_TO)]
    low: Annotated[Number, _note("lowest ratio", minimum=0)]
    high: Annotated[Number, _note("highest ratio", exclusiveMinimum=0)]
    at: Annotated[Point | None, _note(_AT)] = None


class AnswerTable(_Table, frozen=True, kw_only=True):
    """What answers the question, and so stands first in the verdict: one of both keys."""

    compare: Annotated[
        Pair | str | None,
        _note(
            "a pair of arms, or one of the form's comparisons by factor",
            examples=[["one", "other"], "version within client"],
        ),
        # The schema has the same in its own words.
        Meta(
            extra={
                "takes": 'a pair of arms, such as ["one", "other"], '
                'or a comparison by factor, such as "version within client"'
            }
        ),
    ] = None
    measure: Annotated[
        Measure | None, _note("what it is of each arm, where none of them is to win")
    ] = None


class QuickTable(_Table, frozen=True, kw_only=True):
    """What --quick changes, so that all runs take less than two minutes on two cores."""

    blocks: Annotated[int | None, _note("blocks", minimum=1)] = None
    count: Annotated[int | None, _note("requests", minimum=1)] = None
    values: Annotated[
        Points | None, _note("values of the sweep; when one is new, every arm runs at all of them")
    ] = None
    arms: Annotated[Arms | None, _note("only these arms")] = None
    duration_s: Annotated[Time | None, _note("length of a run")] = field(
        default=None, name="duration"
    )
    network: Annotated[Network | None, _note("the emulated network of the arms that have one")] = (
        None
    )
    repeat: Annotated[int | None, _note(_REPETITION, minimum=1)] = None


class FormTable(_Table, frozen=True, kw_only=True):
    """Arms that do one workload."""

    note: Annotated[
        Text | None, _note("what this form does, and what had to be different from the post")
    ] = None
    baseline: Annotated[
        Name, _note("the arm that ratios refer to; where it does not run, the first that does")
    ]
    rank: Annotated[Measure, _note("the measure that decides")]
    measures: Annotated[
        tuple[Measure, ...], _note("what is shown and compared, in this order", **_SET)
    ]
    server: Server = "embedded"
    network: Annotated[
        Network | None,
        _note("the emulated network between client and server; none where missing"),
    ] = None
    margin: Annotated[
        Number, _note("what counts as no difference", exclusiveMinimum=0, exclusiveMaximum=1)
    ] = 0.05
    pin: Annotated[bool, _note("client and server get CPUs of their own")] = False
    awake: Annotated[
        bool, _note("processors are kept from halting between requests, where that is allowed")
    ] = False
    turn_s: Annotated[
        Time | None,
        _note(
            "the runs of a block take turns of this length, each with a server process of its own; "
            "one run follows the other where missing"
        ),
    ] = field(default=None, name="turn")
    stats: StatsTable = field(default_factory=StatsTable)
    workload: Annotated[WorkloadTable, _like(**WORKLOAD)]
    sweep: Annotated[SweepTable | None, _like(**SWEEP)] = None
    arms: Annotated[tuple[Annotated[ArmTable, _like(**ARM)], ...], _note("arms one by one")] = ()
    matrix: Annotated[
        MatrixTable | tuple[MatrixTable, ...] | None,
        _note("one matrix or several, beside or instead of arms", minItems=1),
    ] = None
    published: Annotated[tuple[PublishedTable, ...], _note("numbers of the post")] = ()
    expect: Annotated[tuple[ExpectTable, ...], _note("gates")] = ()
    pairs: Annotated[
        tuple[Pair, ...],
        _note("pairs of arms that are compared with each other, beside all with the baseline"),
    ] = ()
    compare: Annotated[
        tuple[Annotated[str, _like(pattern=COMPARISON)], ...],
        _note(
            "comparisons by factor, each of the arms that differ in nothing else: "
            "version within client; strategy within client and version",
            uniqueItems=True,
            examples=[["version within client", "client within version and strategy"]],
        ),
    ] = ()
    answer: Annotated[
        AnswerTable | None,
        Meta(
            description="the one comparison that answers the question, and so stands first in the "
            "verdict; where missing all arms with the baseline, or of a few each with each",
            extra_json_schema={"minProperties": 1, "maxProperties": 1},
        ),
    ] = None
    quick: QuickTable | None = None


class ClusterTable(_Table, frozen=True, kw_only=True):
    """The machines of a cluster that it runs on, for --cluster."""

    clients: Annotated[
        tuple[Name, ...],
        _note("labels that each machine has that makes load; all machines where missing", **_SET),
    ] = ()
    server: Annotated[
        Name | None,
        _note(
            "a label of the one machine that has the servers; where missing they are on the "
            "machine where the command is typed"
        ),
    ] = None
    workers: Annotated[
        Positive | None, _note("machines that make load; all that have the labels where missing")
    ] = None


class ExperimentTable(_Table, frozen=True, kw_only=True):
    """An experiment: a question, and the forms in which it is put to clients and servers."""

    schema: Annotated[str, _note("name and version of this format", const=SCHEMA)]
    name: Annotated[Name, _note("the name of the file without .toml")]
    title: Annotated[Text, _note("what it is, in a few words")]
    question: Annotated[Text, _note("what it answers")]
    hypothesis: Annotated[Text | None, _note("what is expected, and why")] = None
    confounders: Annotated[
        tuple[str, ...], _note("what else differed between the arms in the published form")
    ] = ()
    source: SourceTable | None = None
    group: Annotated[
        Text | None,
        _note("the heading under which trilane lab list has it", examples=["Clients", "Networks"]),
    ] = None
    cluster: ClusterTable | None = None
    forms: Annotated[
        dict[Name, Annotated[FormTable, _like(**FORM)]],
        _note(
            "the forms by name: published as in the post, fair without its confounders",
            minProperties=1,
            propertyNames={"pattern": f"^{NAME.pattern}$"},
        ),
    ] = field(default_factory=dict)


ExperimentFile: TypeAlias = Annotated[ExperimentTable, _like(required=["forms"])]
