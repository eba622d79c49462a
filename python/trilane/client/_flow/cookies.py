"""Cookies (RFC 6265), kept by the standard library's `http.cookiejar`.

Its modules are imported with the first cookie. The field that goes to a URL is remembered until the
jar changes or a cookie expires: the jar's own rules take longer than the rest of a request.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
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


class _Jar(CookieJar):
    """A jar that counts its changes, and has a bound."""

    def __init__(self) -> None:
        super().__init__(DefaultCookiePolicy())
        self.changes = 0
        self._order: dict[tuple[str, str, str], None] = {}

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


class _Answered:
    """A response, as far as a jar looks at it."""

    def __init__(self, values: list[str]) -> None:
        self._values = values

    def info(self) -> _Answered:
        """Its fields."""
        return self

    def get_all(self, name: str, default: Any = None) -> Any:
        """The fields of that name."""
        return self._values if name.lower() == SET_COOKIE else default


class Cookies(MutableMapping[str, str]):
    """Cookies by their names; `jar` is a `http.cookiejar.CookieJar`, which knows all of them."""

    __slots__ = ("_known", "jar")

    def __init__(self, given: CookiesGiven = None) -> None:
        """`given` is a mapping, pairs, other cookies, or a jar, which is used and changed itself.

        Cookies of a mapping are sent to every host.
        """
        self._known: dict[tuple[Origin, str], tuple[int, float, str | None]] = {}
        if isinstance(given, CookieJar):
            self.jar = given
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
        if values:
            self.jar.extract_cookies(_Answered(values[:MOST_OF_RESPONSE]), _Asked(address))  # type: ignore[arg-type]

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
