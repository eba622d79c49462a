"""A resolver that asks for HTTPS records (RFC 9460), by dnspython.

    client = Client(resolver=Resolver())

So a connection begins with the version that the server has: HTTP/3 at the first request, where
`Alt-Svc` would tell of it with the response. It needs the package of `trilane[dns]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

try:
    import dns.exception
    import dns.resolver
    from dns.rdtypes.svcbbase import ParamKey
except ImportError as error:
    raise ImportError(
        "this resolver needs the library dnspython, 2.6 or newer: install trilane[dns]"
    ) from error

from trilane.client._flow.records import MOST_ALIASES, HTTPSRecord
from trilane.client.errors import ResolveError

if TYPE_CHECKING:
    from dns.rdtypes.IN.HTTPS import HTTPS

__all__ = ["Resolver"]

_HTTPS_PORT: Final = 443
_SERVERS: Final = 1024
"""Answers that are kept for as long as they say."""


class Resolver:
    """What is given to a client as `resolver=`. Any number of clients may have the same one."""

    def __init__(
        self,
        nameservers: Sequence[str] | None = None,
        *,
        port: int = 53,
        lifetime: float = 5.0,
        resolver: dns.resolver.Resolver | None = None,
    ) -> None:
        """Without arguments those of `/etc/resolv.conf` are asked. Answers are kept as they say.

        nameservers: addresses, or URLs of DNS over HTTPS where dnspython has what it needs.
        port: theirs. lifetime: seconds that a question may take.
        resolver: dnspython's own, with all of its settings, in place of these.

        Raises:
            ValueError: a nameserver is no address.
        """
        if resolver is None:
            resolver = dns.resolver.Resolver(configure=nameservers is None)
            resolver.cache = dns.resolver.LRUCache(_SERVERS)
            resolver.lifetime = lifetime
            if nameservers is not None:
                resolver.nameservers = list(nameservers)
                resolver.port = port
        self.resolver = resolver
        """Dnspython's."""

    def __call__(self, host: str, port: int) -> list[str | HTTPSRecord] | None:
        """The records of the origin and the addresses of its host, which are asked for at once.

        None: there are neither, and the system's resolver may know more, from `/etc/hosts`.

        Raises:
            ResolveError: the nameservers do not answer.
        """
        with ThreadPoolExecutor(1) as aside:
            asked = aside.submit(self._records, host, port)
            found = self._addresses(host)
            owner, records = asked.result()
        if owner != host and not records:
            # RFC 9460 §3: where the aliases end without a record.
            found = self._addresses(owner)
        return [*records, *found] or None

    def addresses(self, host: str) -> list[str] | None:
        """The addresses of a host, those of IPv6 first; None where there are none.

        Raises:
            ResolveError: the nameservers do not answer.
        """
        return self._addresses(host) or None

    def _records(self, host: str, port: int) -> tuple[str, list[HTTPSRecord]]:
        """The records of ServiceMode, and the name that has them: aliases are followed."""
        owner = first = host if port == _HTTPS_PORT else f"_{port}._https.{host}"
        for _ in range(MOST_ALIASES):
            try:
                answers = self._ask(owner, "HTTPS")
            except dns.exception.DNSException:
                # RFC 9460 §3.1: answers that are not signed may fail, and so there are none.
                answers = []
            aliases = [answer for answer in answers if answer.priority == 0]
            if not aliases:
                name = host if owner == first and not answers else owner
                return name, [_record(answer, owner) for answer in answers]
            owner = aliases[0].target.to_text(omit_final_dot=True)
            if owner in {"", "."}:
                break
        return host, []

    def _addresses(self, host: str) -> list[str]:
        found: list[str] = []
        failure: dns.exception.DNSException | None = None
        for kind in ("AAAA", "A"):
            try:
                found += [answer.address for answer in self._ask(host, kind)]
            except dns.exception.DNSException as error:
                failure = error
        if failure is not None and not found:
            raise ResolveError(f"{host} cannot be resolved: {failure}") from failure
        return found

    def _ask(self, name: str, kind: str) -> list[Any]:
        try:
            return list(self.resolver.resolve(name, kind, raise_on_no_answer=False, search=False))
        except dns.resolver.NXDOMAIN:
            return []


def _record(answer: HTTPS, owner: str) -> HTTPSRecord:
    """A record of ServiceMode as dnspython has parsed it; its target is a name."""
    key, parameters = ParamKey, answer.params
    target = answer.target.to_text(omit_final_dot=True)
    alpn, port = parameters.get(key.ALPN), parameters.get(key.PORT)
    four, six = parameters.get(key.IPV4HINT), parameters.get(key.IPV6HINT)
    mandatory, ech = parameters.get(key.MANDATORY), parameters.get(key.ECH)
    return HTTPSRecord(
        priority=answer.priority,
        target=owner if target in {"", ".", "@"} else target,
        alpn=() if alpn is None else tuple(name.decode("latin-1") for name in alpn.ids),
        no_default_alpn=key.NO_DEFAULT_ALPN in parameters,
        port=None if port is None else port.port,
        ipv4hint=() if four is None else four.addresses,
        ipv6hint=() if six is None else six.addresses,
        ech=None if ech is None else ech.ech,
        mandatory=() if mandatory is None else tuple(map(_key, mandatory.keys)),
    )


def _key(number: int) -> str:
    return ParamKey.to_text(number).lower().replace("_", "-")
