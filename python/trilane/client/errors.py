"""What can go wrong: one root, the caller's and the peer's mistakes apart.

Every class also inherits the builtin, or the class of `http.client`, that code written for sockets
or for `http.client` catches. `stream_id`, `error_code` and `retryable` say more where it is known.
The native part raises these through `of`. Those that inherit from classes of `http.client` and
`ssl` are made when they are first asked for, because these two take longer to import than all of
`trilane.client`: write `errors.TLSError` where the name is not needed at once.
"""

from __future__ import annotations

from _socket import gaierror
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from trilane.client._inheriting import (
        ConnectionClosed,
        IncompleteBody,
        LimitExceeded,
        RemoteProtocolError,
        TLSError,
    )

__all__ = [
    "ClientClosed",
    "ConnectFailed",
    "ConnectTimeout",
    "ConnectionClosed",
    "ConnectionRefused",
    "DecodingError",
    "Error",
    "Full",
    "GoAway",
    "IncompleteBody",
    "InvalidRequest",
    "LimitExceeded",
    "LocalError",
    "PoolTimeout",
    "ProxyError",
    "ReadTimeout",
    "RedirectError",
    "RemoteError",
    "RemoteProtocolError",
    "ResolveError",
    "StatusError",
    "StreamRefused",
    "StreamReset",
    "TLSError",
    "Timeout",
    "TooManyRedirects",
    "TotalTimeout",
    "VersionUnavailable",
    "WebSocketClosed",
    "WriteTimeout",
]


class Error(Exception):
    """Root of everything that `trilane.client` raises on its own.

    `str()` of it is one sentence that names the thing, the value and the way out.
    """

    stream_id: int | None
    """Id of the request on its connection, where one was affected."""
    error_code: int | None
    """Code of the protocol: RFC 9113 §7, RFC 9114 §8.1, RFC 9000 §20 or a TLS alert's number."""
    retryable: bool
    """Whether the peer cannot have acted on the request, as far as the protocol can tell.

    True for REFUSED_STREAM, GOAWAY below the stream, H3_REQUEST_REJECTED (proofs), and for a reused
    HTTP/1.1 connection that closed before the first byte of the response (likely, no proof: RFC
    9110 §9.2.2 then allows to send idempotent methods again).
    """

    def __init__(
        self,
        message: str = "",
        *,
        stream_id: int | None = None,
        error_code: int | None = None,
        retryable: bool = False,
    ) -> None:
        # Not super().__init__: the classes of http.client want other arguments. `args` is what
        # pickle and copy pass to a new instance; the rest travels in `__dict__`.
        self.args = (message,)
        self.stream_id = stream_id
        self.error_code = error_code
        self.retryable = retryable

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __copy__(self) -> Self:
        # As copy.copy does by itself, unless others have told copyreg how: with tblib, which Dask
        # imports, a copy shares `__dict__` and keeps the traceback.
        reduced: Any = self.__reduce__()
        kind, args, *state = reduced
        copied: Self = kind(*args)
        for attributes in state:
            copied.__dict__.update(attributes)
        return copied


class InsecureWarning(UserWarning):
    """A client was made that takes any certificate: `verify=False`. No error; one per client.

    `warnings.filterwarnings("ignore", category=InsecureWarning)` silences it.
    """


class LocalError(Error):
    """The caller asked for what cannot be done; nothing was sent for it."""


class InvalidRequest(LocalError, ValueError):
    """A URL, a field, a method or content that cannot be sent."""


class Full(LocalError):
    """The connection takes no further request now: its streams are all in use."""


class ClientClosed(LocalError, RuntimeError):
    """The client, or the connection, was closed by its owner before or during this."""


class ConnectFailed(Error, ConnectionError):
    """No connection could be made."""


class ResolveError(ConnectFailed, gaierror):
    """The name of the host was not found."""


class ConnectionRefused(ConnectFailed, ConnectionRefusedError):
    """No program listens at that address and port."""


class ProxyError(ConnectFailed):
    """The proxy did not make the tunnel; `error_code` is the status it answered, where it did."""


class VersionUnavailable(ConnectFailed):
    """The server does not speak any of the versions of HTTP that were asked for."""


class Timeout(Error, TimeoutError):
    """A wait took longer than allowed."""


class ConnectTimeout(ConnectFailed, Timeout):
    """No connection was ready in time."""


class ReadTimeout(Timeout):
    """The peer sent nothing of the response for too long."""


class WriteTimeout(Timeout):
    """The peer took nothing of the request's content for too long."""


class PoolTimeout(Timeout):
    """Every connection that the pool may have was in use for too long."""


class TotalTimeout(Timeout):
    """The whole request took longer than allowed, though no single wait of it did."""


class RemoteError(Error):
    """The peer, or the way to it, failed after the connection had been made."""


class StreamReset(RemoteError, ConnectionResetError):
    """The peer ended this one request; `error_code` says why (RFC 9113 §7, RFC 9114 §8.1)."""


class GoAway(RemoteError, ConnectionResetError):
    """The peer takes no more requests on this connection, and this one was not processed."""


class _Answered(RemoteError):
    """An error for which there is a response, in `response`; copies by pickle have None there."""

    response: Any
    """A `Response` or `AsyncResponse`."""

    def __init__(self, message: str = "", *, response: Any = None) -> None:
        super().__init__(message)
        self.response = response

    def __reduce__(self) -> tuple[Any, ...]:
        # A response belongs to a connection of this process.
        return type(self), self.args, {**self.__dict__, "response": None}


class StatusError(_Answered):
    """`raise_for_status` found a status of 400 or more, which is `status`."""

    status: int

    def __init__(self, message: str = "", *, response: Any = None) -> None:
        super().__init__(message, response=response)
        self.status = 0 if response is None else response.status


class RedirectError(_Answered):
    """A redirect cannot be followed: its URL is none, or the content cannot be sent again."""


class TooManyRedirects(RedirectError):
    """There were more redirects than `max_redirects`; `response` is the last."""


class StreamRefused(RemoteError):
    """The server answered, but not with the stream of events or the WebSocket that was asked for.

    `error_code` is the status that it answered, and `content` the begin of what it said, up to
    64 KiB.
    """

    content: bytes

    def __init__(
        self,
        message: str = "",
        *,
        content: bytes = b"",
        stream_id: int | None = None,
        error_code: int | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message, stream_id=stream_id, error_code=error_code, retryable=retryable)
        self.content = content


class DecodingError(RemoteError, ValueError):
    """Content that is not in the coding that `content-encoding` names, or that grows too far.

    That is beyond `max_decoded` bytes, coded or not, or more than a thousandfold.
    """


class WebSocketClosed(RemoteError):
    """The WebSocket is closed: nothing more comes, and nothing can be sent (RFC 6455 §7.1).

    `code` and `reason` are those of the server's Close frame: 1000 and 1001 are ordinary ends; 1006
    where the connection ended without one.
    """

    code: int
    reason: str

    def __init__(
        self,
        message: str = "",
        *,
        code: int = 1006,
        reason: str = "",
        stream_id: int | None = None,
        error_code: int | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message, stream_id=stream_id, error_code=error_code, retryable=retryable)
        self.code = code
        self.reason = reason


_INHERITING: Final = frozenset(
    {"ConnectionClosed", "IncompleteBody", "LimitExceeded", "RemoteProtocolError", "TLSError"}
)
_KINDS: Final = {
    "resolve": "ResolveError",
    "refused": "ConnectionRefused",
    "connect": "ConnectFailed",
    "tls": "TLSError",
    "proxy": "ProxyError",
    "version": "VersionUnavailable",
    "connect_timeout": "ConnectTimeout",
    "read_timeout": "ReadTimeout",
    "write_timeout": "WriteTimeout",
    "closed": "ConnectionClosed",
    "reset": "StreamReset",
    "goaway": "GoAway",
    "protocol": "RemoteProtocolError",
    "limit": "LimitExceeded",
    "body": "IncompleteBody",
    "decoding": "DecodingError",
    "local": "InvalidRequest",
    "full": "Full",
}


def _inheriting(name: str) -> Any:
    """A class that inherits from one of `http.client` or `ssl`, made now."""
    # Not an import statement: what is below may not import what is above it.
    made = globals()[name] = getattr(import_module("trilane.client._inheriting"), name)
    return made


if not TYPE_CHECKING:  # For checkers there is no other name.

    def __getattr__(name: str) -> Any:
        if name not in _INHERITING:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _inheriting(name)


def of(
    kind: str,
    message: str,
    stream_id: int | None = None,
    error_code: int | None = None,
    retryable: bool = False,  # the native part passes it by position
) -> Error:
    """The error of a kind that the native part names; an unknown kind gives a plain `Error`."""
    name = _KINDS.get(kind, "Error")
    made: type[Error] = globals().get(name) or _inheriting(name)
    return made(message, stream_id=stream_id, error_code=error_code, retryable=retryable)
