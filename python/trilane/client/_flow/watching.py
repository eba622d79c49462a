"""What is seen of requests from inside: their times, hooks, and traces. No I/O.

A client that was asked for none of it has no `Watch`, and each of its requests costs a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TypeAlias

from trilane.client._flow.request import lower

if TYPE_CHECKING:
    from types import TracebackType

    from trilane._core import Facts
    from trilane.client._flow.preparing import Prepared
    from trilane.client._flow.request import Request
    from trilane.client._flow.response import BaseResponse

Hook: TypeAlias = Callable[[Any], Any]
Hooks: TypeAlias = Mapping[str, Sequence[Hook] | Hook]
_EVENTS: Final = ("request", "response")


class Timings(NamedTuple):
    """Where the time of a request went, in seconds, in this order.

    None is what there was no need for (a connection that stood already has neither of `dns`,
    `connect`, `tunnel`, `tls` and `quic`), or what has not come yet.
    """

    wait: float
    """For a connection, or a place on one; earlier attempts that failed are in it."""
    dns: float | None
    """Resolving the name."""
    connect: float | None
    """TCP, from the first address that was tried."""
    tunnel: float | None
    """The proxy's tunnel, with TLS to the proxy where it wants that."""
    tls: float | None
    """The handshake of TLS."""
    quic: float | None
    """The handshake of QUIC, that of TLS in it."""
    first_byte: float | None
    """From then, while the request was sent, to the final head of the response."""
    body: float | None
    """From there to the end of the response."""

    @property
    def total(self) -> float:
        """The sum of what there was."""
        return sum(step for step in self if step is not None)


class Traffic(NamedTuple):
    """Bytes of one request and its response, without what frames them."""

    request_fields: int
    """Names and values of the request's fields, before compression."""
    request_content: int
    """Content that was handed over to be sent."""
    response_fields: int
    """Names and values of the response's fields, after decompression."""
    response_content: int
    """Content as it was sent: before `content-encoding` is undone."""


class RequestView:
    """A request that is about to be sent, as hooks see it. What they change is sent."""

    __slots__ = ("_request", "headers", "resends", "url")

    def __init__(self, request: Request, url: str, resends: int = 0) -> None:
        self._request = request
        self.url = url
        """Without userinfo and fragment."""
        self.resends = resends
        """How often requests were sent before it for the same call: redirects, retries, answers
        to challenges."""
        self.headers: MutableMapping[str, str] = _Headers(request)
        """The fields by name, in any case. To set one replaces all of its name."""

    @property
    def method(self) -> str:
        """The method."""
        return self._request.method

    def __repr__(self) -> str:
        return f"<RequestView {self.method} {self.url}>"


class _Headers(MutableMapping[str, str]):
    """The fields of a request by name. The list of them is never changed: others may have it."""

    __slots__ = ("_request",)

    def __init__(self, request: Request) -> None:
        self._request = request

    def _of(self, name: str) -> list[str]:
        wanted = name.lower()
        return [_text(value) for key, value in self._request.fields if lower(key) == wanted]

    def __getitem__(self, name: str) -> str:
        values = self._of(name)
        if not values:
            raise KeyError(name)
        return ", ".join(values)

    def __setitem__(self, name: str, value: str) -> None:
        fields = [field for field in self._request.fields if lower(field[0]) != name.lower()]
        self._request.fields = [*fields, (name, value)]

    def __delitem__(self, name: str) -> None:
        if not self._of(name):
            raise KeyError(name)
        fields = [field for field in self._request.fields if lower(field[0]) != name.lower()]
        self._request.fields = fields

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(lower(name) for name, _ in self._request.fields))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Observation(Protocol):
    """One request, for an `Observer`."""

    def answered(self, response: BaseResponse, sends: int) -> None:
        """The final head has come, after the request was sent so many times."""

    def ended(self, error: BaseException | None, sends: int) -> None:
        """It is over; called once. An error: without a response, or before its end."""


class Observer(Protocol):
    """What is told of each request of a client; `trilane.client.otel.Telemetry` is one."""

    def begin(self, request: RequestView) -> Observation:
        """A request begins. It may be given more fields."""


class Watch:
    """What a client is asked to show of its requests."""

    __slots__ = ("on_request", "on_response", "telemetry", "timed")

    def __init__(
        self,
        on_request: Sequence[Hook],
        on_response: Sequence[Hook],
        telemetry: Observer | None,
        *,
        timed: bool,
    ) -> None:
        self.on_request = on_request
        self.on_response = on_response
        self.telemetry = telemetry
        self.timed = timed

    @staticmethod
    def of(hooks: Hooks | None, telemetry: Observer | None, *, timed: bool) -> Watch | None:
        """None where nothing is asked for.

        Raises:
            ValueError: there is no such event.
            TypeError: a hook cannot be called.
        """
        if not hooks and telemetry is None and not timed:
            return None
        found: dict[str, tuple[Hook, ...]] = dict.fromkeys(_EVENTS, ())
        for event, given in (hooks or {}).items():
            if event not in found:
                raise ValueError(f"event_hooks has {event!r}: there are request and response")
            found[event] = (given,) if callable(given) else tuple(given)
            for hook in found[event]:
                if not callable(hook):
                    raise TypeError(f"event_hooks[{event!r}] has {hook!r}, which cannot be called")
        return Watch(found["request"], found["response"], telemetry, timed=timed)

    def over(self, prepared: Prepared) -> tuple[Prepared, Watched]:
        """The request as it is watched: it is to be sent in the context of the latter."""
        request, address, how = prepared
        watched = Watched(self, RequestView(request, address.url, how.resends), request)
        return prepared._replace(how=how._replace(watched=watched)), watched


class Watched:
    """One request that is watched, from its preparation to the end of its response.

    As a context it takes note of errors.
    """

    __slots__ = (
        "_began",
        "_facts",
        "_observation",
        "_over",
        "_request",
        "_submitted",
        "_times",
        "request",
        "sends",
        "watch",
    )

    def __init__(self, watch: Watch, view: RequestView, request: Request) -> None:
        self.watch = watch
        self.request = view
        self.sends = 0
        """How often it was handed to a connection."""
        self._request = request
        self._began = self._submitted = 0.0
        self._facts: Facts | None = None
        self._times: tuple[float | None, float | None, int, int] | None = None
        self._over = False
        telemetry = watch.telemetry
        self._observation = None if telemetry is None else telemetry.begin(view)

    @property
    def timed(self) -> bool:
        """Whether the clock is to be read when something comes."""
        return self.watch.timed

    def begin(self) -> None:
        """The hooks have been called: its time begins."""
        self._began = monotonic()

    def submitting(self, facts: Facts | None) -> None:
        """It is handed to a connection: `facts` are those of one that was made for it."""
        self.sends += 1
        self._submitted = monotonic()
        self._facts = facts

    def answered(self, response: BaseResponse) -> None:
        """The head of the response is there."""
        if self._observation is not None:
            self._observation.answered(response, self.sends)

    def end(self, exchange: Any, error: BaseException | None = None) -> None:
        """The response has ended or is given up; its exchange is let go of."""
        if self.timed:
            self._times = exchange.times
        self.over(error)

    def over(self, error: BaseException | None) -> None:
        """Nothing more comes of it. May be called again."""
        if not self._over:
            self._over = True
            if self._observation is not None:
                self._observation.ended(error, self.sends)

    def timings(self, exchange: Any) -> Timings | None:
        """Where the time went so far; `exchange` is None once it is let go of."""
        times = self._known(exchange)
        if times is None:
            return None
        head, end, *_ = times
        dns, connect, tunnel, tls, quic = setup = (
            (None,) * 5 if self._facts is None else self._facts.setup
        )
        made = sum(step for step in setup if step is not None)
        wait = max(0.0, self._submitted - self._began - made)
        body = None if head is None or end is None else end - head
        return Timings(wait, dns, connect, tunnel, tls, quic, head, body)

    def traffic(self, exchange: Any, fields: Sequence[tuple[str, str]]) -> Traffic | None:
        """The bytes so far; `fields` are those of the response."""
        times = self._known(exchange)
        if times is None:
            return None
        sent = sum(len(name) + len(value) for name, value in self._request.fields)
        came = sum(len(name) + len(value) for name, value in fields)
        return Traffic(sent, times[2], came, times[3])

    def _known(self, exchange: Any) -> tuple[float | None, float | None, int, int] | None:
        if not self.timed:
            return None
        known: tuple[float | None, float | None, int, int] | None
        known = self._times if exchange is None else exchange.times
        return known

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.over(error)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
