"""Alternative services (RFC 7838): where else an origin can be had, by which protocol.

No I/O and no clock: instants come in as seconds of one monotonic clock. Not thread-safe: the owner
of a `Memory` holds a lock around each call, or lives on one event loop.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol

from trilane.client._flow.origins import Origin, split

Scope = Literal["same-host", "any", "off"]
"""Which alternatives are used: those on the origin's own host, any, or none."""

DAY_S: Final = 86400.0
"""How long an alternative is fresh unless `ma` says otherwise (RFC 7838 §3.1)."""
FIRST_BACK_OFF_S: Final = 300.0
"""How long a broken alternative is left alone; it doubles each time again, as in Chromium."""
LONGEST_BACK_OFF_S: Final = 2 * DAY_S
REPEATED_S: Final = 60.0
"""A field that says the same again within this time is passed over: it comes with each response."""
LONGEST_FIELD: Final = 8192
"""Characters of one `alt-svc` that are read; what follows is passed over."""
MOST_ALTERNATIVES: Final = 16
"""Alternatives that are read from one response."""
MOST_ORIGINS: Final = 1024
"""Origins that are remembered; the one that was used longest ago is forgotten first."""

# `protocol-id = "authority"` and its parameters (RFC 7838 §3), after a list's comma.
_ENTRY: Final = re.compile(
    r"""[\s,]*(?P<protocol>[!#$%&'*+.^_`|~0-9A-Za-z-]+)="(?P<where>(?:[^"\\]|\\.)*)"
        (?P<parameters>(?:\s*;\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+=(?:"(?:[^"\\]|\\.)*"|[^\s;,"]+))*)
        \s*(?=,|$)""",
    re.VERBOSE,
)
_PARAMETER: Final = re.compile(r';\s*([^=;\s]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]+))')


class Alternative(NamedTuple):
    """One way to reach an origin."""

    protocol: str
    """ALPN identifier, such as `h3`."""
    host: str
    """Where it is; the origin's own host where the field names none."""
    port: int
    max_age_s: float = DAY_S
    persist: bool = False
    """Whether it survives a change of the network."""


def parse(value: str, origin: Origin) -> list[Alternative] | None:
    """The alternatives of a field `alt-svc`, in the server's order; None means `clear`.

    What is malformed is passed over, as a client must (RFC 7838 §3).
    """
    value = value[:LONGEST_FIELD].strip()
    if value == "clear":
        return None
    found: list[Alternative] = []
    at = 0
    while at < len(value) and len(found) < MOST_ALTERNATIVES:
        entry = _ENTRY.match(value, at)
        if entry is None:
            # Go on behind the next comma. A comma in a quoted string only costs another round.
            at = value.find(",", at) + 1 or len(value)
            continue
        at = entry.end()
        alternative = _alternative(entry, origin)
        if alternative is not None:
            found.append(alternative)
    return found


def _alternative(entry: re.Match[str], origin: Origin) -> Alternative | None:
    where = re.sub(r"\\(.)", r"\1", entry["where"])
    name, colon, _ = where.rpartition(":")
    if not colon:
        return None
    try:
        host, port = split(where if name else origin.host_in_url + where, 0)
    except ValueError:
        return None
    max_age, persist = DAY_S, False
    for parameter, quoted, token in _PARAMETER.findall(entry["parameters"]):
        if parameter == "ma":
            digits = quoted or token
            # Ten digits are 317 years; more would only be a way to make us compute.
            max_age = float(digits) if digits.isascii() and digits.isdigit() else 0.0
            max_age = min(max_age, 1e10)
        elif parameter == "persist":
            persist = (quoted or token) == "1"
    if port == 0 or max_age == 0.0:
        return None
    protocol = entry["protocol"]
    if "%" in protocol:
        from urllib.parse import unquote  # noqa: PLC0415 - those in use are plain

        protocol = unquote(protocol)
    return Alternative(protocol, host, port, max_age, persist)


class Learns(Protocol):
    """What has a `Memory`; the pools of both clients are such."""

    def learn(self, origin: Origin, value: str, age_s: float) -> None:
        """Take in the field `alt-svc` of a response whose `age` is so many seconds."""


def learn(pool: Learns, origin: Origin, fields: Sequence[tuple[str, str]]) -> None:
    """Take in what the fields of a response announce."""
    values = [value for name, value in fields if len(name) == 7 and name.lower() == "alt-svc"]
    if values:
        ages = [value for name, value in fields if name.lower() == "age" and value.isdecimal()]
        pool.learn(origin, ", ".join(values), float(ages[0][:10]) if ages else 0.0)


class _Known:
    """What is remembered of one origin."""

    __slots__ = ("alternatives", "broken", "learnt", "value")

    def __init__(self) -> None:
        self.alternatives: list[tuple[float, Alternative]] = []
        """With the instant when each ceases to be fresh."""
        self.broken: dict[tuple[str, int], tuple[float, int]] = {}
        """By host and port: until when it is left alone, and how often it has failed in a row."""
        self.value = ""
        """The field that was learnt last, and when."""
        self.learnt = 0.0


class Memory:
    """The alternatives of origins: what they announced, and what did not work."""

    def __init__(self, scope: Scope = "same-host") -> None:
        """`same-host` uses alternatives on other ports of the origin's host only.

        `any` uses those on other hosts too. The certificate must then cover the origin's own name,
        which the handshake checks (RFC 7838 §2.1).
        """
        self._scope = scope
        self._known: OrderedDict[Origin, _Known] = OrderedDict()

    def learn(self, origin: Origin, value: str, now: float, *, age_s: float = 0.0) -> None:
        """Take in the field `alt-svc` of a response that came from the origin over TLS.

        It replaces what was known (RFC 7838 §3.1). `age_s` is the response's `age`, where it came
        from a cache. Fields that repeat are joined with a comma first (RFC 9110 §5.3).
        """
        if self._scope == "off" or origin.scheme != "https":
            return
        known = self._known.get(origin)
        if known is not None and known.value == value and now - known.learnt < REPEATED_S:
            return
        alternatives = parse(value, origin)
        if alternatives is None:
            self.forget(origin)
            return
        usable = [
            (now + alternative.max_age_s - age_s, alternative)
            for alternative in alternatives
            if alternative.protocol == "h3"
            and alternative.max_age_s > age_s
            and (self._scope == "any" or alternative.host == origin.host)
        ]
        if known is None:
            if not usable:
                return
            known = self._of(origin)
        known.alternatives, known.value, known.learnt = usable, value, now
        self._known.move_to_end(origin)

    def best(self, origin: Origin, now: float) -> Alternative | None:
        """The first alternative that is fresh and not known to be broken; it speaks `h3`."""
        known = self._known.get(origin)
        if known is None:
            return None
        for until, alternative in known.alternatives:
            left_alone = known.broken.get((alternative.host, alternative.port))
            if until > now and (left_alone is None or left_alone[0] <= now):
                return alternative
        return None

    def is_broken(self, origin: Origin, alternative: Alternative, now: float) -> bool:
        """Whether it is left alone now."""
        known = self._known.get(origin)
        if known is None:
            return False
        left_alone = known.broken.get((alternative.host, alternative.port))
        return left_alone is not None and left_alone[0] > now

    def broken(self, origin: Origin, alternative: Alternative, now: float) -> None:
        """Leave out an alternative that did not work: for 5 minutes, each time twice as long."""
        known = self._of(origin)
        where = (alternative.host, alternative.port)
        times = known.broken.get(where, (0.0, 0))[1]
        back_off = min(FIRST_BACK_OFF_S * 2 ** min(times, 16), LONGEST_BACK_OFF_S)
        known.broken[where] = (now + back_off, times + 1)
        while len(known.broken) > MOST_ALTERNATIVES:
            del known.broken[next(iter(known.broken))]

    def works(self, origin: Origin, alternative: Alternative) -> None:
        """Forget the failures of an alternative, which gave a response."""
        known = self._known.get(origin)
        if known is not None:
            known.broken.pop((alternative.host, alternative.port), None)

    def misdirected(self, origin: Origin, alternative: Alternative, now: float) -> None:
        """The alternative answered 421: it does not serve this origin (RFC 7838 §6).

        It is left alone for a while too, because the server may announce it again in the same
        response, and a client that races HTTP/3 unannounced would try it again at once.
        """
        self.broken(origin, alternative, now)
        known = self._known.get(origin)
        if known is not None:
            known.alternatives = [
                pair
                for pair in known.alternatives
                if (pair[1].host, pair[1].port) != (alternative.host, alternative.port)
            ]

    def forget(self, origin: Origin) -> None:
        """The origin has no alternatives any more; what was broken stays so."""
        known = self._known.get(origin)
        if known is not None:
            known.alternatives = []
            known.value = ""

    def network_changed(self) -> None:
        """Forget what does not `persist`, and that anything was broken (RFC 7838 §2.2)."""
        for known in self._known.values():
            known.alternatives = [pair for pair in known.alternatives if pair[1].persist]
            known.broken.clear()
            known.value = ""

    def _of(self, origin: Origin) -> _Known:
        known = self._known.setdefault(origin, _Known())
        if len(self._known) > MOST_ORIGINS:
            self._known.popitem(last=False)
        return known
