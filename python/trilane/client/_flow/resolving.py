"""Addresses, and HTTPS records, that the caller knows better than the system's resolver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from trilane.client._flow.timeouts import connect_timeout
from trilane.client.errors import Error, ResolveError

if TYPE_CHECKING:
    from trilane.client._flow.records import HTTPSRecord
    from trilane.client._flow.routes import Attempt, Policy

Answer: TypeAlias = "str | HTTPSRecord | Iterable[str | HTTPSRecord]"
Resolver: TypeAlias = "Callable[[str, int], Answer | None] | Mapping[str, Answer]"
"""From host and port to addresses and HTTPS records; a mapping has `host:port` or `host` as keys.

None, or no such key: the system's resolver is asked. Where it has a method `addresses`, that is
called with a host for which no records are wanted: a record's target, a proxy, a URL without TLS.
"""
Opened = TypeVar("Opened")
Way: TypeAlias = "dict[str, Any]"
"""Arguments of `_core.connect` for one place."""


def opened(
    attempt: Attempt,
    policy: Policy,
    connect: Callable[..., Opened],
    timeout: float | None,
) -> Opened:
    """What `connect` gives for an attempt, at the first place where that succeeds.

    In a thread that may wait. `connect` is `_core.connect` with what does not depend on the place;
    the resolver and all places together have `timeout` seconds.

    Raises:
        ResolveError: there is no address, or what was given is none.
        ConnectTimeout: the resolver took all of the time.
        Error: as `connect`, for the last place.
    """
    if timeout is None or not may_wait(attempt, policy):
        places, left = ways(attempt, policy), timeout
        until = None if timeout is None else monotonic() + timeout
    else:
        until = monotonic() + timeout
        places = _within(timeout, attempt, policy)
        left = max(until - monotonic(), 0.0)
    while True:
        place = places.pop(0)
        try:
            return connect(**place, timeout=share_of(left, others=len(places)))
        except Error:
            if not places:
                raise
        left = None if until is None else max(until - monotonic(), 0.0)


def may_wait(attempt: Attempt, policy: Policy) -> bool:
    """Whether `ways` calls a function of the caller's, which may take its time."""
    resolver = policy.resolver
    return resolver is not None and attempt.unix is None and not isinstance(resolver, Mapping)


def share_of(left: float | None, *, others: int) -> float | None:
    """Of the seconds that are left, how many a place may take that has others behind it."""
    if not others:
        return left
    from trilane.client._flow.records import share  # noqa: PLC0415 - only with records

    return share(left, others=others)


def _within(seconds: float, attempt: Attempt, policy: Policy) -> list[Way]:
    """`ways` in a thread of its own: a resolver that takes too long is not waited for."""
    import contextvars  # noqa: PLC0415 - only with resolver=
    import threading  # noqa: PLC0415

    found: list[list[Way] | BaseException] = []
    done = threading.Event()

    def ask() -> None:
        try:
            found.append(ways(attempt, policy))
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            found.append(error)
        done.set()

    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(ask,), daemon=True, name="trilane-resolve").start()
    if not done.wait(seconds):
        raise connect_timeout(str(attempt.route.origin), seconds)
    answer = found[0]
    if isinstance(answer, BaseException):
        raise answer
    return answer


def ways(attempt: Attempt, policy: Policy) -> list[Way]:
    """Where the attempt goes: the places in the order in which they are tried.

    Raises:
        ResolveError: there is no address, or what was given is none.
    """
    return list(_ways(attempt, policy))


def _ways(attempt: Attempt, policy: Policy) -> Iterable[Way]:
    resolver = policy.resolver
    options: Way = {**attempt.options()}
    if resolver is None or attempt.unix is not None:
        return [options]
    tunnel = attempt.tunnel
    if tunnel is not None:
        if tunnel.origin.scheme == "socks5":
            # The proxy is told an address, and this resolver is to find it.
            found = resolved(resolver, attempt.host, attempt.port)
            if found:
                options["host"] = found[0]
                options["server_name"] = attempt.server_name or attempt.host
        options["addresses"] = resolved(resolver, tunnel.origin.host, tunnel.origin.port)
        return [options]
    # RFC 9460 §9.3: an alternative that the server announced itself comes first.
    if attempt.scheme != "https" or attempt.alternative is not None or attempt.route.forwards:
        options["addresses"] = resolved(resolver, attempt.host, attempt.port)
        return [options]
    return _served(attempt, policy, resolver, options)


def _served(
    attempt: Attempt, policy: Policy, resolver: Resolver, options: dict[str, Any]
) -> Iterable[Way]:
    """The places of which HTTPS records tell, and at last the one that the URL names."""
    host = attempt.host
    addresses, records = first = _answer(resolver, host, attempt.port)
    seen = 0
    while records:
        from trilane.client._flow.records import MOST_ALIASES, usable  # noqa: PLC0415 - as above

        alias = next((record.host for record in records if record.is_alias), None)
        if alias is None:
            break
        seen += 1
        if not alias or seen > MOST_ALIASES:
            # RFC 9460 §2.5.1, §3: who can do without records does without them.
            host, addresses, records = attempt.host, first[0], []
            break
        host = alias
        addresses, records = _answer(resolver, host, attempt.port)
    own = {**options, "addresses": addresses}
    if host != attempt.host:
        own |= {"host": host, "server_name": attempt.server_name or attempt.host}
    if not records:
        return [own]
    ways = []
    found = usable(records, policy.versions, ech=policy.ech)
    for record in found:
        there = record.host or host
        way = {
            **options,
            "host": there,
            "port": record.port or attempt.port,
            "versions": record.spoken(policy.versions, ech=policy.ech),
            "server_name": attempt.server_name or attempt.host,
        }
        way["addresses"] = addresses if there == host else resolved(resolver, there, way["port"])
        way["addresses"] = way["addresses"] or _hints(record, there)
        if policy.ech:
            way["ech"] = record.ech
        ways.append(way)
    if policy.ech and found and all(record.ech is not None for record in found):
        # RFC 9460 §3.1: who could make them unreachable must not learn the name by that.
        return ways
    return [*ways, own]


def resolved(resolver: Resolver, host: str, port: int) -> list[str] | None:
    """The addresses of a host; None: the system's resolver is asked, or the host is one.

    Raises:
        ResolveError: there is none, or what was given is no address.
    """
    ask = getattr(resolver, "addresses", None)
    if ask is None:
        return _answer(resolver, host, port)[0]
    return _answer(lambda name, _: ask(name), host, port)[0]


def _answer(resolver: Resolver, host: str, port: int) -> tuple[list[str] | None, list[HTTPSRecord]]:
    """Addresses, None where the system's resolver is to be asked, and records."""
    found = None if _is_address(host) else _asked(resolver, host, port)
    if found is None:
        return None, []
    addresses: list[str] = []
    records: list[HTTPSRecord] = []
    # A record is a tuple, and iterable too.
    one: Any = found
    for item in [one] if isinstance(found, str) or hasattr(found, "priority") else one:
        if hasattr(item, "priority"):
            records.append(_checked(item, host))
        elif _is_address(item):
            addresses.append(item.strip("[]"))
        else:
            raise ResolveError(
                f"the resolver says {item!r} of {host}: give IP addresses, and HTTPSRecords"
            )
    if not addresses and not records:
        raise ResolveError(f"the resolver knows no address of {host}")
    return addresses or None, records


def _asked(resolver: Resolver, host: str, port: int) -> Answer | None:
    if isinstance(resolver, Mapping):
        return resolver.get(f"{host}:{port}", resolver.get(host))
    try:
        return resolver(host, port)
    except ResolveError:
        raise
    except OSError as error:
        raise ResolveError(f"{host} cannot be resolved: {error}") from error


def _checked(record: HTTPSRecord, host: str) -> HTTPSRecord:
    for hint in (*record.ipv4hint, *record.ipv6hint):
        if not _is_address(hint):
            raise ResolveError(f"a record of {host} has the hint {hint!r}: give IP addresses")
    port = record.port
    if port is not None and not 0 < port < 65536:
        raise ResolveError(f"a record of {host} has the port {port!r}: give one from 1 to 65535")
    return record


def _hints(record: HTTPSRecord, host: str) -> list[str] | None:
    if _is_address(host):
        return None
    return [*record.ipv6hint, *record.ipv4hint] or None


def _is_address(host: str) -> bool:
    import ipaddress  # noqa: PLC0415 - only with resolver=

    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
