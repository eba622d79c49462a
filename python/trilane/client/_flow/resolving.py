"""Addresses that the caller knows better than the system's resolver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from trilane.client.errors import ResolveError

if TYPE_CHECKING:
    from trilane.client._flow.routes import Attempt

Addresses: TypeAlias = str | Iterable[str]
Resolver: TypeAlias = Callable[[str, int], Addresses | None] | Mapping[str, Addresses]
"""From host and port to addresses; a mapping has `host:port` or `host` as its keys.

None, or no such key: the system's resolver is asked.
"""


def arguments(attempt: Attempt, resolver: Resolver | None) -> dict[str, Any]:
    """Arguments of `_core.connect`, with the addresses that the caller knows.

    In a thread that may wait: the resolver is the caller's.

    Raises:
        ResolveError: there is none, or what was given is no address.
    """
    options: dict[str, Any] = {**attempt.options()}
    if resolver is None or attempt.unix is not None:
        return options
    tunnel = attempt.tunnel
    if tunnel is not None and tunnel.origin.scheme == "socks5":
        # The proxy is told an address, and this resolver is to find it.
        found = resolved(resolver, attempt.host, attempt.port)
        if found:
            options["host"] = found[0]
            options["server_name"] = attempt.server_name or attempt.host
    place = attempt if tunnel is None else tunnel.origin
    options["addresses"] = resolved(resolver, place.host, place.port)
    return options


def resolved(resolver: Resolver, host: str, port: int) -> list[str] | None:
    """The addresses of a host; None: the system's resolver is asked, or the host is one.

    Raises:
        ResolveError: there is none, or what was given is no address.
    """
    if _is_address(host):
        return None
    if isinstance(resolver, Mapping):
        found = resolver.get(f"{host}:{port}", resolver.get(host))
    else:
        try:
            found = resolver(host, port)
        except ResolveError:
            raise
        except OSError as error:
            raise ResolveError(f"{host} cannot be resolved: {error}") from error
    if found is None:
        return None
    addresses = [found] if isinstance(found, str) else list(found)
    for address in addresses:
        if not _is_address(address):
            raise ResolveError(f"the resolver says {address!r} of {host}: give IP addresses")
    if not addresses:
        raise ResolveError(f"the resolver knows no address of {host}")
    return [address.strip("[]") for address in addresses]


def _is_address(host: str) -> bool:
    import ipaddress  # noqa: PLC0415 - only with resolver=

    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
