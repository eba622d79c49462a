"""What a URL addresses: its origin, what is written in the request line, and its userinfo.

No I/O. `parse` is on the way of every request, so the part that names the origin is remembered and
a clean path is handed on as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from trilane.client.errors import InvalidRequest

DEFAULT_PORTS: Final = {"http": 80, "https": 443}

# What stands before the path: RFC 3986, Appendix B, for the two schemes that we speak.
_BASE: Final = re.compile(r"(?i)(https?)://([^/?#]*)([^#]*)")
# Characters that need no change in a request target: RFC 3986 §3.3 and §3.4, plus `[]|^` and a bare
# `%`, which servers take and which WHATWG's URL leaves alone too.
_CLEAN: Final = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@/?%\[\]|^-]*").fullmatch
_SAFE: Final = "/?!$&'()*+,;=:@%[]|^"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]").search
_NAME: Final = re.compile(r"[a-z0-9._~-]+").fullmatch
# Letters that IDNA 2003 (the codec of Python) and IDNA 2008 write differently.
_DEVIATIONS: Final = re.compile("[\u00df\u03c2\u200c\u200d]").search
_REMEMBERED: Final = 1024
_SHORTEST: Final = len("http://x")


class Origin(NamedTuple):
    """Scheme, host and port (RFC 6454): connections are shared within one origin."""

    scheme: str
    """`http` or `https`."""
    host: str
    """In lower case and ASCII; an IPv6 address without brackets, with its zone where it has one."""
    port: int

    @property
    def authority(self) -> str:
        """What the field `host` says: brackets around IPv6, no zone, no default port."""
        return authority(self.host, self.port, DEFAULT_PORTS.get(self.scheme, 0))

    @property
    def host_in_url(self) -> str:
        """The host with brackets around IPv6 and with its zone."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


class Address(NamedTuple):
    """A URL, parsed."""

    origin: Origin
    authority: str
    """`origin.authority`, computed once."""
    target: str
    """Path and query as they go on the wire (RFC 9112 §3.2.1); the fragment is left out."""
    authorization: str | None
    """The field `authorization` (RFC 7617) that the userinfo of the URL asks for."""

    @property
    def url(self) -> str:
        """The absolute form (RFC 9112 §3.2.2), without userinfo and fragment."""
        return f"{self.origin.scheme}://{self.authority}{self.target}"


# Without the function that a NamedTuple has for its names: one is made for each request.
_address: Final[Callable[[tuple[Origin, str, str, str | None]], Address]] = partial(
    tuple.__new__, Address
)
# What stands before the path, as it was written: origin, authority, authorization.
_known: dict[str, tuple[Origin, str, str | None]] = {}


def parse(url: str) -> Address:
    """Parse an absolute URL of `http` or `https`.

    A host that is not ASCII is written by IDNA, `user:password@` becomes an `authorization`, dot
    segments are removed, and characters that may not be in a URL are percent-encoded, as HTTPX
    does. Control characters are refused (request splitting).

    Raises:
        InvalidRequest: the URL is none; the message says why.
    """
    # The way of most requests: an origin seen before, and a path that needs nothing.
    try:
        slash = url.find("/", _SHORTEST)
        known = _known.get(url[:slash])
    except (AttributeError, TypeError):
        raise InvalidRequest(
            f"the URL {url!r} is of type {type(url).__name__}: give a str, as by url.decode() of"
            " bytes or str(url) of an object"
        ) from None
    if known is not None:
        target = url[slash:]
        # `/.` may begin a dot segment; most paths have none.
        if _CLEAN(target) and "/." not in target:
            return _address((known[0], known[1], target, known[2]))
    found = _BASE.match(url)
    if found is None:
        raise InvalidRequest(f"the URL {url!r} {_lack(url)}")
    scheme, before_path, target = found.groups()
    try:
        known = _origin(scheme, before_path)
        if not _CLEAN(target) or "/." in target:
            target = _encoded(target)
    except ValueError as error:
        raise InvalidRequest(f"the URL {url!r} is not valid: {error}") from None
    if len(_known) >= _REMEMBERED:
        _known.clear()
    _known[f"{scheme}://{before_path}"] = known
    return Address(known[0], known[1], target, known[2])


def authority(host: str, port: int, default_port: int) -> str:
    """`host`, `host:port` or `[v6]:port` for a host without brackets.

    The zone of an address is a matter of this machine, and left out (RFC 6874).
    """
    name = f"[{host.partition('%')[0]}]" if ":" in host else host
    return name if port == default_port else f"{name}:{port}"


def _origin(scheme: str, before_path: str) -> tuple[Origin, str, str | None]:
    # WHATWG reads a backslash as a slash: two readers would see two hosts.
    if _CONTROL(before_path) or " " in before_path or "\\" in before_path:
        raise ValueError("it has a space, a backslash or a control character before its path")
    userinfo, at, place = before_path.rpartition("@")
    scheme = scheme.lower()
    host, port = split(place, DEFAULT_PORTS[scheme])
    origin = Origin(scheme, host, port)
    return origin, origin.authority, _basic(userinfo) if at else None


def http_url(url: str) -> str:
    """The URL of `http` or `https` that a URL of `ws` or `wss` is asked at (RFC 6455 §3)."""
    scheme, mark, rest = url.partition("://")
    return {"ws": "http", "wss": "https"}.get(scheme.lower(), scheme) + mark + rest


def split(place: str, default_port: int) -> tuple[str, int]:
    """Host and port of `host`, `host:port`, `[v6]` or `[v6]:port`, as `Origin` has them.

    Raises:
        ValueError: it is none of these; the message says why.
    """
    if place.startswith("["):
        inner, bracket, rest = place[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{place!r} is not an IPv6 address in brackets")
        host, port = _v6(inner), rest[1:]
    else:
        name, _, port = place.partition(":")
        if ":" in port:
            raise ValueError(f"an IPv6 address stands in brackets: [{place}]")
        host = _ascii(name)
    if not port:
        return host, default_port
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"the port {port!r} is not a number from 1 to 65535")
    return host, int(port)


def _v6(inner: str) -> str:
    address, percent, zone = inner.partition("%")
    # RFC 6874 writes the zone's percent sign as %25; people type it plainly.
    zone = zone.removeprefix("25") if len(zone) > 2 else zone
    if percent and not _NAME(zone.lower()):
        raise ValueError(f"the zone {zone!r} of the IPv6 address is not valid")
    import ipaddress  # noqa: PLC0415 - few addresses are such

    return ipaddress.IPv6Address(address).compressed + (f"%{zone}" if percent else "")


def _ascii(name: str) -> str:
    if not name.isascii():
        if _DEVIATIONS(name):
            raise ValueError(
                f"the host {name!r} means different names in IDNA 2003 and 2008: write it as xn--"
            )
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError as error:
            raise ValueError(
                f"the host {name!r} is not an internationalised name: {error}"
            ) from None
    name = name.lower()
    if not _NAME(name):
        raise ValueError(f"the host {name!r} is not a name" if name else "it names no host")
    return name


def _basic(userinfo: str) -> str:
    import base64  # noqa: PLC0415 - few URLs name a user
    from urllib.parse import unquote  # noqa: PLC0415

    user, _, password = userinfo.partition(":")
    plain = f"{unquote(user)}:{unquote(password)}".encode()
    return "Basic " + base64.b64encode(plain).decode("ascii")


def _encoded(target: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415 - most targets are clean

    path, mark, query = target.partition("?")
    found = _CONTROL(target)
    if found is not None:
        raise ValueError(f"{found[0]!r} at character {found.start()} of its path or query")
    path = _without_dots(quote(path, _SAFE))
    return f"{path}?{quote(query, _SAFE)}" if mark else path


def _without_dots(path: str) -> str:
    """RFC 3986 §5.2.4."""
    kept: list[str] = []
    segments = path.split("/")[1:] if path else [""]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in {".", ".."}:
        kept.append("")
    return "/" + "/".join(kept)


def _lack(url: str) -> str:
    """What keeps a URL from being one of `http` or `https`."""
    scheme, mark, _ = url.partition("://")
    if not mark or not scheme:
        return "has no scheme: write http:// or https:// before it"
    return f"has the scheme {scheme!r}: only http and https are"
