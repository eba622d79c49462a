"""HTTPS records (RFC 9460): where an origin is served, by which versions, before anything is asked.

No I/O: who finds the records is `resolver=`, and the pools connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

MOST_ALIASES: Final = 8
"""Records of AliasMode that are followed: the RFC wants a limit, and names none."""
MOST_ENDPOINTS: Final = 8
"""Records of one name that are tried."""
PATIENCE_S: Final = 3.0
"""How long an endpoint is waited for that has others behind it; those that refuse fail at once."""
_VERSIONS: Final = {"h3": "h3", "h2": "h2", "http/1.1": "h1"}
_KNOWN: Final = frozenset({"alpn", "no-default-alpn", "port", "ipv4hint", "ipv6hint"})
"""Keys that are understood (RFC 9460 §14.3.2), and `ech` where it is used."""
_ECH: Final = "ech"


class HTTPSRecord(NamedTuple):
    """One record, as a resolver gives it; the fields that have defaults are its parameters."""

    priority: int = 1
    """The smallest is tried first; 0 is AliasMode: `target` is asked for in place of the host."""
    target: str = ""
    """The host that serves the origin; "" or "." is the origin's own."""
    alpn: Sequence[str] = ()
    """Protocols as ALPN names them: `h3`, `h2`; `http/1.1` is spoken unless `no_default_alpn`."""
    no_default_alpn: bool = False
    port: int | None = None
    """The port; None for that of the URL."""
    ipv4hint: Sequence[str] = ()
    """Addresses of the target, for as long as it has not been resolved."""
    ipv6hint: Sequence[str] = ()
    ech: bytes | None = None
    """An ECHConfigList."""
    mandatory: Sequence[str] = ()
    """Keys that a client has to understand, or else leave the record alone (RFC 9460 §8)."""

    @property
    def is_alias(self) -> bool:
        """Whether it only says where to look."""
        return self.priority == 0

    @property
    def host(self) -> str:
        """The target's name; "" where it is the origin's own host."""
        return self.target.rstrip(".")

    def versions(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """Those of the wanted versions that are spoken there."""
        spoken = {_VERSIONS.get(name) for name in self.alpn}
        if not self.no_default_alpn:
            spoken.add("h1")
        return tuple(version for version in wanted if version in spoken)

    def is_for(self, wanted: Iterable[str], *, ech: bool = False) -> bool:
        """Whether a client that speaks these versions can use it (RFC 9460 §2.4.3, §8).

        ech: whether it uses Encrypted Client Hello, which is offered over TCP alone.
        """
        known = _KNOWN | {_ECH} if ech else _KNOWN
        understood = all(key.lower() in known for key in self.mandatory)
        return understood and not self.is_alias and bool(self.spoken(wanted, ech=ech))

    def spoken(self, wanted: Iterable[str], *, ech: bool) -> tuple[str, ...]:
        """`versions`, without HTTP/3 where the hello is to be encrypted."""
        spoken = self.versions(wanted)
        if not ech or self.ech is None:
            return spoken
        return tuple(version for version in spoken if version != "h3")


def usable(
    records: Iterable[HTTPSRecord], wanted: Sequence[str], *, ech: bool = False
) -> list[HTTPSRecord]:
    """The records that a client can use, in the order in which they are tried."""
    found = [record for record in records if record.is_for(wanted, ech=ech)]
    if len({record.priority for record in found}) < len(found):
        from random import shuffle  # noqa: PLC0415 - most have one

        # RFC 9460 §2.4.1: among equals chance decides, so that all of them are used.
        shuffle(found)
        found.sort(key=lambda record: record.priority)
    return found[:MOST_ENDPOINTS]


def share(left: float | None, *, others: int) -> float | None:
    """Of the seconds that are left, how many a place may take that has others behind it."""
    if not others:
        return left
    return PATIENCE_S if left is None else min(left / 2, PATIENCE_S)
