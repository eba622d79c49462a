"""One made-up `trilane.run/1`; imports little, because the fake load program starts often."""

from __future__ import annotations

import copy
import json
import math
import random
from pathlib import Path
from typing import Any

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
    histogram: bool = False,
) -> dict[str, Any]:
    """A run like docs/run-example.json, with these numbers."""
    made: dict[str, Any] = copy.deepcopy(EXAMPLE)
    made["target"].update(version=version, alpn=ALPN[version], server=server)
    ok = int(rate * 2)
    made["requests"].update(started=ok + 64, ok=ok, failed=0, abandoned=64, failures={})
    made["status"] = {"200": ok}
    made["rate"]["requests_per_s"] = rate
    service = {**made["latency"]["service"], "count": ok, "p50": p50, "p99": p50 * 1.8}
    # Base64 of nothing that decodes: enough where nobody looks inside.
    service["hdr"] = _histogram(p50, f"{version}{rate}") if histogram else "AAAA"
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


def _histogram(p50: float, seed: str) -> str:
    from hdrh.histogram import HdrHistogram  # noqa: PLC0415 - takes a while, seldom needed

    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    chance = random.Random(seed)
    for _ in range(2_000):
        histogram.record_value(int(p50 * 1e9 * math.exp(chance.gauss(0, 0.25))))
    encoded: bytes = histogram.encode()
    return encoded.decode()
