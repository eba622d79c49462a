"""The arms of a race: one per HTTP version, all with the same number of requests in flight."""

from __future__ import annotations

from collections.abc import Sequence

from trilane.lab.model.arm import Arm
from trilane.lab.model.record import Version

VERSIONS: tuple[Version, ...] = ("h1", "h2", "h2c", "h3")
TITLES: dict[str, str] = {
    "h1": "HTTP/1.1",
    "h2": "HTTP/2",
    "h2c": "HTTP/2 (cleartext)",
    "h3": "HTTP/3",
}
DEFAULT_IN_FLIGHT = 64
# Few connections with many streams is how browsers and service meshes use h2 and h3.
_DEFAULT_CONNECTIONS = 4
_OF_SCHEME: dict[str, tuple[Version, ...]] = {"https": ("h1", "h2", "h3"), "http": ("h1", "h2c")}


class BadArms(ValueError):
    """The arms asked for cannot be raced; the message says what to type."""


def race_arm(version: Version, connections: int, streams: int) -> Arm:
    """The arm of a race that speaks `version` on `connections` x `streams`."""
    return Arm(
        name=version,
        title=TITLES[version],
        version=version,
        connections=connections,
        streams=streams,
        in_flight=connections * streams,
    )


def arms_for(
    scheme: str,
    *,
    versions: Sequence[str] = (),
    in_flight: int | None = None,
    connections: int | None = None,
    streams: int | None = None,
) -> list[Arm]:
    """Arms for a URL of this scheme; `versions` narrows them."""
    possible = _OF_SCHEME.get(scheme)
    if possible is None:
        raise BadArms(f"a race needs an http:// or https:// URL, not {scheme}://")
    for version in versions:
        if version not in possible:
            other = "https" if scheme == "http" else "http"
            raise BadArms(f"--{version} needs an {other}:// URL")
    chosen = [version for version in possible if version in versions or not versions]
    total, per_connection = _split(in_flight, connections, streams)
    return [
        race_arm(version, total, 1)
        if version == "h1"
        else race_arm(version, total // per_connection, per_connection)
        for version in chosen
    ]


def _split(in_flight: int | None, connections: int | None, streams: int | None) -> tuple[int, int]:
    """Requests in flight, and streams on each multiplexed connection."""
    for flag, value in (("--in-flight", in_flight), ("-c", connections), ("-m", streams)):
        if value is not None and value < 1:
            raise BadArms(f"{flag} must be at least 1, not {value}")
    if connections is not None and streams is not None:
        total = connections * streams
        if in_flight not in (None, total):
            raise BadArms(
                f"-c {connections} times -m {streams} is {total}, not --in-flight {in_flight}: "
                "leave one of the three out"
            )
        return total, streams
    total = DEFAULT_IN_FLIGHT if in_flight is None else in_flight
    if streams is not None:
        _check_multiple(total, "-m", streams)
        return total, streams
    if connections is not None:
        _check_multiple(total, "-c", connections)
        return total, total // connections
    count = next(count for count in range(_DEFAULT_CONNECTIONS, 0, -1) if total % count == 0)
    return total, total // count


def _check_multiple(total: int, flag: str, step: int) -> None:
    if total % step:
        nearest = max(step, round(total / step) * step)
        raise BadArms(
            f"--in-flight {total} is no multiple of {flag} {step}: try --in-flight {nearest}"
        )
