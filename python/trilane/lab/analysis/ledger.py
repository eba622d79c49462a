"""The ledger: what must be equal between arms, or be printed because it is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from trilane.lab.analysis import bodies
from trilane.lab.model.comparison import BUILD, Fact, Ledger, LedgerRow
from trilane.lab.model.run import InFlightStage, RateStage, Run, Settings

if TYPE_CHECKING:
    from trilane.lab.analysis.paired import Observed


_Told: TypeAlias = Fact | Sequence[int]


def _settings(settings: Settings | None) -> str | None:
    if not settings:
        return None
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def _sessions(run: Run) -> str | None:
    if run.phases is None:
        return None
    handshakes = run.phases.handshakes
    early = ", early data accepted" if handshakes.early_data else ""
    return f"resumed {'yes' if handshakes.resumed else 'no'}{early}"


def _stage(stage: RateStage) -> str:
    return f"{stage.length_s:g} s to {stage.rate_per_s:g}"


def _in_flight(stage: InFlightStage) -> str:
    return f"{stage.length_s:g} s to {stage.in_flight}"


def _quic(run: Run) -> str | None:
    """What QUIC was asked for beside its defaults."""
    if (asked := run.plan.asked) is None:
        return None
    size, every = asked.quic_initial_packet_size, asked.quic_ack_frequency
    told = [
        *([f"packets of {size} bytes to begin with"] if size is not None else []),
        *([f"an acknowledgement for {every} packets"] if every is not None else []),
        *([] if asked.quic_mtu_discovery else ["no path MTU discovery"]),
        *(["one socket a thread"] if asked.quic_shared_socket else []),
    ]
    return ", ".join(told) or None


def _field_bytes(run: Run) -> int | None:
    """Names and values of a response's fields before compression, on average."""
    responses = sum(run.status.values())
    if run.bytes is None or not responses:
        return None
    return round(run.bytes.header_received_decoded / responses)


def _body_bytes(run: Run) -> int | None:
    """The mean length of bodies; of several URLs the length of the first one's."""
    received = bodies.of_run(run)
    if received.mean_bytes is not None:
        return round(received.mean_bytes)
    return None if received.body is None else received.body.bytes


def _body_crc32(run: Run) -> str | None:
    body = bodies.of_run(run).body
    return None if body is None else body.crc32


def _rate_of_each(run: Run) -> float | None:
    return run.plan.asked.rate_per_connection_per_s if run.plan.asked else None


def _per_connection(run: Run) -> int | None:
    return run.plan.asked.requests_per_connection if run.plan.asked else None


_ROWS: tuple[tuple[str, Callable[[Run], _Told]], ...] = (
    ("version obtained", lambda run: run.target.version),
    ("ALPN", lambda run: run.target.alpn),
    ("TLS version", lambda run: run.target.tls.version if run.target.tls else None),
    ("TLS cipher", lambda run: run.target.tls.cipher if run.target.tls else None),
    ("key exchange group", lambda run: run.target.tls.group if run.target.tls else None),
    ("TLS sessions", _sessions),
    ("peer", lambda run: run.target.peer),
    ("server software", lambda run: run.target.server),
    ("client congestion control", lambda run: run.target.congestion_control),
    ("QUIC", _quic),
    ("MTU (bytes)", lambda run: run.target.mtu),
    ("server settings", lambda run: _settings(run.target.server_settings)),
    ("client settings", lambda run: _settings(run.target.client_settings)),
    ("response status", lambda run: bodies.of_run(run).status),
    ("response fields (bytes)", _field_bytes),
    ("response body (bytes)", _body_bytes),
    ("response body CRC-32", _body_crc32),
    ("request method", lambda run: run.plan.request.method),
    ("request header fields", lambda run: run.plan.request.header_fields),
    ("request header (bytes)", lambda run: run.plan.request.header_bytes),
    ("request body (bytes)", lambda run: run.plan.request.body_bytes),
    ("connections", lambda run: run.plan.connections),
    ("streams per connection", lambda run: run.plan.streams),
    ("requests per connection", _per_connection),
    ("client threads", lambda run: run.plan.threads),
    ("client CPUs", lambda run: run.plan.cpus),
    ("model", lambda run: run.plan.model),
    # That of a search is what it found.
    ("rate asked for (1/s)", lambda run: None if run.capacity else run.plan.rate_per_s),
    ("arrivals", lambda run: run.plan.arrivals),
    ("stages of the rate", lambda run: ", ".join(map(_stage, run.plan.stages)) or None),
    (
        "stages in flight",
        lambda run: ", ".join(map(_in_flight, run.plan.stages_in_flight)) or None,
    ),
    ("rate of each connection (1/s)", _rate_of_each),
    ("client library", lambda run: run.client.library if run.client else None),
    ("client library version", lambda run: run.client.library_version if run.client else None),
    ("client runtime", lambda run: run.client.runtime if run.client else None),
    ("strategy", lambda run: run.plan.strategy),
    ("session kept", lambda run: run.plan.session),
    ("requests", lambda run: run.plan.requests),
    ("most requests in flight", lambda run: run.plan.in_flight),
    ("connections opened", lambda run: run.target.connections),
    ("workload", lambda run: run.plan.workload),
    ("response coding asked for", lambda run: run.plan.request.coding),
    ("client version", lambda run: run.trilane.version),
    ("client revision", lambda run: run.trilane.revision),
    (BUILD, lambda run: run.trilane.profile),
)


def build(observed: Observed) -> Ledger:
    """One row per fact with its value in every arm, and the facts of machine and server."""
    runs = {
        arm.name: [s.run for s in observed.samples if s.arm == arm.name and s.run is not None]
        for arm in observed.arms
    }
    telling = {arm for arm, seen in runs.items() if any(run.phases for run in seen)}
    rows = []
    for name, read in _ROWS:
        values = {arm: _joined([read(run) for run in seen]) for arm, seen in runs.items()}
        if any(value is not None for value in values.values()):
            # What a client under test does not tell is unknown, not different.
            known = [v for arm, v in values.items() if v is not None or arm in telling]
            equal = len({repr(value) for value in known}) == 1
            rows.append(LedgerRow(name=name, equal=equal, values=values))
    if (sent_by := _server_congestion(observed)) is not None:
        rows.append(sent_by)
    return Ledger(rows=rows, machine=dict(observed.machine), server=dict(observed.server or {}))


def _server_congestion(observed: Observed) -> LedgerRow | None:
    """What the server of each arm sends by; None where no arm has a server."""
    known = observed.sent_by
    if not known:
        return None
    values: dict[str, Fact] = {
        arm.name: str(known[arm.name]) for arm in observed.arms if arm.name in known
    }
    equal = len(set(known.values())) == 1
    return LedgerRow(name="server congestion control", equal=equal, values=values)


def _joined(values: Sequence[_Told]) -> Fact:
    """The one value of all runs of an arm, or all of them when they differ."""
    seen = list({repr(value): value for value in values}.values())
    if len(seen) <= 1:
        return _plain(seen[0]) if seen else None
    return " | ".join(str(_plain(value)) for value in seen)


def _plain(value: _Told) -> Fact:
    if value is None or isinstance(value, str | int | float):
        return value
    return ",".join(str(item) for item in value)
