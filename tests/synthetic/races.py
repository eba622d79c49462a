"""Races made up from a seed, for tests that need numbers but no network."""

from __future__ import annotations

import math
import random
from typing import Any

from synthetic.records import run, server
from trilane.lab.analysis.paired import Observed
from trilane.lab.blocks import shuffled
from trilane.lab.model.arm import TITLES, VERSIONS, Arm
from trilane.lab.model.record import Version
from trilane.lab.model.sample import Sample


def arm(version: Version) -> Arm:
    """The arm of a race that speaks `version` with 64 requests in flight."""
    connections, streams = (64, 1) if version == "h1" else (4, 16)
    return Arm(
        name=version,
        title=TITLES[version],
        version=version,
        session=True,
        server="embedded",
        connections=connections,
        streams=streams,
        in_flight=64,
    )


def race(
    factors: dict[str, float],
    *,
    blocks: int = 7,
    seed: int = 1,
    noise: float = 0.01,
    busy: float = 0.7,
    histogram: bool = False,
    **changes: Any,
) -> Observed:
    """A race whose arms reach `factors` times 50,000 requests/s, with log-normal noise."""
    chance = random.Random(seed)
    arms = [arm(version) for version in VERSIONS if version in factors]
    named = {each.name: each for each in arms}
    baseline = arms[0].name
    samples = []
    order = []
    for block in range(blocks):
        drift = math.exp(chance.gauss(0, 0.05))
        places = shuffled([each.name for each in arms], block, chance, aa=True)
        entries = [(named[name], slot) for name, slot in places]
        order.append([each.name for each, _ in entries])
        for position, (each, slot) in enumerate(entries):
            speed = factors[each.name] * drift * math.exp(chance.gauss(0, noise))
            samples.append(_sample(each, block, slot, position, speed, busy, histogram))
    made = Observed(
        question="Which HTTP version is fastest here?",
        url="https://127.0.0.1:8443/hello",
        command="trilane race --seed 1",
        arms=arms,
        baseline=baseline,
        samples=samples,
        blocks=blocks,
        seed=seed,
        margin=0.05,
        duration_s=2.0,
        warmup_s=1.0,
        started_at="2026-11-20T10:00:00Z",
        machine={"cpu": "Test CPU", "cpus_usable": 2, "kernel": "Linux 6", "pinning": "client 1"},
        server={"software": "trilane/0.1.0", "cpus": "0"},
        order=order,
    )
    return Observed(**{**{name: getattr(made, name) for name in made.__slots__}, **changes})


def _sample(
    arm: Arm, block: int, slot: int, position: int, speed: float, busy: float, histogram: bool
) -> Sample:
    return Sample(
        arm=arm.name,
        block=block,
        slot=slot,
        position=position,
        run=run(
            arm.version,
            rate=50_000 * speed,
            p50=64 / (50_000 * speed),
            cpu_us=14.0 / speed,
            busy=busy,
            sent=int(5_000_000 * speed),
            histogram=histogram,
        ),
        file=f"runs/{block + 1:02}-{position + 1}-{arm.name}.json",
        server=server(9.0 / speed),
    )
