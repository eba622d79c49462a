"""Errors that inherit from classes of `http.client` and `ssl`; `errors` has them all.

They are the classes of `trilane.client.errors`, and say so: apart, because what they inherit from
takes long to import, and is needed where something goes wrong.
"""

from __future__ import annotations

import http.client
import ssl

from trilane.client.errors import ConnectFailed, RemoteError


class TLSError(ConnectFailed, ssl.SSLError):
    """The handshake failed: a certificate that is not trusted, an alert, no common version."""

    __module__ = "trilane.client.errors"


class ConnectionClosed(RemoteError, http.client.RemoteDisconnected):
    """The connection ended before the response did; `retryable` tells whether it had begun."""

    __module__ = "trilane.client.errors"


class RemoteProtocolError(RemoteError, http.client.HTTPException):
    """The peer broke the rules of HTTP."""

    __module__ = "trilane.client.errors"


class LimitExceeded(RemoteProtocolError):
    """The peer sent more than a limit allows: a head, fields, a flood of frames, content."""

    __module__ = "trilane.client.errors"


class IncompleteBody(RemoteError, http.client.IncompleteRead):
    """The response's content ended early.

    `partial` holds what arrived and was not handed out before; `expected` is the number of bytes
    that were still to come, or None where the length was not known.
    """

    __module__ = "trilane.client.errors"

    partial: bytes
    expected: int | None

    def __init__(
        self,
        message: str = "",
        *,
        partial: bytes = b"",
        expected: int | None = None,
        stream_id: int | None = None,
        error_code: int | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message, stream_id=stream_id, error_code=error_code, retryable=retryable)
        self.partial = partial
        self.expected = expected
