"""Runs and races made up from a seed, for tests that need numbers but no network."""

from __future__ import annotations

import copy
import json
import math
import random
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram

from trilane.lab.arms import Arm, arms_for
from trilane.lab.comparison import Race, Sample

EXAMPLE = json.loads(
    (Path(__file__).parents[2] / "docs" / "run-example.json").read_text(encoding="utf-8")
)
ALPN = {"h1": "http/1.1", "h2": "h2", "h2c": None, "h3": "h3"}


def run(
    version: str = "h2",
    *,
    rate: float = 50_000.0,
    p50: float = 0.0012,
    cpu_us: float = 14.0,
    busy: float = 0.7,
    sent: int = 5_000_000,
    verdict: str = "valid",
    reasons: tuple[str, ...] = (),
    server: str = "trilane/0.1.0",
) -> dict[str, Any]:
    """One `trilane.run/1` like docs/run-example.json, with these numbers."""
    made: dict[str, Any] = copy.deepcopy(EXAMPLE)
    made["target"].update(version=version, alpn=ALPN[version], server=server)
    ok = int(rate * 2)
    made["requests"].update(started=ok + 64, ok=ok, failed=0, abandoned=64, failures={})
    made["status"] = {"200": ok}
    made["rate"]["requests_per_s"] = rate
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    chance = random.Random(f"{version}{rate}")
    for _ in range(2_000):
        histogram.record_value(int(p50 * 1e9 * math.exp(chance.gauss(0, 0.25))))
    service = {
        **made["latency"]["service"],
        "count": ok,
        "p50": p50,
        "p99": p50 * 1.8,
        "hdr": histogram.encode().decode(),
    }
    made["latency"] = {"service": service, "response": None, "lag": None, "ttfb": service}
    phase = made["phases"]["dns"]
    made["phases"].update(connect=phase, tls=phase, quic=None)
    made["bytes"].update(sent=sent, received=sent * 2)
    made["cost"].update(cpu_us_per_request=cpu_us, busy=[busy])
    made["windows"] = [
        {"start_s": float(s), "ok": ok // 2, "failed": 0, "p50": p50, "p99": p50 * 1.8}
        for s in range(2)
    ]
    made["validity"] = {"verdict": verdict, "reasons": list(reasons), "bound": "server"}
    return made


def race(
    factors: dict[str, float],
    *,
    blocks: int = 7,
    seed: int = 1,
    noise: float = 0.01,
    busy: float = 0.7,
    **changes: Any,
) -> Race:
    """A race whose arms reach `factors` times 50,000 requests/s, with log-normal noise."""
    chance = random.Random(seed)
    scheme = "http" if "h2c" in factors else "https"
    arms = [arm for arm in arms_for(scheme) if arm.name in factors]
    baseline = arms[0].name
    samples = []
    order = []
    for block in range(blocks):
        drift = math.exp(chance.gauss(0, 0.05))
        entries = [(arm, 0) for arm in arms] + ([(arms[0], 1)] if len(arms) > 1 else [])
        chance.shuffle(entries)
        order.append([arm.name for arm, _ in entries])
        for position, (arm, slot) in enumerate(entries):
            speed = factors[arm.name] * drift * math.exp(chance.gauss(0, noise))
            samples.append(_sample(arm, block, slot, position, speed, busy))
    made = Race(
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
    return Race(**{**{name: getattr(made, name) for name in made.__slots__}, **changes})


def _sample(arm: Arm, block: int, slot: int, position: int, speed: float, busy: float) -> Sample:
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
        ),
        file=f"runs/{block + 1:02}-{position + 1}-{arm.name}.json",
        server={"cpu_us_per_request": 9.0 / speed, "busy": 0.6, "cpu_s": 0.9},
    )
