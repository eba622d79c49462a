"""What `HTTPConnection.sock` shows of a native connection."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilane._core import Connection
    from trilane.client.http._content import Wait


class Sock:
    """The socket of a native connection, as far as it makes sense to touch it.

    Options, addresses, the timeout and facts about TLS are there; sending and receiving is not: the
    native part does that.
    """

    def __init__(self, connection: Connection, wait: Wait, release: Callable[[], None]) -> None:
        self._connection = connection
        self._wait = wait
        self._release = release

    def fileno(self) -> int:
        """The descriptor."""
        return self._connection.fileno()

    def getsockname(self) -> tuple[str, int]:
        """Address and port of this end."""
        return self._connection.local or ("", 0)

    def getpeername(self) -> tuple[str, int]:
        """Address and port of the other end."""
        return self._connection.peer or ("", 0)

    def gettimeout(self) -> float | None:
        """How long one wait may last, in seconds."""
        return self._wait.seconds

    def settimeout(self, seconds: float | None) -> None:
        """Changes it for the connection and its responses."""
        self._wait.seconds = seconds

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """Sets an option of the socket."""
        with contextlib.closing(self._borrowed()) as borrowed:
            borrowed.setsockopt(level, option, value)

    def getsockopt(self, level: int, option: int) -> int:
        """Reads an option of the socket."""
        with contextlib.closing(self._borrowed()) as borrowed:
            return borrowed.getsockopt(level, option)

    def _borrowed(self) -> socket.socket:
        return socket.socket(fileno=os.dup(self._connection.fileno()))

    def selected_alpn_protocol(self) -> str | None:
        """What ALPN agreed on (RFC 7301); None without TLS."""
        alpn: str | None = self._tls("alpn")
        return alpn

    def version(self) -> str | None:
        """The version of TLS; None without it."""
        version: str | None = self._tls("version")
        return version

    def cipher(self) -> tuple[str, str, int] | None:
        """Cipher suite, version of TLS and 0 for the bits, which the suite's name tells."""
        name = self._tls("cipher")
        return None if name is None else (name, self._tls("version") or "", 0)

    def getpeercert(self, binary_form: bool = False) -> bytes | None:
        """The server's certificate in DER; None without TLS, and over QUIC.

        Raises:
            ValueError: `binary_form` is not set; a parsed form is not made here.
        """
        if not binary_form:
            msg = "only getpeercert(True) is known here, which gives the certificate in DER"
            raise ValueError(msg)
        certificates = (self._connection.tls_info or {}).get("certificates")
        return certificates[0] if isinstance(certificates, list) and certificates else None

    def _tls(self, name: str) -> Any:
        return (self._connection.tls_info or {}).get(name) or None

    def close(self) -> None:
        """No further requests; responses that are still being read keep the connection open."""
        self._release()
        if not self._connection.outstanding:
            self._connection.close()
