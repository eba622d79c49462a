"""A race as an experiment: one target, one request, every HTTP version.

`experiment` makes of the flags of `trilane race` what `study.run` runs: one form, whose arms are
the versions that the scheme of the URL allows, all with the same number of requests in flight.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from urllib.parse import SplitResult, urlsplit

from trilane.lab.experiment import networks
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.form import Expect, Form, Stats, Sweep
from trilane.lab.experiment.vocabulary import SWEEPS
from trilane.lab.experiment.words import is_not
from trilane.lab.experiment.workload import ArmSpec, Workload, evenly
from trilane.lab.model import manifest
from trilane.lab.model.arm import EMBEDDED, ENGINE, TITLES
from trilane.lab.model.measures import BY_NAME, CAPACITY, P50, P99, RACE, RATE, Measure

_QUESTION = "Which HTTP version is fastest here, and what does each cost?"
_CAPACITY_QUESTION = "Over which HTTP version does it hold at the highest rate?"
# A search is a score of runs: the fewest blocks that can show a difference.
_SEARCH_BLOCKS = 6
FORM = manifest.RACE
"""The one form of a race."""
PATH = "/hello"
"""What the embedded server is asked for."""
_DEFAULT_IN_FLIGHT = 64
# Few connections with many streams is how browsers and service meshes use h2 and h3.
_DEFAULT_CONNECTIONS = 4
_DEFAULT_STREAMS = _DEFAULT_IN_FLIGHT // _DEFAULT_CONNECTIONS
# Responses that a p99 needs (METHOD §2).
_FOR_P99 = 1000
_DEFAULT_S = 1.0
_SEARCH_S = 2.0
# A round-trip time and more for each request in flight: a profile also draws slower networks than
# its median, and a lost packet costs several.
_ROUND_TRIPS_EACH = 2
_LONGEST_DEFAULT_S = 20.0
# Of a handshake over TCP and TLS, and of a window that opens.
_ROUND_TRIPS_OF_WARM_UP = 6
_OF_SCHEME = {"https": ("h1", "h2", "h3"), "http": ("h1", "h2c")}
# gRPC has no HTTP/1.1.
_OF_CALLS = {"https": ("h2", "h3"), "http": ("h2c",)}


class BadRace(ValueError):
    """What was asked for cannot be raced; the message says what to type."""


@dataclass(frozen=True, slots=True)
class Flags:
    """What was asked for, already parsed."""

    url: str | None = None
    """None: the embedded server."""
    versions: Sequence[str] = ()
    """Only these; none: all that the scheme allows."""
    in_flight: Sequence[int] = ()
    """Several values are swept."""
    connections: int | None = None
    streams: int | None = None
    baseline: str | None = None
    duration_s: float | None = None
    """Of a run; None: what the network needs."""
    warmup_s: float | None = None
    """Before a run is measured; None: what the network needs."""
    timeout_s: float = 30.0
    margin: float = 0.05
    threads: int | None = 1
    """Of the client, and of a server that is ours; None: as many as the machines of a cluster have
    processors.
    """
    pin: bool = True
    congestion_control: str | None = None
    """Of the TCP arms; None chooses what QUIC uses, where the kernel has it."""
    rate: float | None = None
    """Requests per second of every arm, in the open model; of a search where it begins."""
    search: Sequence[str] = ()
    """What has to hold: each run is a search for the highest rate at which it does."""
    network: str = ""
    """The emulated network to the server, as `trilane network` takes it; empty for none."""
    pairs: Sequence[str] = ()
    """`h2:h3`: arms that are compared with each other on every measure."""
    fail_if: Sequence[str] = ()
    """`[ARM:]MEASURE>LIMIT`: gates on the ratio of arms to the baseline."""
    load: Sequence[str] = ()
    """Flags handed to every `trilane load` unchanged."""
    grpc: str | None = None
    """`pkg.Service/Method`: gRPC calls instead of requests, with `load` for what goes with them."""


def experiment(flags: Flags) -> Experiment:
    """The race as an experiment; raises `BadRace`."""
    parts = None if flags.url is None else parse_url(flags.url)
    if problem := networks.problem(flags.network):
        raise BadRace(f"--network {problem}")
    clear = "h2c" in flags.versions
    scheme = ("http" if clear else "https") if parts is None else parts.scheme
    shapes = [_shape(each, flags) for each in flags.in_flight or (None,)]
    total, per_connection = shapes[0]
    if len(shapes) > 1:
        # What the arms of the points are made of (`ArmSpec.with_in_flight`).
        per_connection = _DEFAULT_STREAMS
        total = per_connection * (flags.connections or _DEFAULT_CONNECTIONS)
    duration_s = flags.duration_s
    if duration_s is None:
        duration_s = _default_duration_s(flags, min(total for total, _ in shapes))
    # The path of a call is its method, behind that of the URL.
    own = PATH if flags.grpc is None else "/"
    workload = Workload(
        paths=(own if parts is None else path_of(parts),),
        duration_s=duration_s,
        warmup_s=_default_warmup_s(flags) if flags.warmup_s is None else flags.warmup_s,
        timeout_s=flags.timeout_s,
        rate=flags.rate,
        gzip=None,
        flags=(*(("--grpc", flags.grpc) if flags.grpc else ()), *flags.load),
        search=tuple(flags.search),
    )
    server = EMBEDDED if parts is None else f"{parts.scheme}://{parts.netloc}"
    arms = [
        _arm(flags, workload, version, server, total, 1 if version == "h1" else per_connection)
        for version in _versions(scheme, flags.versions, calls=flags.grpc is not None)
    ]
    names = [arm.name for arm in arms]
    baseline = _raced("--baseline", flags.baseline or names[0], names)
    gates = [gate for text in flags.fail_if for gate in _gates(text, baseline, names)]
    shown = (CAPACITY,) if flags.search else RACE
    for gate in gates:
        if flags.search and gate.measure != CAPACITY.name:
            raise BadRace(
                f"--fail-if {gate.measure}: a race with --search measures {CAPACITY.name} alone"
            )
    measures = [measure.name for measure in shown] + [gate.measure for gate in gates]
    form = Form(
        name=FORM,
        baseline=baseline,
        rank=(CAPACITY if flags.search else _rank(flags.rate, duration_s)).name,
        measures=tuple(dict.fromkeys(measures)),
        workload=workload,
        arms=tuple(arms),
        margin=flags.margin,
        pin=flags.pin,
        stats=Stats(blocks=_SEARCH_BLOCKS) if flags.search else Stats(),
        sweep=_sweep(flags.in_flight, names),
        expect=tuple(gates),
        pairs=tuple(_pair(text, names) for text in flags.pairs),
        threads=flags.threads,
        congestion_control=flags.congestion_control,
    )
    return Experiment(
        name=manifest.RACE,
        title=flags.url or "The embedded server",
        question=_CAPACITY_QUESTION if flags.search else _QUESTION,
        forms={FORM: form},
        race=True,
    )


def _default_duration_s(flags: Flags, in_flight: int) -> float:
    """How long a run measures, in seconds, where the user does not say.

    One second, and where an emulated network makes a response take longer, as long as a p99 needs,
    up to 20 s. At a rate that the user gives, the round-trip time has no say in how many responses
    come.
    """
    if flags.search:
        return _SEARCH_S
    if flags.rate is not None:
        return _DEFAULT_S
    waits_s = _ROUND_TRIPS_EACH * _FOR_P99 * networks.rtt_s(flags.network) / in_flight
    return min(max(_DEFAULT_S, math.ceil(waits_s)), _LONGEST_DEFAULT_S)


def _default_warmup_s(flags: Flags) -> float:
    """How long a run warms up, in seconds, where the user does not say."""
    return max(_DEFAULT_S, math.ceil(_ROUND_TRIPS_OF_WARM_UP * networks.rtt_s(flags.network)))


def parse_url(url: str) -> SplitResult:
    """Check that a URL can be raced at all; raises `BadRace`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        authority = url.partition("://")[2].partition("/")[0]
        bare = authority.count(":") > 1 and not {"[", "@"} & set(authority)
        why = "an IPv6 address needs brackets, as in http://[::1]:8080/" if bare else error
        raise BadRace(f"{url!r} is not a URL: {why}") from error
    if "://" not in url:
        raise BadRace(f"{url!r} has no scheme: type {_with_scheme(url)}")
    if parts.scheme not in _OF_SCHEME:
        raise BadRace(f"it takes an http:// or https:// URL, not {parts.scheme}://")
    if not parts.hostname or port == 0:
        raise BadRace(f"{url!r} names no host to connect to")
    if any(character.isspace() for character in url):
        raise BadRace(f"{url!r} is not a URL: write %20 in place of a space")
    return parts


def _with_scheme(text: str) -> str:
    """A URL of what was typed without a scheme; an IPv6 address gets its brackets."""
    host, slash, path = text.partition("/")
    try:
        shown = f"[{ipaddress.IPv6Address(host)}]"
    except ValueError:
        shown = host
    return f"https://{shown}{slash}{path}"


def path_of(parts: SplitResult) -> str:
    """Path and query of a URL, as a request has them."""
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _versions(scheme: str, wanted: Sequence[str], *, calls: bool) -> list[str]:
    """The versions of this scheme, which gRPC `calls` can be made over; `wanted` narrows them."""
    possible = (_OF_CALLS if calls else _OF_SCHEME)[scheme]
    if calls and "h1" in wanted:
        raise BadRace("--h1: gRPC needs HTTP/2 or HTTP/3: leave --h1 out")
    if calls and scheme == "http":
        raise BadRace(
            "--grpc: over http:// there is HTTP/2 alone, and a race needs two versions: give an "
            "https:// URL, or compare runs of trilane load"
        )
    for version in wanted:
        if version not in possible:
            other = "https" if scheme == "http" else "http"
            raise BadRace(f"--{version} needs an {other}:// URL")
    return [version for version in possible if version in wanted or not wanted]


def _arm(
    flags: Flags, workload: Workload, version: str, server: str, total: int, streams: int
) -> ArmSpec:
    """The arm of a race that speaks `version` with `total` requests in flight."""
    clear = "h2c" in flags.versions if flags.url is None else server.startswith("http://")
    return workload.arm(
        ENGINE,
        version,
        "load",
        name=version,
        title=TITLES[version],
        server=server,
        connections=total // streams,
        streams=streams,
        threads=flags.threads or 1,
        network=flags.network,
        tls=version != "h1" or not clear,
    )


def _raced(flag: str, name: str, names: Sequence[str]) -> str:
    if name not in names:
        raise BadRace(f"{flag} {name} is not in this race: choose from {', '.join(names)}")
    return name


def _pair(text: str, names: Sequence[str]) -> tuple[str, str]:
    first, colon, second = text.partition(":")
    if not colon:
        raise BadRace(f"--pair takes two arms such as {names[-1]}:{names[0]}, not {text!r}")
    if first == second:
        raise BadRace(f"--pair {text} compares an arm with itself")
    return _raced("--pair", first, names), _raced("--pair", second, names)


def _gates(text: str, baseline: str, names: Sequence[str]) -> list[Expect]:
    """What an expression as that of `trilane compare --fail-if` forbids, for each of its arms."""
    # It imports what `trilane compare` needs, and few races have one.
    from trilane.lab.analysis import gates  # noqa: PLC0415

    try:
        gate = gates.parse(text)
    except gates.BadGate as error:
        raise BadRace(f"--fail-if {error}") from error
    if gate.measure not in BY_NAME:
        raise BadRace(f"--fail-if {text}: {is_not('measure', gate.measure, BY_NAME)}")
    others = [name for name in names if name != baseline]
    if gate.arm is not None:
        others = [_raced(f"--fail-if {text}:", gate.arm, names)]
    if baseline in others or not others:
        raise BadRace(f"--fail-if {text}: {baseline} is what the other arms are compared with")
    return [
        Expect.forbid(gate.measure, arm, baseline, gate.limit, above=gate.above) for arm in others
    ]


def _rank(rate: float | None, duration_s: float) -> Measure:
    """What decides: at a rate that all arms keep, how long responses take."""
    if rate is None:
        return RATE
    return P99 if rate * duration_s >= _FOR_P99 else P50


def _sweep(values: Sequence[int], names: Sequence[str]) -> Sweep | None:
    """Over the requests in flight, where several numbers of them were asked for."""
    if len(values) < 2:
        return None
    return Sweep("in_flight", tuple(values), SWEEPS["in_flight"], tuple(combinations(names, 2)))


def _shape(in_flight: int | None, flags: Flags) -> tuple[int, int]:
    """Requests in flight, and streams on each multiplexed connection."""
    connections, streams = flags.connections, flags.streams
    for flag, value in (("--in-flight", in_flight), ("-c", connections), ("-m", streams)):
        if value is not None and value < 1:
            raise BadRace(f"{flag} must be at least 1, not {value}")
    if streams is not None and len(flags.in_flight) > 1:
        raise BadRace(
            "-m goes with one number of requests in flight: with several give -c, whose "
            "connections get more streams"
        )
    if connections is not None and streams is not None:
        total = connections * streams
        if in_flight not in (None, total):
            raise BadRace(
                f"-c {connections} times -m {streams} is {total}, not --in-flight {in_flight}: "
                "leave one of the three out"
            )
        return total, streams
    total = _DEFAULT_IN_FLIGHT if in_flight is None else in_flight
    if streams is not None:
        _check_multiple(total, "-m", streams)
        return total, streams
    if connections is not None:
        _check_multiple(total, "-c", connections)
        return total, total // connections
    return total, total // evenly(_DEFAULT_CONNECTIONS, total)


def _check_multiple(total: int, flag: str, step: int) -> None:
    if total % step:
        nearest = max(step, round(total / step) * step)
        raise BadRace(
            f"--in-flight {total} is not a multiple of {flag} {step}: try --in-flight {nearest}"
        )
