"""Server-sent events: the format, and when a stream of them is asked for again. No I/O.

The format is the event stream of the HTML standard (https://html.spec.whatwg.org/, section 9.2).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from trilane.client import errors
from trilane.client._flow.request import Field, Fields, pairs, with_defaults
from trilane.client._flow.timeouts import Timeouts, Until, total_timeout
from trilane.client.errors import DecodingError, Error, LocalError, StreamRefused, TotalTimeout

if TYPE_CHECKING:
    from trilane.client._flow.response import BaseResponse

MEDIA_TYPE: Final = "text/event-stream"
RETRY_S: Final = 3.0
"""Before a stream is asked for again, unless it has said something else."""
LONGEST_RETRY_S: Final = 60.0
SHORTEST_RETRY_S: Final = 0.1
"""After a stream that brought no event, or none at all, whatever it has said."""
MOST_FAILURES: Final = 10
"""How often in a row a stream is asked for again that fails before it brings an event."""
MOST_REFUSED: Final = 64 * 1024
"""Bytes of an answer that is none of what was asked for, which its error holds."""
_NO_CONTENT: Final = 204
_PASSING: Final = frozenset({429, 502, 503, 504})
"""Statuses that say "later": a stream that was there before is asked for again."""
_BOM: Final = b"\xef\xbb\xbf"
_CR: Final = b"\r"
_LF: Final = b"\n"


class Event:
    """One event of a server."""

    __slots__ = ("data", "event", "id", "retry")

    def __init__(self, event: str, data: str, id: str, retry: int | None) -> None:  # noqa: A002
        self.event = event
        """Its type; `message` where the server names none."""
        self.data = data
        """Its text, lines joined by newlines."""
        self.id = id
        """The last id that the stream has named, with this event or before; else empty."""
        self.retry = retry
        """Milliseconds before the stream is to be asked for again, where this event says so."""

    def json(self) -> Any:
        """Its data as JSON.

        Raises:
            ValueError: it is none (`json.JSONDecodeError`).
        """
        return json.loads(self.data)

    def __repr__(self) -> str:
        return f"Event({self.event!r}, {self.data!r}, id={self.id!r}, retry={self.retry!r})"


class EventParser:
    """Events from the pieces of one response, and what they say about the next one."""

    def __init__(
        self, most: int | None, refuse: Callable[[], BaseException], last_event_id: str = ""
    ) -> None:
        """`most` is how many bytes an event may have, None: any; more raises what `refuse` gives.

        `last_event_id` is what the stream has named before it was asked for again.
        """
        self.last_event_id = last_event_id
        """What to resume after."""
        self.retry: int | None = None
        """Milliseconds that the stream wants before it is asked for again."""
        self._most = most
        self._refuse = refuse
        self._begins = True
        # Whether the last piece ended with CR, to which an LF may belong.
        self._after_cr = False
        # The line that has not ended.
        self._line = bytearray()
        self._id = last_event_id
        self._type = ""
        self._data: list[str] = []
        self._event_retry: int | None = None
        # Bytes of the event so far.
        self._size = 0

    def take(self, piece: bytes) -> list[Event]:
        """The events that end in the next piece of content."""
        if self._after_cr and piece.startswith(_LF):
            piece = piece[1:]
            self._after_cr = False
        if not piece:
            return []
        self._after_cr = piece.endswith(_CR)
        lines = piece.splitlines()
        # Only what is behind the last end of a line waits for more.
        rest = b"" if piece.endswith((_CR, _LF)) else lines.pop()
        events = []
        for line in lines:
            whole = line
            if self._line:
                self._line += line
                whole = bytes(self._line)
                self._line.clear()
            event = self._take_line(whole)
            if event is not None:
                events.append(event)
        if rest:
            self._line += rest
            self._expect_room(self._size + len(self._line))
        return events

    def _take_line(self, line: bytes) -> Event | None:
        if self._begins:
            self._begins = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        self._size += len(line) + 1
        self._expect_room(self._size)
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._type = value
        elif name == "id":
            if "\0" not in value:
                self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            # Nobody waits longer than this; Python refuses to read thousands of digits.
            self.retry = self._event_retry = int(value[:12])
        return None

    def _dispatch(self) -> Event | None:
        """The event that an empty line ends, if there is one."""
        self.last_event_id = self._id
        event = None
        if self._data:
            data = "\n".join(self._data)
            event = Event(self._type or "message", data, self._id, self._event_retry)
        self._type = ""
        self._data = []
        self._event_retry = None
        self._size = 0
        return event

    def _expect_room(self, size: int) -> None:
        if self._most is not None and size > self._most:
            raise self._refuse()


class Subscription:
    """A stream of events over as many responses as it takes."""

    def __init__(
        self,
        url: str,
        headers: Fields | None,
        *,
        reconnect: bool | None,
        is_plain: bool,
        content: object,
        limits: Timeouts,
    ) -> None:
        """`reconnect` is whether it is asked for again; None: where it `is_plain`.

        That is a GET without content. `limits` are those of each request, and their `total` that of
        all of them.

        Raises:
            ValueError: content is to be sent again that can be sent once only.
        """
        self.reconnects = is_plain if reconnect is None else reconnect
        """Whether it is asked for again when it ends."""
        if self.reconnects and not isinstance(content, bytes | bytearray | str | None):
            raise ValueError(
                f"events(reconnect=True) sends its content again each time: give bytes or str, not"
                f" {type(content).__name__}"
            )
        self._url = url
        self._limits = limits
        self._fields = with_defaults(
            [("accept", MEDIA_TYPE), ("cache-control", "no-store")], pairs(headers)
        )
        self._parser: EventParser | None = None
        # Whether there was a stream at all, and how many attempts have failed since the last event.
        self._was_there = False
        self._failures = 0
        # How many streams in a row brought no event.
        self._barren = 0
        self._retry_s = RETRY_S
        self.last_event_id = _given_id(self._fields)
        """What the next request resumes after."""

    @property
    def limits(self) -> Timeouts:
        """Those of the next request; the first one begins the time for the whole."""
        limits = self._limits
        if limits.total is not None and not isinstance(limits, Until):
            self._limits = limits = Until.begin(limits, monotonic)
        return limits

    def fields(self) -> list[Field]:
        """The fields of the next request."""
        if not self.last_event_id:
            return self._fields
        kept = [field for field in self._fields if not _is_last_event_id(field)]
        # As browsers do: the field is in UTF-8.
        return [*kept, ("last-event-id", self.last_event_id.encode())]

    def begin(self, response: BaseResponse, refused: bytes) -> bool:
        """Whether the response is a stream of events; False: the server wants to end it.

        `refused` is the begin of its content, where it `is_refused`.

        Raises:
            StreamRefused: it is another response.
        """
        if response.status == _NO_CONTENT:
            return False
        if not is_stream(response):
            raise self._refusal(response, refused)
        self._was_there = True
        self._barren += 1
        self._parser = response.event_parser(self.last_event_id)
        return True

    def take(self, piece: bytes) -> list[Event]:
        """The events that end in the next piece of content."""
        parser = self._parser
        assert parser is not None  # noqa: S101 - `begin` made it
        events = parser.take(piece)
        self.last_event_id = parser.last_event_id
        if parser.retry is not None:
            self._retry_s = min(parser.retry / 1000, LONGEST_RETRY_S)
        if events:
            self._failures = self._barren = 0
        return events

    def pause(self, error: Error | None) -> float | None:
        """Seconds until the stream, which ended or failed, is asked for again; None: it is over.

        What failed is raised by the caller then.

        Raises:
            TotalTimeout: the time for the whole is over before that.
        """
        if not self.reconnects or (error is not None and _is_lasting(error)):
            return None
        if error is not None and not self._was_there:
            return None
        if isinstance(error, StreamRefused) and error.error_code not in _PASSING:
            return None
        if error is not None:
            self._failures += 1
        if self._failures > MOST_FAILURES:
            return None
        futile = max(self._failures - 1, self._barren)
        wait = self._retry_s
        if futile:
            # Twice as long each time; the exponent is that of more than the longest.
            wait = max(wait, SHORTEST_RETRY_S) * 2.0 ** min(futile - 1, 10)
            wait = min(wait, LONGEST_RETRY_S)
        limits = self._limits
        if isinstance(limits, Until) and limits.left() <= wait:
            over: TotalTimeout = total_timeout(self._url, limits.total)
            raise over from error
        return wait

    def _refusal(self, response: BaseResponse, refused: bytes) -> StreamRefused:
        kind = response.headers.get("content-type", "no content-type")
        status = response.status
        said = f"status {status}" if status != 200 else f"{kind!r}"
        return StreamRefused(
            f"{self._url} answered with {said}, and not with a stream of events ({MEDIA_TYPE}):"
            " the error's `content` has what it said",
            content=refused,
            stream_id=response.stream_id,
            error_code=status,
        )


def _is_lasting(error: Error) -> bool:
    """Whether it will be so the next time: the caller's mistake, or what the server sends."""
    return isinstance(error, LocalError | DecodingError | TotalTimeout | errors.LimitExceeded)


def has_content(options: Mapping[str, Any]) -> bool:
    """Whether the options of a request give it content."""
    return any(options.get(name) is not None for name in ("json", "data", "files"))


def is_stream(response: BaseResponse) -> bool:
    """Whether a response is a stream of events."""
    kind = response.headers.get("content-type", "").partition(";")[0]
    return response.status == 200 and kind.strip().lower() == MEDIA_TYPE


def _is_last_event_id(field: Field) -> bool:
    name = field[0]
    return (name if isinstance(name, str) else name.decode("latin-1")).lower() == "last-event-id"


def _given_id(fields: list[Field]) -> str:
    """The id after which the caller wants the stream to begin."""
    for field in fields:
        if _is_last_event_id(field):
            value = field[1]
            return value if isinstance(value, str) else value.decode("utf-8", "replace")
    return ""


def is_refused(response: BaseResponse) -> bool:
    """Whether a response is no stream: the begin of its content is for the error that tells so."""
    return response.status != _NO_CONTENT and not is_stream(response)
