"""One made-up `trilane.run/1`; imports little, because the fake load program starts often."""

from __future__ import annotations

import math
import random
from typing import Any

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
    """A run of two seconds with these numbers; tests hold it against docs/run.schema.json."""
    ok = int(rate * 2)
    tcp = version != "h3"
    connections, streams = (64, 1) if version == "h1" else (4, 16)
    # Base64 of nothing that decodes: enough where nobody looks inside.
    blob = _histogram(p50, f"{version}{rate}") if histogram else "AAAA"
    service = {**_summary(ok, p50), "hdr": blob}
    connect = _summary(connections, 0.0004)
    return {
        "schema": "trilane.run/1",
        "trilane": {"version": "0.1.0", "revision": "0123abc", "profile": "release"},
        "started_at": "2026-11-20T10:00:00Z",
        "interrupted": False,
        "target": {
            "url": "https://127.0.0.1:8443/hello",
            "version": version,
            "versions": {version: connections},
            "alpn": ALPN[version],
            "tls": {
                "version": "TLSv1.3",
                "cipher": "TLS13_AES_128_GCM_SHA256",
                "group": "X25519MLKEM768",
            },
            "peer": "127.0.0.1:8443",
            "congestion_control": "cubic",
            "mtu": 65535 if tcp else 1452,
            "server": server,
            "server_settings": {} if version == "h1" else {"max_concurrent_streams": 200},
            "client_settings": {} if version == "h1" else {"initial_window_size": 16_777_216},
            "body": {"bytes": 11, "crc32": "0d4a1185"},
        },
        "plan": {
            "connections": connections,
            "streams": streams,
            "threads": 1,
            "model": "closed",
            "rate_per_s": None,
            "requests": None,
            "duration_s": 2.0,
            "warmup_s": 1.0,
            "timeout_s": 30.0,
            "cpus": [1],
            "request": {
                "urls": 1,
                "method": "GET",
                "header_fields": 3,
                "header_bytes": 90,
                "body_bytes": 0,
            },
        },
        "requests": {
            "started": ok + 64,
            "ok": ok,
            "failed": 0,
            "abandoned": 64,
            "retried": 0,
            "unsent": 0,
            "censored": 0,
            "early_responses": {"count": 0, "body_bytes": 0, "body_sent": 0},
            "failures": {},
            "warmup": {"started": ok // 2, "ok": ok // 2, "failed": 0},
        },
        "status": {"200": ok},
        "rate": {"requests_per_s": rate, "goodput_bytes_per_s": rate * 11, "window_s": 2.0},
        "latency": {
            "service": service,
            "response": None,
            "late": None,
            "queued": None,
            "ttfb": service,
            "failed": None,
        },
        "connections": None,
        "phases": {
            "dns": _summary(1, 0.0),
            "connect": connect if tcp else None,
            "tls": connect if tcp else None,
            "quic": None if tcp else connect,
            "handshakes": {"full": connections, "resumed": 0, "early_data": 0},
            "early_data": None,
            "measured": None,
        },
        "bytes": {
            "sent": sent,
            "received": sent * 2,
            "header_sent_encoded": 10,
            "header_sent_decoded": 100,
            "header_received_encoded": 10,
            "header_received_decoded": 100,
            "body_sent": 0,
            "body_received": 11 * ok,
            "datagrams_sent": None if tcp else 10,
            "datagrams_received": None if tcp else 10,
            "segments_sent": 10 if tcp else None,
            "segments_received": 10 if tcp else None,
            "retransmits": 0,
            "rtt_s": 0.00005,
        },
        "cost": {
            "user_s": 0.5,
            "system_s": 0.9,
            "cpu_us_per_request": cpu_us,
            "server_cpu_us_per_request": None,
            "context_switches": {"voluntary": 10, "involuntary": 3},
            "syscalls": 12_345,
            "peak_rss_bytes": 12_000_000,
            "busy": [busy],
        },
        "windows": [
            {
                "start_s": number / 10,
                "length_s": 0.1,
                "ok": ok // 20,
                "failed": 0,
                "p50": p50,
                "p99": p50 * 1.8,
                "open": connections,
                "cpu_s": 0.07,
                "server_cpu_s": None,
            }
            for number in range(20)
        ],
        "validity": {
            "verdict": verdict,
            "reasons": [reason(text, verdict) for text in reasons],
            "bound": "server_or_network",
        },
    }


def reason(text: str, verdict: str) -> dict[str, Any]:
    """What speaks against a run, in these words."""
    code = "failed" if verdict == "invalid" else "worker_busy"
    return {"code": code, "verdict": verdict, "numbers": {}, "text": text}


def _summary(count: int, p50: float) -> dict[str, Any]:
    factors = {"p50": 1.0, "p75": 1.2, "p90": 1.4, "p95": 1.5, "p99": 1.8, "p99_9": 2.5}
    return {
        "count": count,
        "min": p50 / 2,
        "mean": p50,
        "stdev": p50 / 4,
        **{name: p50 * factor for name, factor in factors.items()},
        "p99_99": None,
        "max": p50 * 4,
    }


def _histogram(p50: float, seed: str) -> str:
    from hdrh.histogram import HdrHistogram  # noqa: PLC0415 - takes a while, seldom needed

    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    chance = random.Random(seed)
    # Each value stands for ten requests: recording is what takes the time.
    for _ in range(200):
        histogram.record_value(int(p50 * 1e9 * math.exp(chance.gauss(0, 0.25))), 10)
    encoded: bytes = histogram.encode()
    return encoded.decode()
