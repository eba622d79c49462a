"""Single runs of load generators set side by side: `trilane.beside/1` (docs/beside.schema.json).

A run is one value (METHOD §3): its requests depend on each other, so that no interval follows from
however many of them. So nothing is claimed of single runs; they are shown in the same units, with
the one rate that all tools allow (ok requests by time) and what each tool means by its latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from trilane.lab.analysis import sides
from trilane.lab.analysis.headline import fitting, joined
from trilane.lab.generators import samples
from trilane.lab.model.answer import Answer
from trilane.lab.model.beside import SCHEMA, Answers, Beside, OwnRate, Told
from trilane.lab.model.comparison import Shown
from trilane.lab.model.measures import BY_NAME, counted
from trilane.lab.model.run import Run
from trilane.lab.model.traffic import QUANTILES
from trilane.lab.model.validity import Validity
from trilane.lab.storage.runs import BadRun

_LATENCIES = ("mean_s", "p50", "p90", "p95", "p99", "p99_9")
MEASURES = (
    BY_NAME["requests_per_s"].shown,
    Shown(name="min", label="shortest latency", unit="s", better="lower"),
    *(
        BY_NAME[name].shown
        if name in BY_NAME
        else Shown(name=name, label=f"{name} latency", unit="s", better="lower")
        for name in _LATENCIES
    ),
    Shown(name="max", label="longest latency", unit="s", better="lower"),
    BY_NAME["client_cpu_us_per_request"].shown,
    BY_NAME["server_cpu_us_per_request"].shown,
)


def files(a: str, b: str) -> tuple[list[Told], list[Told]] | None:
    """The runs of both sides where they can only be shown side by side; else None.

    That is where both name files, a side has one alone, and not all files are ours: for these,
    `sides.load` says what to do.

    Raises:
        BadRun: a file is none of a load generator that is known.
    """
    paths = [[Path(word) for word in sides.words_of(text)] for text in (a, b)]
    if min(len(side) for side in paths) > 1 or not all(p.is_file() for s in paths for p in s):
        return None
    found = [[(path, sides.run_file(path)) for path in side] for side in paths]
    runs = [run for side in found for _, run in side]
    if None in runs or all(isinstance(run, Run) for run in runs):
        return None
    if len({path.resolve() for side in paths for path in side}) < len(runs):
        raise BadRun(f"{a} and {b} name a file twice")
    first, second = (
        [_own(run, path) if isinstance(run, Run) else run for path, run in side if run is not None]
        for side in found
    )
    return first, second


def beside(a: Sequence[Told], b: Sequence[Told], command: str, measures: Sequence[str]) -> Beside:
    """The document; `measures` are the names of those to show, all where empty.

    Raises:
        BadRun: there is no such measure, or no file tells one of them.
    """
    told = [*a, *b]
    known = [m for m in MEASURES if any(each.value(m.name) is not None for each in told)]
    names = [measure.name for measure in known]
    for asked in measures:
        if asked not in names:
            raise BadRun(f"{asked!r} is no measure that one of the files tells: {', '.join(names)}")
    reasons = [
        structs.replace(reason, text=f"{each.file}: {reason.text}")
        for each in told
        for reason in each.requests.reasons()
    ]
    validity = Validity.of(reasons)
    answer = _answer(a, b, validity)
    return Beside(
        schema=SCHEMA,
        command=command,
        measures=[m for m in known if not measures or m.name in measures],
        a=list(a),
        b=list(b),
        validity=validity,
        verdict=answer.line,
        answer=answer,
    )


def _answer(a: Sequence[Told], b: Sequence[Told], validity: Validity) -> Answer:
    single = dict.fromkeys(side[0].tool for side in (a, b) if len(side) == 1)
    of = joined([f"{tool}'s" for tool in single])
    told = Answer.of_sentence(
        fitting(
            f"No winner: {of} side is a single run, and a single run has no spread.",
            "No winner: a single run has no spread.",
        ),
        validity,
    )
    details = ["Four runs or more of each, made in turns and named with commas, have intervals."]
    if len({each.tool for each in (*a, *b)}) > 1:
        details.append("The tools do not measure the same latency.")
    return structs.replace(told, details=details)


def _own(run: Run, path: Path) -> Told:
    """A run of ours, told as those of others are."""
    requests, latency, target = run.requests, counted(run), run.target
    due = run.latency.response is not None
    return Told(
        file=str(path),
        tool="trilane",
        tool_version=run.trilane.version,
        format=run.schema,
        target=target.url,
        duration_s=run.rate.window_s,
        requests=Answers(
            ok=requests.ok,
            failed=requests.failed,
            unfinished=requests.abandoned,
            status=dict(run.status),
            errors={kind: failure.count for kind, failure in requests.failures.items()},
        ),
        requests_per_s=run.rate.requests_per_s,
        own_rate=OwnRate(per_s=run.rate.requests_per_s, counts="requests that were ok"),
        latency=None
        if latency is None
        else samples.told(
            latency.count,
            {name: getattr(latency, name) for name in ("min", "mean", "stdev", "max")}
            | {name: getattr(latency, name) for name in QUANTILES},
        ),
        latency_runs=(
            f"from {'when a request was due' if due else 'its first byte'} to the last byte of the "
            "response, without the making of connections; of requests that were ok, and of timeouts"
        ),
        bytes_received=None if run.bytes is None else run.bytes.body_received,
        bytes_are=None if run.bytes is None else "bodies",
        client_cpu_us_per_request=run.cost.cpu_us_per_request,
        server_cpu_us_per_request=run.cost.server_cpu_us_per_request,
        unsaid=["the machine"],
    )
