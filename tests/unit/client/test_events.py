"""Server-sent events: the format, piece by piece, and when a stream is asked for again.

The cases are those of the HTML standard and of web-platform-tests (eventsource/format-*).
"""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilane.client import errors
from trilane.client._flow import events as events_of
from trilane.client._flow.events import (
    LONGEST_RETRY_S,
    MOST_FAILURES,
    RETRY_S,
    Event,
    EventParser,
    Subscription,
)
from trilane.client._flow.timeouts import Timeouts


class TooLongError(Exception):
    """What a parser raises whose event is too long."""


def parser(most: int | None = None, last: str = "") -> EventParser:
    return EventParser(most, TooLongError, last)


def seen(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(event.event, event.data, event.id) for event in events]


CASES: dict[str, tuple[bytes, list[tuple[str, str, str]]]] = {
    "the standard's stocks": (
        b"data: YHOO\ndata: +2\ndata: 10\n\n",
        [("message", "YHOO\n+2\n10", "")],
    ),
    "the standard's ids": (
        (
            b": test stream\n\ndata: first event\nid: 1\n\n"
            b"data:second event\nid\n\ndata:  third event\n\n"
        ),
        [
            ("message", "first event", "1"),
            ("message", "second event", ""),
            ("message", " third event", ""),
        ],
    ),
    "the standard's empty data": (
        b"data\n\ndata\ndata\n\ndata:",
        [("message", "", ""), ("message", "\n", "")],
    ),
    "the standard's space": (b"data:test\n\ndata: test\n\n", [("message", "test", "")] * 2),
    "byte order mark": (
        b"\xef\xbb\xbfdata:1\n\n\xef\xbb\xbfdata:2\n\ndata:3\n\n",
        [("message", "1", ""), ("message", "3", "")],
    ),
    "two byte order marks": (
        b"\xef\xbb\xbf\xef\xbb\xbfdata:1\n\ndata:2\n\n",
        [("message", "2", "")],
    ),
    "comments": (
        b"data:1\r:\0\n:\r\ndata:2\n:x\rdata:3\n:data:fail\r:x\ndata:4\n\n",
        [("message", "1\n2\n3\n4", "")],
    ),
    "field names": (
        b"data:1\n data:no\ndata\ndata:2\ndata :no\nDATA:no\n\n",
        [("message", "1\n\n2", "")],
    ),
    "ends of lines": (
        b"data:a\rdata:b\r\ndata:c\n\rdata:d\r\r",
        [("message", "a\nb\nc", ""), ("message", "d", "")],
    ),
    "an id with NUL": (
        b"id:1\ndata:a\n\nid:2\x003\ndata:b\n\n",
        [("message", "a", "1"), ("message", "b", "1")],
    ),
    "an id without data": (b"id: 7\n\ndata: a\n\n", [("message", "a", "7")]),
    "types": (
        b"event: a\ndata:x\n\ndata:x\n\nevent: b\n\ndata:x\n\nevent:\ndata:x\n\n",
        [("a", "x", ""), ("message", "x", ""), ("message", "x", ""), ("message", "x", "")],
    ),
    "not ended": (b"data: a\n\ndata: b\n", [("message", "a", "")]),
    "wrong UTF-8": (b"data:ok\xff\xe2\x82\xac\n\n", [("message", "ok\ufffd\u20ac", "")]),
    "no other ends of lines": (
        "data:a\x0bb\x0cc\x1cd\u2028e\x85\n\n".encode(),
        [("message", "a\x0bb\x0cc\x1cd\u2028e\x85", "")],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_the_format(name: str, size: int) -> None:
    content, wanted = CASES[name]
    made = parser()
    events: list[Event] = []
    for at in range(0, len(content), size):
        events += made.take(content[at : at + size])
    assert seen(events) == wanted


@given(st.lists(st.sampled_from([b"data", b"id", b":", b" ", b"\r", b"\n", b"\xef\xbb\xbf", b"a"])))
def test_pieces_do_not_matter(parts: list[bytes]) -> None:
    whole, pieces = parser(), parser()
    once = whole.take(b"".join(parts))
    one_by_one = [event for part in parts for event in pieces.take(part)]
    assert seen(once) == seen(one_by_one)
    assert whole.last_event_id == pieces.last_event_id


def test_an_event_ends_with_its_empty_line_and_not_a_byte_later() -> None:
    made = parser()
    assert made.take(b"data: a\r") == []
    assert seen(made.take(b"\r")) == [("message", "a", "")]
    # The line feed of it begins no line.
    assert made.take(b"\ndata: b\r\n\r") != []
    assert made.take(b"\n") == []


def test_retry() -> None:
    made = parser()
    events = made.take(b"retry: 10\ndata: a\n\ndata: b\n\nretry: 1.5\nretry:x\nretry:\ndata: c\n\n")
    assert [event.retry for event in events] == [10, None, None]
    assert made.retry == 10
    made.take(b"retry: " + b"9" * 10_000 + b"\n\n")
    assert made.retry == 999_999_999_999


def test_json() -> None:
    (event,) = parser().take(b'data: {"a":\ndata: 1}\n\n')
    assert event.json() == {"a": 1}
    assert repr(event) == """Event('message', '{"a":\\n1}', id='', retry=None)"""
    (event,) = parser().take(b"data: [DONE]\n\n")
    with pytest.raises(json.JSONDecodeError):
        event.json()


@pytest.mark.parametrize("content", [b"data: " + b"x" * 100, b"data: x\n" * 20, b": x\n" * 40])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_long_event_is_refused(content: bytes, size: int) -> None:
    made = parser(most=99)

    def take_all() -> None:
        for at in range(0, len(content), size):
            made.take(content[at : at + size])

    with pytest.raises(TooLongError):
        take_all()


def test_what_has_ended_counts_no_more() -> None:
    made = parser(most=20)
    assert len(made.take(b"data: 123456789\n\n" * 50)) == 50


def _subscription(**settings: Any) -> Subscription:
    given: dict[str, Any] = {"reconnect": None, "is_plain": True, "content": None, "headers": None}
    given |= {"limits": Timeouts(), **settings}
    return Subscription("http://a/", **given)


def _response(status: int = 200, kind: str = "text/event-stream") -> Any:
    response = Mock(status=status, headers={"content-type": kind}, stream_id=1)
    response.event_parser.side_effect = lambda last: parser(last=last)
    return response


def _names(subscription: Subscription) -> dict[Any, Any]:
    return dict(subscription.fields())


def test_the_next_request_says_what_was_had() -> None:
    subscription = _subscription(headers={"Accept": "text/event-stream;v=1", "x": "y"})
    assert _names(subscription) == {
        "cache-control": "no-store",
        "Accept": "text/event-stream;v=1",
        "x": "y",
    }
    assert subscription.begin(_response(), b"")
    subscription.take("id: ä\ndata: x\n\nid: 9\ndata: cut".encode())
    assert subscription.last_event_id == "ä"
    assert _names(subscription)["last-event-id"] == "ä".encode()


def test_a_given_id_is_replaced() -> None:
    subscription = _subscription(headers={"Last-Event-ID": "3"})
    assert [name.lower() for name, _ in subscription.fields()].count("last-event-id") == 1
    assert subscription.begin(_response(), b"")
    subscription.take(b"id: 4\ndata: x\n\n")
    values = [value for name, value in subscription.fields() if name.lower() == "last-event-id"]
    assert values == [b"4"]


@pytest.mark.parametrize(
    ("said", "wait"),
    [(b"", RETRY_S), (b"retry: 50\n\n", 0.05), (b"retry: 9999999\n\n", LONGEST_RETRY_S)],
)
def test_the_server_says_when(said: bytes, wait: float) -> None:
    subscription = _subscription()
    assert subscription.begin(_response(), b"")
    subscription.take(said + b"data: x\n\n")
    assert subscription.pause(None) == wait


def test_streams_without_events_are_asked_for_less_and_less() -> None:
    subscription = _subscription()
    waits = []
    for _ in range(30):
        assert subscription.begin(_response(), b"")
        subscription.take(b"retry: 0\n: nothing\n\n")
        waits.append(subscription.pause(None))
    assert waits[:4] == [0.1, 0.2, 0.4, 0.8]
    assert waits[-1] == LONGEST_RETRY_S


def test_what_fails_again_and_again_is_given_up() -> None:
    subscription = _subscription()
    lost = errors.ConnectionClosed("gone")
    # Before there was any, the caller knows better.
    assert subscription.pause(lost) is None
    assert subscription.begin(_response(), b"")
    subscription.take(b"retry: 10\ndata: x\n\n")
    waits = [subscription.pause(lost) for _ in range(MOST_FAILURES + 1)]
    assert waits[0] == 0.01
    assert waits[1:4] == [0.1, 0.2, 0.4]
    assert waits[-1] is None


def test_heads_alone_do_not_keep_it_going() -> None:
    subscription = _subscription()
    waits = []
    while None not in waits:
        assert subscription.begin(_response(), b"")
        subscription.take(b": nothing\n\n")
        waits.append(subscription.pause(errors.StreamReset("again")))
    assert len(waits) == MOST_FAILURES + 1
    # An event is a new begin.
    subscription.take(b"data: x\n\n")
    assert subscription.pause(errors.StreamReset("again")) is not None


@pytest.mark.parametrize("kind", ["LimitExceeded", "DecodingError", "TotalTimeout"])
def test_what_will_be_so_again_ends_it(kind: str) -> None:
    subscription = _subscription()
    assert subscription.begin(_response(), b"")
    subscription.take(b"data: x\n\n")
    assert subscription.pause(getattr(errors, kind)("too much")) is None


def test_the_time_for_the_whole_is_that_of_all_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(events_of, "monotonic", lambda: now[0])
    subscription = _subscription(limits=Timeouts(read=5.0, total=8.0))
    assert subscription.limits.read == 5.0
    assert subscription.begin(_response(), b"")
    subscription.take(b"data: x\n\n")
    assert subscription.pause(None) == RETRY_S
    now[0] += 4.0
    assert subscription.limits.read == 4.0
    subscription.take(b"data: x\n\n")
    now[0] += 1.0
    lost = errors.ConnectionClosed("gone")
    with pytest.raises(errors.TotalTimeout, match=r"http://a/ .* within 8\.0 s") as caught:
        subscription.pause(lost)
    assert caught.value.__cause__ is lost


def test_what_is_not_asked_for_again() -> None:
    posted = _subscription(is_plain=False, content=b"x")
    assert not posted.reconnects
    assert posted.begin(_response(), b"")
    assert posted.pause(None) is None
    again = _subscription(is_plain=False, content=b"x", reconnect=True)
    assert again.begin(_response(), b"")
    assert again.pause(None) is not None
    # The caller's own mistake, and an answer that will stay what it is.
    assert again.pause(errors.InvalidRequest("no")) is None
    assert again.pause(errors.StreamRefused("no", error_code=403)) is None
    assert again.pause(errors.StreamRefused("later", error_code=503)) is not None
    with pytest.raises(ValueError, match="list_iterator"):
        _subscription(content=iter([b"a"]), reconnect=True)


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [(200, "text/html", "'text/html'"), (500, "text/event-stream", "status 500")],
)
def test_another_answer_is_an_error(status: int, kind: str, said: str) -> None:
    subscription = _subscription()
    with pytest.raises(errors.StreamRefused) as caught:
        subscription.begin(_response(status, kind), b"why")
    assert said in str(caught.value)
    assert (caught.value.error_code, caught.value.content) == (status, b"why")


def test_204_ends_it() -> None:
    assert not _subscription().begin(_response(204), b"")
    assert _subscription().begin(_response(200, "Text/Event-Stream ; charset=utf-8"), b"")
