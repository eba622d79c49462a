"""Lab results made up from a seed: many arms, sweeps, contenders, broken runs; no network."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from synthetic.records import run, server, validity, with_runs
from trilane.lab.analysis import paired
from trilane.lab.analysis.paired import Observed
from trilane.lab.blocks import shuffled
from trilane.lab.model import measures
from trilane.lab.model.arm import TITLES, Arm
from trilane.lab.model.comparison import Ratio
from trilane.lab.model.contender import Client, ContextSwitches, Process, Wire
from trilane.lab.model.lab import (
    SCHEMA,
    Crossing,
    ExpectedRatio,
    LabResult,
    OurRatio,
    Point,
    Post,
    PostRatio,
    PublishedRatio,
    Question,
    Skipped,
    Swept,
)
from trilane.lab.model.record import SweepValue, Version
from trilane.lab.model.run import Requests, Run
from trilane.lab.model.sample import Sample
from trilane.lab.model.traffic import Latency
from trilane.lab.model.validity import Reason

MACHINE = {"cpu": "Test CPU @ 3 GHz", "cpus_usable": 2, "kernel": "Linux 6.1", "pinning": None}
MEASURES = (
    measures.ELAPSED,
    measures.USER,
    measures.SYSTEM,
    measures.CPU_PERCENT,
    measures.RATE,
    measures.P50,
    measures.P99,
    measures.CLIENT_CPU,
    measures.SERVER_CPU,
    measures.WIRE,
    measures.PEAK_RSS,
)
# Relative time of each strategy at one request, and how it grows with the count.
SIX = {
    "sync": (1.0, 1.0),
    "sync-threads": (0.05, 0.92),
    "sync-processes": (0.16, 0.98),
    "async-threads": (0.06, 0.95),
    "async": (0.02, 0.9),
    "async-processes": (0.12, 0.7),
}


def arm(client: str, version: Version, strategy: str) -> Arm:
    """An arm as the matrix of an experiment makes them."""
    return Arm(
        name=f"{client}-{version}-{strategy}",
        title=f"{client}, {TITLES[version]}, {strategy}",
        version=version,
        client=client,
        strategy=strategy,
        session=True,
        server="twisted-bookstore",
        in_flight=100,
    )


def matrix(count: int) -> list[Arm]:
    """So many arms of several clients, versions and strategies."""
    clients = ("requests", "httpx", "pycurl", "niquests", "aiohttp", "curl_cffi", "trilane")
    strategies = ("serial", "chunks", "multiplexed")
    versions: tuple[Version, ...] = ("h1", "h2", "h3")
    arms = [
        arm(client, version, strategy)
        for strategy in strategies
        for client in clients
        for version in versions
    ]
    return arms[:count]


def contender_run(
    of: Arm, elapsed_s: float, *, count: int = 3000, latency: str = "histogram"
) -> Run:
    """A run of a client under test; `latency` is histogram, quantiles or none."""
    rate = count / elapsed_s
    p50 = elapsed_s / count * (1 if of.strategy == "serial" else 100)
    made = run(of.version, rate=rate, p50=p50, cpu_us=elapsed_s / count * 7e5, histogram=True)
    assert made.latency.service is not None
    service = {
        "histogram": made.latency.service,
        "quantiles": replace(made.latency.service, hdr=None),
        "none": None,
    }[latency]
    return replace(
        made,
        latency=Latency.of_client(service),
        phases=None,
        bytes=None,
        windows=[],
        rate=replace(made.rate, window_s=elapsed_s),
        elapsed_s=elapsed_s,
        requests=Requests.of_client(count, count, 0, {}),
        plan=replace(
            made.plan,
            connections=None,
            streams=None,
            threads=None,
            duration_s=None,
            requests=count,
            strategy=of.strategy,
            session=True,
            in_flight=100,
        ),
        cost=replace(made.cost, busy=[]),
        client=Client(
            name=of.client,
            library=of.client,
            library_version="2.32.5",
            runtime="CPython 3.11.7",
        ),
        process=Process(
            wall_s=elapsed_s + 0.4,
            startup_s=0.3,
            user_s=elapsed_s * 0.6,
            system_s=elapsed_s * 0.1,
            cpu_percent=70.0,
            context_switches=ContextSwitches(voluntary=3000, involuntary=40),
            peak_rss_bytes=48_000_000,
        ),
        wire=Wire(bytes=800 * count, requests=count, interface="lo"),
    )


def observed(
    arms: Sequence[Arm],
    times: dict[str, float],
    *,
    blocks: int = 7,
    seed: int = 1,
    count: int = 3000,
    noise: float = 0.02,
    **changes: Any,
) -> Observed:
    """Arms that take `times` seconds, with log-normal noise and drift per block."""
    chance = random.Random(seed)
    named = {each.name: each for each in arms}
    samples = []
    order = []
    for block in range(blocks):
        drift = math.exp(chance.gauss(0, 0.05))
        places = shuffled([each.name for each in arms], block, chance, aa=True)
        entries = [(named[name], slot) for name, slot in places]
        order.append([each.name for each, _ in entries])
        for position, (each, slot) in enumerate(entries):
            elapsed = times[each.name] * drift * math.exp(chance.gauss(0, noise))
            kind = {"pycurl": "quantiles", "hyper": "none"}.get(each.client, "histogram")
            samples.append(
                Sample(
                    arm=each.name,
                    block=block,
                    slot=slot,
                    position=position,
                    run=contender_run(each, elapsed, count=count, latency=kind),
                    file=f"runs/{block + 1:02}-{position + 1}-{each.name}.json",
                    server=server(300.0, busy=0.4),
                )
            )
    made = Observed(
        question="Which client and strategy fetch 3,000 books soonest?",
        url="https://127.0.0.1:8443/",
        command="trilane lab run bookstore --form fair --seed 7",
        arms=arms,
        baseline=arms[0].name,
        samples=samples,
        blocks=blocks,
        seed=seed,
        margin=0.05,
        duration_s=None,
        warmup_s=0.0,
        started_at="2026-11-20T10:00:00Z",
        machine=MACHINE,
        server={"software": "TwistedWeb/26"},
        order=order,
        count=count,
        measures=MEASURES,
        rank=measures.ELAPSED,
    )
    return Observed(**{**{name: getattr(made, name) for name in made.__slots__}, **changes})


def lab(*points: tuple[SweepValue | None, Observed], **changes: Any) -> LabResult:
    """A lab result of these points."""
    judged = [Point(value=value, comparison=paired.compare(seen)) for value, seen in points]
    last = judged[-1].comparison
    made = LabResult(
        schema=SCHEMA,
        experiment=Question(
            name="bookstore",
            title="3,000 books from a Twisted server",
            form="fair",
            note="Every client with every strategy that it has.",
            question="Does HTTP/2 fetch 3,000 books sooner than HTTP/1.1?",
            hypothesis="Most of the gain is concurrency, not the version.",
            confounders=["the client changes with the version", "serial against batches"],
            source=Post(
                title="Python Twisted and HTTP/2",
                author="a blogger",
                date="2016-07-28",
                claim="HTTP/2 is faster: 3.53 s against 5.84 s.",
            ),
            quick=False,
        ),
        command="trilane lab run bookstore --form fair --seed 7",
        replay="trilane lab replay 20261120-100000-bookstore-fair",
        started_at="2026-11-20T10:00:00Z",
        finished_at="2026-11-20T11:00:00Z",
        interrupted=False,
        seed=7,
        machine=MACHINE,
        sweep=None,
        points=judged,
        crossings=[],
        published=[],
        expect=[],
        skipped=[],
        validity=last.validity,
        verdict=last.verdict,
        answer=last.answer,
    )
    return replace(made, **changes)


@functools.cache
def bookstore(arms: int = 30, seed: int = 1, blocks: int = 7) -> LabResult:
    """Many arms, one broken, one skipped, the post's numbers beside them."""
    chosen = matrix(arms)
    chance = random.Random(seed)
    shape = {"serial": 6.0, "chunks": 2.2, "multiplexed": 1.6}
    times = {each.name: shape[each.strategy] * math.exp(chance.gauss(0, 0.4)) for each in chosen}
    seen = observed(chosen, times, seed=seed, blocks=blocks)
    seen = _spoilt(seen, chosen[-1].name)
    made = lab((None, seen))
    ratios = made.points[0].comparison.ratios
    return replace(
        made,
        published=[
            published("elapsed_s", chosen[4].name, chosen[0].name, 3.53, 5.84, ratios),
            published("user_s", chosen[4].name, chosen[0].name, 1.41, 4.09, ratios),
            published("cpu_percent", "gone", chosen[0].name, 41, 72, []),
        ],
        expect=[
            ExpectedRatio(
                measure="elapsed_s",
                arm=chosen[4].name,
                to=chosen[0].name,
                at=None,
                low=0.1,
                high=0.5,
                ratio=0.9,
                interval=(0.85, 0.95),
                met=False,
            )
        ],
        skipped=[
            Skipped(arm="hyper-h2-chunks", reason="hyper does not import on Python 3.13"),
            Skipped(arm="undici-h2-chunks", reason="node is not installed"),
        ],
    )


def published(
    measure: str, arm: str, to: str, first: float, second: float, ratios: Sequence[Ratio]
) -> PublishedRatio:
    """A row of `published` with ours from `ratios`, if it is there."""
    row = next((r for r in ratios if r.measure == measure and r.arm == arm), None)
    ours = None
    if row is not None and row.ratio and row.low and row.high:
        ours = OurRatio(ratio=row.ratio, low=row.low, high=row.high, finding=row.finding)
    return PublishedRatio(
        measure=measure,
        arm=arm,
        to=to,
        at=None,
        published=PostRatio(
            arm=first,
            to=second,
            ratio=first / second,
            where="listing of user, system and elapsed time",
        ),
        ours=ours,
    )


@functools.cache
def strategies(values: tuple[int, ...] = (100, 1000, 30000)) -> LabResult:
    """A sweep over the count of requests in which two strategies cross."""
    arms = [
        Arm(
            name=name,
            title=name.replace("-", " + "),
            version="h1",
            client="aiohttp" if name.startswith("async") else "requests",
            strategy=name,
            session=False,
            server="trilane",
            in_flight=100,
        )
        for name in SIX
    ]
    points = []
    for value in values:
        times = {
            name: 0.14 * value**growth * first + (0.6 if "processes" in name else 0.05)
            for name, (first, growth) in SIX.items()
        }
        # As in the post: nobody waits an hour for the serial arm.
        chosen = [each for each in arms if value < 10_000 or each.name != "sync"]
        points.append((float(value), observed(chosen, times, count=value)))
    made = lab(*points)
    return replace(
        made,
        experiment=replace(
            made.experiment,
            name="strategies",
            title="Six ways to send requests",
            form="published",
        ),
        sweep=Swept(key="count", unit="requests", values=list(values)),
        crossings=[
            Crossing(
                measure="elapsed_s",
                arm="async",
                to="async-processes",
                at=6200.0,
                low=4800.0,
                high=8900.0,
                unit="requests",
                text="async and async + processes cross at 6,200 requests (95 % interval 4,800 to "
                "8,900)",
            ),
            Crossing(
                measure="elapsed_s",
                arm="sync",
                to="sync-threads",
                at=None,
                low=None,
                high=None,
                unit="requests",
                text="sync and sync + threads do not cross between 100 and 1,000 requests",
            ),
        ],
    )


@functools.cache
def versions() -> LabResult:
    """A lab result of three versions of the engine, with windows and histograms."""
    arms = [
        Arm(
            name=version,
            title=f"trilane, {TITLES[version]}",
            version=version,
            server="kestrel",
            connections=200,
            streams=1,
            in_flight=200,
        )
        for version in ("h1", "h2", "h3")
    ]
    seen = observed(arms, {"h1": 2.0, "h2": 1.5, "h3": 3.0})

    def as_engine(sample: Sample) -> dict[str, object]:
        assert sample.run is not None
        rate = 3000 / sample.run.rate.window_s
        made = run(sample.run.target.version, rate=rate, histogram=True)
        return {name: getattr(made, name) for name in ("phases", "bytes", "windows", "plan")}

    seen = with_runs(seen, as_engine)
    changed = {name: getattr(seen, name) for name in seen.__slots__}
    return lab((None, Observed(**{**changed, "rank": measures.RATE})))


@functools.cache
def empty() -> LabResult:
    """A lab result whose first block was interrupted."""
    chosen = matrix(2)
    seen = observed(chosen, {each.name: 1.0 for each in chosen}, blocks=1)
    changed = {name: getattr(seen, name) for name in seen.__slots__}
    first, second = (each.name for each in chosen)
    asked = [("arm against arm", [(second, first)])]
    return lab(
        (None, Observed(**{**changed, "samples": [], "interrupted": True, "announced": asked}))
    )


def _spoilt(seen: Observed, name: str) -> Observed:
    """With one run of this arm invalid, and one of every block's last arm suspect."""

    def change(sample: Sample) -> dict[str, object]:
        if sample.arm == name and sample.block == 1:
            reason = "3 of 3000 requests failed: closed"
            return {"validity": validity(reason, verdict="invalid")}
        if sample.position == 0 and sample.block == 2:
            return {"validity": validity("steal above 2 %")}
        return {}

    return with_runs(seen, change)


def with_string(result: LabResult, evil: str) -> LabResult:
    """`result` with `evil` wherever a server, a contender or a file can put text."""
    reason = Reason(code="failed", verdict="suspect", text=evil)
    return replace(
        result,
        verdict=f"{result.verdict} {evil}",
        answer=replace(result.said, headline=evil, because=[evil], details=[evil]),
        experiment=replace(
            result.experiment,
            title=evil,
            question=evil,
            hypothesis=evil,
            note=evil,
            confounders=[evil],
        ),
        skipped=[Skipped(arm=evil, reason=evil)],
        points=[
            replace(
                point,
                comparison=replace(
                    point.comparison,
                    arms=[
                        replace(
                            each,
                            title=each.title + evil,
                            validity=replace(each.validity, reasons=[reason]),
                        )
                        for each in point.comparison.arms
                    ],
                    ledger=replace(
                        point.comparison.ledger,
                        rows=[
                            replace(row, values=dict.fromkeys(row.values, evil))
                            for row in point.comparison.ledger.rows
                        ],
                    ),
                ),
            )
            for point in result.points
        ],
    )
