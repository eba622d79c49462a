"""Authentication: what a client, or one request, sends as `authorization`.

`auth=` is (user, password), one of the classes here, or a function that is called with the request
before it is sent, and changes its `headers`.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from trilane.client.errors import InvalidRequest
from trilane.client.fields import MutableHeaders

if TYPE_CHECKING:
    from trilane.client._digest import Hashing

__all__ = ["Auth", "BasicAuth", "BearerAuth", "DigestAuth", "NetRCAuth", "RequestInfo"]


class RequestInfo:
    """A request that is about to be sent."""

    __slots__ = ("headers", "method", "target", "url")

    def __init__(self, method: str, url: str, target: str, headers: MutableHeaders) -> None:
        self.method = method
        self.url = url
        """Without userinfo and fragment."""
        self.target = target
        """Path and query, as they go on the wire."""
        self.headers = headers
        """Fields that are sent; they can be changed."""


class Auth:
    """A way to authenticate. Subclasses change the request's headers.

    One object may serve many threads at once.
    """

    def apply(self, request: RequestInfo) -> None:
        """Add what is known before the server has said anything."""

    def answer(self, challenges: list[str], request: RequestInfo) -> bool:  # noqa: ARG002
        """Take in the fields `www-authenticate` of a 401, and change the request to be sent again.

        False: nothing new can be said, and the 401 is the response.
        """
        return False


class BasicAuth(Auth):
    """User and password, as they are, in UTF-8 (RFC 7617). Only TLS keeps them secret."""

    def __init__(self, user: str | bytes, password: str | bytes) -> None:
        plain = _bytes(user) + b":" + _bytes(password)
        self._value = "Basic " + base64.b64encode(plain).decode("ascii")

    def apply(self, request: RequestInfo) -> None:
        """Add them."""
        request.headers["authorization"] = self._value


class BearerAuth(Auth):
    """A token (RFC 6750)."""

    def __init__(self, token: str) -> None:
        self._value = f"Bearer {token}"

    def apply(self, request: RequestInfo) -> None:
        """Add it."""
        request.headers["authorization"] = self._value


class NetRCAuth(Auth):
    """User and password of the request's host from a `.netrc` file, as Basic."""

    def __init__(self, file: str | PathLike[str] | None = None) -> None:
        """`file` is `~/.netrc` where it is not given, and read now.

        Raises:
            OSError, netrc.NetrcParseError: it cannot be read.
        """
        import netrc  # noqa: PLC0415 - only where it is asked for

        self._netrc = netrc.netrc(None if file is None else str(file))

    def apply(self, request: RequestInfo) -> None:
        """Add them, where the file has the host or a default."""
        from urllib.parse import urlsplit  # noqa: PLC0415 - as above

        found = self._netrc.authenticators(urlsplit(request.url).hostname or "")
        if found is not None:
            BasicAuth(found[0], found[2] or "").apply(request)


class DigestAuth(Auth):
    """User and password, hashed with what the server gives (RFC 7616).

    MD5, SHA-256 and SHA-512-256, those for sessions (`-sess`) too, quality of protection `auth` or
    none; `auth-int` alone, which hashes the content, is not answered. The first request is answered
    by 401 and sent again; later ones are hashed at once.
    """

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password
        self._hashing: Hashing | None = None
        self._challenge: dict[str, str] | None = None
        self._lock = threading.Lock()

    def apply(self, request: RequestInfo) -> None:
        """Hash for the challenge that was answered last, if there was one."""
        with self._lock:
            if self._challenge is not None:
                self._hash(self._challenge, request)

    def answer(self, challenges: list[str], request: RequestInfo) -> bool:
        """Hash for the strongest challenge of the server that is known here."""
        from trilane.client import _digest as digest  # noqa: PLC0415 - few servers want it

        challenge = digest.strongest(challenges)
        if challenge is None:
            return False
        with self._lock:
            sent = request.headers.get("authorization", "")
            if sent.startswith("Digest ") and challenge.get("stale", "").lower() != "true":
                known = self._challenge
                if known is not None and known.get("nonce") == challenge.get("nonce"):
                    return False  # It was refused: user or password are wrong.
            if self._hashing is None:
                self._hashing = digest.Hashing(self._user, self._password)
            self._challenge = challenge
            self._hash(challenge, request)
        return True

    def _hash(self, challenge: dict[str, str], request: RequestInfo) -> None:
        if self._hashing is not None:
            request.headers["authorization"] = self._hashing.authorization(challenge, request)

    def __getstate__(self) -> dict[str, Any]:
        return {"_user": self._user, "_password": self._password}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_user"], state["_password"])  # type: ignore[misc]


class _Function(Auth):
    """A function of the caller's."""

    def __init__(self, function: Callable[[RequestInfo], object]) -> None:
        self._function = function

    def apply(self, request: RequestInfo) -> None:
        """Call it. What it returns is not looked at: Requests and HTTPX want the request back."""
        self._function(request)


class AuthFunction(Protocol):
    """What changes the headers of a request."""

    def __call__(self, request: RequestInfo, /) -> object:
        """Change them."""


AuthGiven: TypeAlias = tuple[str | bytes, str | bytes] | list[str] | Auth | AuthFunction | None


def auth_of(given: AuthGiven) -> Auth | None:
    """What `auth=` means.

    Raises:
        TypeError: it is none of what it may be.
    """
    if given is None or isinstance(given, Auth):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        return BasicAuth(*given)
    if callable(given) and not isinstance(given, type):
        return _Function(given)
    raise TypeError(
        f"auth= is {type(given).__name__}: give (user, password), BearerAuth(token),"
        " DigestAuth(user, password) or NetRCAuth() of trilane.client, or a function"
    )


def _bytes(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise InvalidRequest(f"user and password are text, not {type(text).__name__}")
    return text.encode()
