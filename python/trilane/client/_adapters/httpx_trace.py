"""The extension `trace` of HTTPX: a callback that is told of each step of a request.

Names and contents are httpcore's (its documentation, "Extensions", "trace"), as far as the steps
exist here. TLS is a part of connecting: `start_tls` begins and ends where `connect_tcp` has ended.
What httpcore does not speak is named after it: `connection.connect_quic` and `http3.*`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from trilane._core import Connection
from trilane.client._aio.running import running
from trilane.client._flow.routes import Attempt

Info = dict[str, Any]

_PREFIXES: Final = {"h1": "http11", "h2": "http2", "h3": "http3"}


class NetworkStream:
    """What HTTPX calls `network_stream`: facts of the connection. It neither reads nor writes."""

    def __init__(self, source: Any) -> None:
        """`source` has `local`, `peer` and `tls_info`: a connection, or a response."""
        self._source = source

    def get_extra_info(self, info: str) -> Any:
        """`client_addr` and `server_addr`: host and port; `tls_info`: what TLS agreed on.

        None for anything else, such as `ssl_object`, which there is not.
        """
        name = {"client_addr": "local", "server_addr": "peer", "tls_info": "tls_info"}.get(info)
        return None if name is None else getattr(self._source, name, None)


class TracedURL(NamedTuple):
    """`httpcore.URL`: where the request goes."""

    scheme: bytes
    host: bytes
    port: int | None
    target: bytes


class TracedRequest(NamedTuple):
    """`httpcore.Request`, as callbacks read it."""

    method: bytes
    url: TracedURL
    headers: list[tuple[bytes, bytes]]
    extensions: Info

    @classmethod
    def of(cls, request: Any) -> TracedRequest:
        """A request of HTTPX's."""
        url, extensions = request.url, request.extensions
        target = extensions.get("target", url.raw_path)
        there = TracedURL(url.raw_scheme, url.raw_host, url.port, target)
        return cls(request.method.encode("ascii"), there, request.headers.raw, dict(extensions))


class Steps:
    """Makes httpcore's events of what a pool tells of a request, and of its response.

    At most one event is open at a time: what fails ends that one.
    """

    def __init__(
        self, emit: Callable[[str, Info], object], request: Any, local_address: str | None
    ) -> None:
        self._emit = emit
        self._request = TracedRequest.of(request)
        self._local_address = local_address
        self._open: str | None = None
        self._prefix = ""
        self._secures = False
        self._server_name = ""

    def __call__(self, step: str, value: Any) -> None:
        """What a pool calls: see `preparing.OnStep`."""
        if step == "connect":
            self._connect(value)
        elif step == "connected":
            self._connected(value)
        elif step == "submitted":
            self._prefix = _PREFIXES[value.version]
            self._start("send_request_headers")
            self.end(None)
            self._start("send_request_body")
        elif step == "sent":
            self.end(None)
            self._start("receive_response_headers")
        elif step == "failed":
            self.fail(value)

    def answered(self, response: Any) -> None:
        """The head of HTTPX's response is there."""
        receives = f"{self._prefix}.receive_response_headers"
        if self._open != receives:  # It came while content was still being sent.
            self.end(None)
            self._start("receive_response_headers")
        extensions, fields = response.extensions, response.headers.raw
        if self._prefix == "http11":
            version, reason = extensions["http_version"], extensions["reason_phrase"]
            self.end((version, response.status_code, reason, fields))
        else:
            self.end((response.status_code, fields))

    def reads(self) -> None:
        """The content of the response is asked for."""
        self._start("receive_response_body")

    def closes(self) -> None:
        """The response is closed."""
        self._start("response_closed")
        self.end(None)

    def end(self, value: object) -> None:
        """What was begun last is complete."""
        if self._open is not None:
            self._end("complete", {"return_value": value})

    def fail(self, error: BaseException) -> None:
        """What was begun last has failed, if it was not complete."""
        if self._open is not None:
            self._end("failed", {"exception": error})

    def _start(self, name: str) -> None:
        self._begin(f"{self._prefix}.{name}", {"request": self._request})

    def _begin(self, name: str, info: Info) -> None:
        self._open = name
        self._emit(f"{name}.started", info)

    def _end(self, how: str, info: Info) -> None:
        name, self._open = self._open, None
        self._emit(f"{name}.{how}", info)

    def _connect(self, attempt: Attempt) -> None:
        timeout = (self._request.extensions.get("timeout") or {}).get("connect")
        if attempt.unix is not None:
            info: Info = {"path": attempt.unix, "timeout": timeout, "socket_options": None}
            self._begin("connection.connect_unix_socket", info)
            return
        place = attempt if attempt.tunnel is None else attempt.tunnel.origin
        info = {
            "host": place.host,
            "port": place.port,
            "local_address": self._local_address,
            "timeout": timeout,
            "socket_options": None,
        }
        how = "quic" if attempt.versions == ("h3",) else "tcp"
        self._secures = attempt.scheme == "https" and how == "tcp"
        self._server_name = attempt.server_name or attempt.route.origin.host
        self._begin(f"connection.connect_{how}", info)

    def _connected(self, connection: Connection) -> None:
        stream = NetworkStream(connection)
        self.end(stream)
        if self._secures and connection.version != "h3":
            name = self._server_name
            timeout = (self._request.extensions.get("timeout") or {}).get("connect")
            info = {"ssl_context": None, "server_hostname": name, "timeout": timeout}
            self._begin("connection.start_tls", info)
            self.end(stream)


class BlockingSteps(Steps):
    """For callbacks that are ordinary functions, called in the thread of the request."""

    def __init__(
        self, callback: Callable[[str, Info], object], request: Any, local_address: str | None
    ) -> None:
        def emit(name: str, info: Info) -> None:
            given = callback(name, info)
            if inspect.iscoroutine(given):
                given.close()
                raise TypeError(
                    "If you are using a synchronous interface, the callback of the `trace`"
                    " extension should be a normal function instead of an asynchronous function."
                )

        super().__init__(emit, request, local_address)


class AsyncSteps(Steps):
    """For callbacks that are coroutine functions: called in order, by a task beside the request's.

    The pool goes on meanwhile; `told` waits for it, and raises what a callback has raised.
    """

    def __init__(
        self, callback: Callable[[str, Info], Any], request: Any, local_address: str | None
    ) -> None:
        super().__init__(self._note, request, local_address)
        self._callback = callback
        self._loop = running()
        self._noted: deque[tuple[str, Info]] = deque()
        self._teller: asyncio.Future[None] | None = None
        self._error: BaseException | None = None

    def _note(self, name: str, info: Info) -> None:
        self._noted.append((name, info))
        if self._teller is None or self._teller.done():
            self._teller = self._loop.create_task(self._tell())

    async def _tell(self) -> None:
        while self._noted and self._error is None:
            name, info = self._noted.popleft()
            try:
                given = self._callback(name, info)
                if not inspect.iscoroutine(given):
                    raise TypeError(  # noqa: TRY301 - raised where the request is awaited
                        "If you're using an asynchronous interface, the callback of the `trace`"
                        " extension should be an asynchronous function rather than a normal"
                        " function."
                    )
                await given
            except Exception as error:  # noqa: BLE001 - as the line above
                self._error = error

    async def told(self) -> None:
        """Wait until the callback knows all of it so far."""
        while self._teller is not None and not self._teller.done():
            ended: asyncio.Future[bool] = self._loop.create_future()

            def end(_: object, ended: asyncio.Future[bool] = ended) -> None:
                if not ended.done():
                    ended.set_result(True)

            self._teller.add_done_callback(end)
            await ended
        error, self._error = self._error, None
        if error is not None:
            raise error
