"""Cookies (RFC 6265bis), kept in a jar of the standard library's `http.cookiejar`.

The jar keeps and sends; what may be kept and where it goes is decided here, because the library's
own policy is that of 1997: cookies of a host go to its subdomains, `co.uk` is a domain like any
other, and `http` overwrites what `https` has set.

The modules are imported with the first cookie. The field that goes to a URL is remembered until the
jar changes or a cookie expires: the jar's own rules take longer than the rest of a request.
"""

from __future__ import annotations

import time
from calendar import timegm
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from email.utils import parsedate_tz
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, urlsplit

from trilane._core import is_public_suffix

if TYPE_CHECKING:
    from urllib.request import Request as Requested

    from trilane.client._flow.head import Head
    from trilane.client._flow.origins import Address, Origin

SET_COOKIE: Final = "set-cookie"
MOST: Final = 3000
"""Cookies of one jar (RFC 6265 §6.1); the one that was set longest ago is forgotten first."""
MOST_OF_RESPONSE: Final = 180
"""Fields `set-cookie` that are read of one response, as many as browsers keep of a domain."""
LONGEST: Final = 8192
"""Characters of one; a longer one is passed over, as browsers do beyond 4096 bytes."""
_REMEMBERED: Final = 256
_PATH_SAFE: Final = "%/;:@&=+$,!~*'()"
"""What `http.cookiejar` leaves alone in a path when it compares."""
_HAS_OWN: Final = frozenset({"domain", "expires", "max-age", "path", "secure"})
_DIGITS: Final = 12
"""Of a number of seconds; more is as long."""


class _Policy(DefaultCookiePolicy):
    """What may be kept, and where it goes (RFC 6265bis §5.6 to §5.8)."""

    def set_ok(self, cookie: Cookie, request: Requested) -> bool:
        """Whether it may be kept: one that is `Secure` only from where it would be sent to."""
        return super().set_ok(cookie, request) and self.return_ok_secure(cookie, request)

    def set_ok_name(self, cookie: Cookie, request: Requested) -> bool:
        """Whether it is what the prefix of its name promises (§4.1.3)."""
        name = cookie.name.lower()
        if name.startswith("__host-"):
            whole = cookie.path_specified and cookie.path == "/"
            return cookie.secure and whole and not cookie.domain_specified
        if name.startswith("__secure-"):
            return cookie.secure
        return super().set_ok_name(cookie, request)

    def set_ok_domain(self, cookie: Cookie, request: Requested) -> bool:
        """Whether the response may set it for that domain (§5.7)."""
        if self.is_blocked(cookie.domain) or self.is_not_allowed(cookie.domain):
            return False
        if not cookie.domain_specified:
            return True
        domain = cookie.domain.removeprefix(".")
        return _covers(domain, _host(request)) and not is_public_suffix(domain)

    def return_ok_domain(self, cookie: Cookie, request: Requested) -> bool:
        """Whether it goes to the host; one that named no domain goes to its own host alone."""
        domain, host = cookie.domain, _host(request)
        if not domain:
            return True  # The caller's own, for every host.
        if cookie.domain_specified:
            return _covers(domain.removeprefix("."), host)
        return domain in {host, _key(host)}


class _Jar(CookieJar):
    """A jar that counts its changes, and has a bound."""

    def __init__(self) -> None:
        super().__init__(_Policy())
        self.changes = 0
        self._order: dict[tuple[str, str, str], None] = {}

    def __iter__(self) -> Iterator[Cookie]:
        # Threads share it, and the library's own iterator sees what another one is changing.
        with self._cookies_lock:  # type: ignore[attr-defined]
            return iter(list(super().__iter__()))

    def set_cookie(self, cookie: Cookie) -> None:
        """Keep a cookie, and forget the oldest where there are too many."""
        super().set_cookie(cookie)
        self.changes += 1
        key = cookie.domain, cookie.path, cookie.name
        self._order.pop(key, None)
        self._order[key] = None
        while len(self._order) > MOST:
            oldest = next(iter(self._order))
            try:
                self.clear(*oldest)
            except KeyError:
                self._order.pop(oldest, None)

    def clear(
        self, domain: str | None = None, path: str | None = None, name: str | None = None
    ) -> None:
        """Forget cookies: all of them, or of a domain, a path, a name."""
        if domain is None:
            super().clear()
            self._order.clear()
        elif path is None:
            super().clear(domain)
        elif name is None:
            super().clear(domain, path)
        else:
            super().clear(domain, path, name)
        self.changes += 1
        wanted = (domain, path, name)
        for key in list(self._order) if domain is not None else ():
            if all(want is None or want == have for want, have in zip(wanted, key, strict=True)):
                del self._order[key]


class _Asked:
    """A request, as far as a jar looks at it."""

    unverifiable = False

    def __init__(self, address: Address) -> None:
        self._url = address.url
        self.type = address.origin.scheme
        self.host = address.authority
        self.origin_req_host = address.origin.host
        self.cookie: str | None = None

    def get_full_url(self) -> str:
        """The URL."""
        return self._url

    def has_header(self, name: str) -> bool:  # noqa: ARG002 - the jar calls it so
        """None is here."""
        return False

    def get_header(self, name: str, default: str | None = None) -> str | None:  # noqa: ARG002
        """None is here."""
        return default

    def add_unredirected_header(self, name: str, value: str) -> None:
        """What the jar says is to be sent."""
        if name == "Cookie":
            self.cookie = value


class Cookies(MutableMapping[str, str]):
    """Cookies by their names; `jar` is a `http.cookiejar.CookieJar`, which knows all of them."""

    __slots__ = ("_known", "jar")

    def __init__(self, given: CookiesGiven = None) -> None:
        """`given` is a mapping, pairs, other cookies, or a jar, which is used and changed itself.

        Cookies of a mapping are sent to every host. A jar with a policy of a class of its own keeps
        that; otherwise its policy becomes that of RFC 6265bis, with the settings that it had.
        """
        self._known: dict[tuple[Origin, str], tuple[int, float, str | None]] = {}
        if isinstance(given, CookieJar):
            self.jar = given
            _make_strict(given)
            return
        self.jar = _Jar()
        self._take(given)

    def _take(self, given: CookiesGiven) -> None:
        if isinstance(given, Cookies):
            given = given.jar
        if isinstance(given, CookieJar):
            for cookie in given:
                self.jar.set_cookie(cookie)
            return
        if isinstance(given, str | bytes):
            raise TypeError("cookies= is a mapping, pairs or a jar; text is the field cookie")
        for name, value in given.items() if isinstance(given, Mapping) else given or ():
            self.set(name, value)

    def set(self, name: str, value: str, domain: str = "", path: str = "/") -> None:
        """Keep a cookie for the session; without a domain it is sent to every host.

        Raises:
            ValueError: name or value have characters that end a cookie.
        """
        if any(end in f"{name}{value}" for end in ";\r\n\0") or "=" in name or not name:
            raise ValueError(f"the cookie {name!r} with the value {value!r} cannot be sent")
        self.jar.set_cookie(
            Cookie(
                version=0,
                name=str(name),
                value=str(value),
                port=None,
                port_specified=False,
                domain=domain,
                domain_specified=bool(domain),
                domain_initial_dot=domain.startswith("."),
                path=path,
                path_specified=bool(path),
                secure=False,
                expires=None,
                discard=True,
                comment=None,
                comment_url=None,
                rest={},
            )
        )

    def get(
        self, name: str, default: Any = None, domain: str | None = None, path: str | None = None
    ) -> Any:
        """The value of a cookie, where several domains or paths have it of the first."""
        for cookie in self.jar:
            if cookie.name != name or (domain is not None and cookie.domain != domain):
                continue
            if path is None or cookie.path == path:
                return cookie.value or ""
        return default

    def delete(self, name: str, domain: str | None = None, path: str | None = None) -> None:
        """Forget the cookies of that name."""
        found = [
            (cookie.domain, cookie.path, cookie.name)
            for cookie in self.jar
            if cookie.name == name
            and (domain is None or cookie.domain == domain)
            and (path is None or cookie.path == path)
        ]
        for key in found:
            self.jar.clear(*key)

    def clear(self, domain: str | None = None, path: str | None = None) -> None:
        """Forget all cookies, or those of a domain."""
        if domain is None:
            self.jar.clear()
        elif path is None:
            self.jar.clear(domain)
        else:
            self.jar.clear(domain, path)

    def header(self, address: Address) -> str | None:
        """The field `cookie` for a URL; None where there is nothing to send."""
        jar = self.jar
        path = address.target.partition("?")[0]
        key = address.origin, path
        if isinstance(jar, _Jar):
            known = self._known.get(key)
            if known is not None and known[0] == jar.changes and time.time() < known[1]:
                return known[2]
        asked = _Asked(address)
        jar.add_cookie_header(asked)  # type: ignore[arg-type]
        if isinstance(jar, _Jar):
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            until = min((c.expires for c in jar if c.expires is not None), default=float("inf"))
            self._known[key] = jar.changes, until, asked.cookie
        return asked.cookie

    def keep(self, address: Address, fields: Iterable[tuple[str, str]]) -> None:
        """Take in the fields `set-cookie` of a response that came from a URL."""
        values = [
            value
            for name, value in fields
            if len(name) == len(SET_COOKIE) and name.lower() == SET_COOKIE and len(value) <= LONGEST
        ]
        if not values:
            return
        jar, asked, now, expired = self.jar, _Asked(address), time.time(), False
        for value in values[:MOST_OF_RESPONSE]:
            cookie = _read(value, address, now)
            # A jar of the caller's may have another policy, beside these rules.
            if cookie is None or not _RULES.set_ok(cookie, asked):  # type: ignore[arg-type]
                continue
            if address.origin.scheme == "https" or not self._hides(cookie):
                jar.set_cookie_if_ok(cookie, asked)  # type: ignore[arg-type]
                expired = expired or cookie.is_expired(int(now))
        if expired:
            jar.clear_expired_cookies()

    def _hides(self, cookie: Cookie) -> bool:
        """Whether it would replace or stand before one that is `Secure` (§5.7)."""
        domain = cookie.domain.removeprefix(".")
        for other in self.jar:
            if not other.secure or other.name != cookie.name:
                continue
            theirs = other.domain.removeprefix(".")
            if (_covers(domain, theirs) or _covers(theirs, domain)) and _is_below(
                cookie.path, other.path
            ):
                return True
        return False

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return str(value)

    def __setitem__(self, name: str, value: str) -> None:
        self.set(name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self.delete(name)

    def __contains__(self, name: object) -> bool:
        return any(cookie.name == name for cookie in self.jar)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(cookie.name for cookie in self.jar))

    def __len__(self) -> int:
        return len({cookie.name for cookie in self.jar})

    def __repr__(self) -> str:
        return f"Cookies({[f'{c.name}={c.value} of {c.domain}' for c in self.jar]})"


CookiesGiven: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]] | Cookies | CookieJar | None


def of_response(response: Head, address: Address) -> Cookies:
    """The cookies that a response sets."""
    cookies = Cookies()
    cookies.keep(address, response.fields)
    return cookies


_RULES: Final = _Policy()


def _make_strict(jar: CookieJar) -> None:
    """Give a jar of the caller's our policy in place of the standard library's."""
    theirs = getattr(jar, "_policy", None)
    if type(theirs) is DefaultCookiePolicy:
        policy = _Policy()
        vars(policy).update(vars(theirs))
        jar.set_policy(policy)


def _read(value: str, address: Address, now: float) -> Cookie | None:
    """The cookie of one field (RFC 6265bis §5.6), as it is kept; None where it is none."""
    pair, *attributes = value.split(";")
    name, equals, content = (part.strip() for part in pair.partition("="))
    if not name:
        return None
    given: dict[str, str] = {}
    rest: dict[str, str | None] = {}
    for attribute in attributes:
        key, mark, text = (part.strip() for part in attribute.partition("="))
        if key.lower() in _HAS_OWN:
            given[key.lower()] = text
        elif key:
            rest[key] = text if mark else None
    host = address.origin.host_in_url
    domain = given.get("domain", "").lower().removeprefix(".")
    # A domain that has no more than this host is not told from none (§5.7, §5.1.3).
    own = not domain or (domain == host and (_is_address(host) or is_public_suffix(domain)))
    path = given.get("path", "")
    if not path.startswith("/"):
        # §5.1.4; the path is without its last segment.
        path, specified = address.target.partition("?")[0].rpartition("/")[0] or "/", False
    else:
        specified = True
    expires = _expires(given, now)
    return Cookie(
        version=0,
        name=name,
        value=content if equals else None,
        port=None,
        port_specified=False,
        domain=_key(host) if own else f".{domain}",
        domain_specified=not own,
        domain_initial_dot=given.get("domain", "").startswith("."),
        path=quote(path, _PATH_SAFE),
        path_specified=specified,
        secure="secure" in given,
        expires=expires,
        discard=expires is None,
        comment=None,
        comment_url=None,
        rest=rest,  # type: ignore[arg-type]
    )


def _expires(given: Mapping[str, str], now: float) -> int | None:
    """Until when, in seconds since 1970 (RFC 6265bis §5.6.1 and §5.6.2); None: for the session."""
    age = given.get("max-age", "")
    digits = age.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        return int(now) + int(digits[:_DIGITS]) if digits == age else 0
    try:
        date = parsedate_tz(given.get("expires", "").strip('"'))
        return None if date is None else timegm(date[:9]) - (date[9] or 0)
    except (ValueError, OverflowError):
        return None


def _host(request: Requested) -> str:
    """The host that is asked, as in URLs: an IPv6 address has brackets."""
    host = urlsplit(request.get_full_url()).hostname or ""
    return f"[{host}]" if ":" in host else host


def _key(host: str) -> str:
    """What `http.cookiejar` keeps a host's own cookies under (RFC 2965 §1)."""
    return host if "." in host or host.startswith("[") else f"{host}.local"


def _is_address(host: str) -> bool:
    return host.startswith("[") or host.rpartition(".")[2].isdigit()


def _covers(domain: str, host: str) -> bool:
    """Whether the host is the domain, or one of its names (RFC 6265bis §5.1.3)."""
    return domain == host or (host.endswith(f".{domain}") and not _is_address(host))


def _is_below(path: str, other: str) -> bool:
    """Whether a path matches that of a cookie (RFC 6265bis §5.1.4)."""
    return path == other or path.startswith(other if other.endswith("/") else f"{other}/")
