"""Digest authentication (RFC 7616) by the standard library's handler."""

from __future__ import annotations

import hashlib
import re
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from trilane.client.errors import InvalidRequest

if TYPE_CHECKING:
    from trilane.client.auth import RequestInfo

_SESSION: Final = "-SESS"
_STRONGEST_FIRST: Final = {
    name + session: of_hashlib
    for name, of_hashlib in (("SHA-512-256", "sha512_256"), ("SHA-256", "sha256"), ("MD5", "md5"))
    for session in ("", _SESSION)
}
_QUOTED_OR_NOT: Final = re.compile(r'([^\s=,"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_BEGIN: Final = re.compile(
    r"(?:^|,)\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:\s+(?=[^\s=,]+\s*=)|\s*(?=,|$))"
)
_LONGEST: Final = 16 * 1024
"""Characters of the fields that are read."""


class _Handler(urllib.request.AbstractDigestAuthHandler):
    """With the algorithms of RFC 7616, those for sessions among them, and UTF-8."""

    _session = False
    _cnonces: tuple[str, str] = "", ""

    def get_cnonce(self, nonce: str) -> str:
        """A value of the client's own; one for all requests of a session (RFC 7616 §3.4.2)."""
        if not self._session:
            return super().get_cnonce(nonce)
        if self._cnonces[0] != nonce:
            self._cnonces = nonce, super().get_cnonce(nonce)
        return self._cnonces[1]

    def get_algorithm_impls(
        self, algorithm: str
    ) -> tuple[Callable[[str], str], Callable[[str, str], str]]:
        """The functions H and KD."""
        name = _STRONGEST_FIRST[algorithm.upper()]
        self._session = session = algorithm.upper().endswith(_SESSION)

        def h(text: str) -> str:
            return hashlib.new(name, text.encode(), usedforsecurity=False).hexdigest()

        def kd(secret: str, data: str) -> str:
            if session:
                nonce, _, cnonce, _, _ = data.rsplit(":", 4)
                secret = h(f"{secret}:{nonce}:{cnonce}")
            return h(f"{secret}:{data}")

        return h, kd


class _Asked:
    """A request, as far as the handler looks at it."""

    data = None

    def __init__(self, request: RequestInfo) -> None:
        self.full_url = request.url
        self.selector = request.target
        self._method = request.method

    def get_method(self) -> str:
        """The method."""
        return self._method


class _Passwords(urllib.request.HTTPPasswordMgr):
    """One user for every realm."""

    def __init__(self, user: str, password: str) -> None:
        super().__init__()
        self._pair = user, password

    def find_user_password(self, realm: str, authuri: str) -> tuple[str | None, str | None]:  # noqa: ARG002
        """The user."""
        return self._pair


def handler(user: str, password: str) -> urllib.request.AbstractDigestAuthHandler:
    """What hashes; it counts the requests for each nonce."""
    return _Handler(_Passwords(user, password))


def strongest(challenges: list[str]) -> dict[str, str] | None:
    """The parameters of the best Digest challenge among fields `www-authenticate`."""
    found: dict[str, dict[str, str]] = {}
    value = ", ".join(challenges)[:_LONGEST]
    begins = list(_BEGIN.finditer(value))
    for number, begin in enumerate(begins):
        if begin[1].lower() != "digest":
            continue
        end = begins[number + 1].start() if number + 1 < len(begins) else len(value)
        parameters = {
            name.lower(): re.sub(r"\\(.)", r"\1", quoted) or token
            for name, quoted, token in _QUOTED_OR_NOT.findall(value[begin.end() : end])
        }
        algorithm = parameters.get("algorithm", "MD5")
        offered = [each.strip().lower() for each in parameters.get("qop", "auth").split(",")]
        if "nonce" not in parameters or "realm" not in parameters or "auth" not in offered:
            continue
        if algorithm.upper() not in _STRONGEST_FIRST:
            continue
        # Without a quality of protection the server is told no cnonce, which the session needs.
        if algorithm.upper().endswith(_SESSION) and "qop" not in parameters:
            continue
        if "qop" in parameters:
            parameters["qop"] = "auth"
        found.setdefault(algorithm.upper(), parameters)
    return next((found[name] for name in _STRONGEST_FIRST if name in found), None)


def authorization(handler_: Any, challenge: dict[str, str], request: RequestInfo) -> str:
    """The field `authorization` for a challenge.

    Raises:
        InvalidRequest: the library cannot hash for it.
    """
    made = handler_.get_authorization(_Asked(request), challenge)
    if made is None:
        raise InvalidRequest(f"the challenge of {request.url} cannot be answered: {challenge}")
    return f"Digest {made}"
