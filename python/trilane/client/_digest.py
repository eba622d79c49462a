"""Digest (RFC 7616): challenges, and what answers them."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

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
_OF_ATTRIBUTES: Final = "!#$&+-.^_`|~"
"""What stands in `username*` as it is (RFC 8187 §3.2.1)."""


class Hashing:
    """What answers challenges for one user; it counts the requests for each nonce."""

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password
        self._nonce = ""
        self._count = 0
        # A session has one for all of its requests (RFC 7616 §3.4.2).
        self._cnonce = ""

    def authorization(self, challenge: dict[str, str], request: RequestInfo) -> str:
        """The field `authorization` for a challenge (RFC 7616 §3.4), as fields have UTF-8."""
        nonce, realm = challenge["nonce"], challenge["realm"]
        algorithm = challenge.get("algorithm", "MD5")
        of_session = algorithm.upper().endswith(_SESSION)
        known, self._nonce = nonce == self._nonce, nonce
        self._count = self._count + 1 if known else 1
        if not (known and of_session):
            self._cnonce = _cnonce()
        cnonce, count = self._cnonce, f"{self._count:08x}"

        def h(*parts: str) -> str:
            name = _STRONGEST_FIRST[algorithm.upper()]
            return hashlib.new(name, ":".join(parts).encode(), usedforsecurity=False).hexdigest()

        secret = h(self._user, realm, self._password)
        if of_session:
            secret = h(secret, nonce, cnonce)
        told = h(request.method, request.target)
        protected = "qop" in challenge
        with_qop = (nonce, count, cnonce, "auth", told)
        response = h(secret, *with_qop) if protected else h(secret, nonce, told)
        said = [
            self._username(challenge),
            f"realm={_quoted(realm)}",
            f"nonce={_quoted(nonce)}",
            f"uri={_quoted(request.target)}",
            f'response="{response}"',
            f"algorithm={algorithm}",
        ]
        if "opaque" in challenge:
            said.append(f"opaque={_quoted(challenge['opaque'])}")
        if protected:
            said += ["qop=auth", f"nc={count}", f'cnonce="{cnonce}"']
        return f"Digest {', '.join(said)}".encode().decode("latin-1")

    def _username(self, challenge: dict[str, str]) -> str:
        """The user: a name that is not ASCII as the RFC has it where the server knows that.

        Others get it in UTF-8, as from curl and HTTPX.
        """
        if self._user.isascii() or challenge.get("charset", "").upper() != "UTF-8":
            return f"username={_quoted(self._user)}"
        return f"username*=UTF-8''{quote(self._user, safe=_OF_ATTRIBUTES)}"


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


def _quoted(text: str) -> str:
    """A quoted-string (RFC 9110 §5.6.4)."""
    escaped = re.sub(r'(["\\])', r"\\\1", text)
    return f'"{escaped}"'


def _cnonce() -> str:
    return secrets.token_hex(8)
