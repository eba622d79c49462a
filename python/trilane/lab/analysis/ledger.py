"""The ledger: what must be equal between arms, or be printed because it is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from trilane.lab.analysis.measures import Json

if TYPE_CHECKING:
    from trilane.lab.analysis.comparison import Observed


def _of(*path: str) -> Callable[[Json], Any]:
    def read(run: Json) -> Any:
        value: Any = run
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    return read


def _settings(side: str) -> Callable[[Json], Any]:
    read = _of("target", side)

    def text(run: Json) -> str | None:
        settings = read(run)
        if not isinstance(settings, Mapping) or not settings:
            return None
        return ", ".join(f"{key} {value}" for key, value in settings.items())

    return text


def _validated(run: Json) -> str | None:
    if run["phases"] is None:
        return None
    handshakes = run["phases"]["handshakes"]
    return f"resumed {'yes' if handshakes.get('resumed') else 'no'}"


_ROWS: tuple[tuple[str, Callable[[Json], Any]], ...] = (
    ("version obtained", _of("target", "version")),
    ("ALPN", _of("target", "alpn")),
    ("TLS version", _of("target", "tls", "version")),
    ("TLS cipher", _of("target", "tls", "cipher")),
    ("key exchange group", _of("target", "tls", "group")),
    ("TLS sessions", _validated),
    ("peer", _of("target", "peer")),
    ("server software", _of("target", "server")),
    ("client congestion control", _of("target", "congestion_control")),
    ("MTU (bytes)", _of("target", "mtu")),
    ("server settings", _settings("server_settings")),
    ("client settings", _settings("client_settings")),
    ("response body (bytes)", _of("target", "body", "bytes")),
    ("response body CRC-32", _of("target", "body", "crc32")),
    ("request method", _of("plan", "request", "method")),
    ("request header fields", _of("plan", "request", "header_fields")),
    ("request header (bytes)", _of("plan", "request", "header_bytes")),
    ("request body (bytes)", _of("plan", "request", "body_bytes")),
    ("connections", _of("plan", "connections")),
    ("streams per connection", _of("plan", "streams")),
    ("client threads", _of("plan", "threads")),
    ("client CPUs", _of("plan", "cpus")),
    ("model", _of("plan", "model")),
    ("client library", _of("client", "library")),
    ("client library version", _of("client", "library_version")),
    ("client runtime", _of("client", "runtime")),
    ("strategy", _of("plan", "strategy")),
    ("session kept", _of("plan", "session")),
    ("requests", _of("plan", "requests")),
    ("most requests in flight", _of("plan", "in_flight")),
    ("connections opened", _of("target", "connections")),
    ("workload", _of("plan", "workload")),
    ("response coding asked for", _of("plan", "request", "coding")),
    ("client version", _of("trilane", "version")),
    ("client revision", _of("trilane", "revision")),
    ("client build profile", _of("trilane", "profile")),
)


def build(observed: Observed) -> Json:
    """One row per fact with its value in every arm, and the facts of machine and server."""
    runs = {
        arm.name: [s.run for s in observed.samples if s.arm == arm.name and s.run is not None]
        for arm in observed.arms
    }
    telling = {arm for arm, seen in runs.items() if any(run["phases"] for run in seen)}
    rows = []
    for name, read in _ROWS:
        values = {arm: _joined([read(run) for run in seen]) for arm, seen in runs.items()}
        if any(value is not None for value in values.values()):
            # What a client under test does not tell is unknown, not different.
            known = [v for arm, v in values.items() if v is not None or arm in telling]
            equal = len({repr(value) for value in known}) == 1
            rows.append({"name": name, "equal": equal, "values": values})
    return {"rows": rows, "machine": dict(observed.machine), "server": dict(observed.server or {})}


def _joined(values: list[Any]) -> Any:
    """The one value of all runs of an arm, or all of them when they differ."""
    seen = list({repr(value): value for value in values}.values())
    if len(seen) <= 1:
        return _plain(seen[0]) if seen else None
    return " | ".join(str(_plain(value)) for value in seen)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return value
