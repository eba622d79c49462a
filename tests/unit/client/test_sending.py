"""What is sent, and sent again, alike by all clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from trilane.client._flow.repeating import MOST_ATTEMPTS
from trilane.client._flow.timeouts import Timeouts
from trilane.client.errors import (
    ConnectionClosed,
    Error,
    Full,
    GoAway,
    ReadTimeout,
    RemoteProtocolError,
    StreamReset,
    WriteTimeout,
)

from .script import CLIENTS, FACES, Answer, Server, Silence, client_of

URL = "https://example.org/"
# The native part says so of a connection that had ended before it was given the request.
UNSENT = ConnectionClosed("it had ended", retryable=True)


@pytest.fixture(params=CLIENTS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    """Also the shape of `http.client`, which has one connection and tries twice at most."""
    return str(request.param)


@pytest.mark.parametrize("error", [UNSENT, GoAway("gone", retryable=True)])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_was_not_sent_may_be_sent_by_any_method(
    kind: str, method: str, error: ConnectionClosed | GoAway
) -> None:
    server = Server(error, error, Answer(200, content=b"hello"))
    with client_of(kind, server) as client:
        assert client.request(method, URL, content=b"x").content == b"hello"
    assert [request[1] for request in server.requests] == [method] * 3


@pytest.mark.parametrize("version", ["h1", "h2", "h3"])
def test_a_connection_that_lay_idle_is_looked_at_before_it_is_used(kind: str, version: str) -> None:
    server = Server(Answer(200), Answer(200), Answer(200), version=version)
    with client_of(kind, server, versions=(version,)) as client:
        for _ in range(2):
            assert client.request("POST", URL).status == 200
        server.connections[0].alive = False
        assert client.request("POST", URL).status == 200
    first, second = server.connections
    assert [connection for connection, *_ in server.requests] == [first, first, second]
    assert first.closed


def test_what_is_never_sent_ends(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilane.client._flow.repeating._LONGEST_PAUSE_S", 0.0)
    server = Server(*[UNSENT] * 1000)
    with client_of(kind, server) as client, pytest.raises(ConnectionClosed):
        client.request("POST", URL)
    assert len(server.requests) == MOST_ATTEMPTS


def test_other_errors_of_sending_are_raised(kind: str) -> None:
    server = Server(StreamReset("no"), Answer(200))
    with client_of(kind, server) as client:
        with pytest.raises(StreamReset):
            client.request("GET", URL)
        assert client.request("GET", URL).status == 200


def test_an_alternative_is_left_alone_for_what_was_sent_only(kind: str) -> None:
    """A connection that ended while it lay idle is none that failed."""
    announced = [("alt-svc", 'h3=":444"')]
    server = Server(Answer(200, announced), Answer(200), UNSENT, Answer(200))
    with client_of(kind, server) as client:
        for _ in range(3):
            assert client.request("GET", URL).status == 200
    versions = [connection.version for connection, *_ in server.requests]
    assert versions == ["h2", "h3", "h3", "h3"]
    assert [connection.version for connection in server.connections] == ["h2", "h3", "h3"]
    assert ("alt-used", "example.org:444") in server.requests[1][3]
    assert ("alt-used", "example.org:444") not in server.requests[0][3]


@pytest.mark.parametrize(
    "failure",
    [
        ReadTimeout("silent"),
        StreamReset("each time"),
        RemoteProtocolError("its control stream was closed"),
        WriteTimeout("takes nothing"),
    ],
)
def test_an_alternative_that_fails_before_it_has_answered_is_left_alone(
    kind: str, failure: Error
) -> None:
    announced = [("alt-svc", 'h3=":444"')]
    server = Server(Answer(200, announced), Answer(0, fails=failure), *[Answer(200)] * 7)
    with client_of(kind, server) as client:
        assert client.request("GET", URL).status == 200
        with pytest.raises(type(failure)):
            client.request("GET", URL)
        for _ in range(7):
            assert client.request("GET", URL).status == 200
    versions = [connection.version for connection, *_ in server.requests]
    assert versions == ["h2", "h3"] + ["h2"] * 7


def test_what_a_broken_alternative_has_not_processed_goes_to_the_origin(kind: str) -> None:
    announced = [("alt-svc", 'h3=":444"')]
    refused = Answer(0, fails=GoAway("of stream 0", retryable=True))
    server = Server(Answer(200, announced), refused, Answer(200), Answer(200))
    with client_of(kind, server) as client:
        for method in ("GET", "POST", "GET"):
            assert client.request(method, URL).status == 200
    assert [connection.version for connection, *_ in server.requests] == ["h2", "h3", "h2", "h2"]


def test_an_alternative_that_has_answered_may_fail_once(kind: str) -> None:
    announced = [("alt-svc", 'h3=":444"')]
    reset = Answer(0, fails=StreamReset("once"))
    server = Server(Answer(200, announced), Answer(200), reset, Answer(200))
    with client_of(kind, server) as client:
        for _ in range(2):
            assert client.request("GET", URL).status == 200
        with pytest.raises(StreamReset):
            client.request("GET", URL)
        assert client.request("GET", URL).status == 200
    assert [connection.version for connection, *_ in server.requests] == ["h2", "h3", "h3", "h3"]


@pytest.mark.parametrize("code", [0xB, 0x107])
def test_who_is_told_to_calm_down_asks_once_more(
    kind: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilane.client._flow.repeating._LONGEST_PAUSE_S", 0.0)
    server = Server(*[GoAway("calm down", error_code=code, retryable=True)] * 20)
    with client_of(kind, server) as client, pytest.raises(GoAway) as caught:
        client.request("GET", URL)
    assert caught.value.retryable
    assert len(server.requests) == 2


def test_a_misdirected_request_goes_to_the_origin(kind: str) -> None:
    announced = [("alt-svc", 'h3=":444"')]
    server = Server(Answer(200, announced), Answer(421), Answer(200))
    with client_of(kind, server) as client:
        assert client.request("GET", URL).status == 200
        assert client.request("GET", URL).status == 200
    assert [connection.version for connection, *_ in server.requests] == ["h2", "h3", "h2"]


@pytest.mark.parametrize(
    ("informational", "status", "sent"),
    [
        ([100], 200, True),
        ([103, 100], 200, True),
        # As an echo does, which reads while it answers.
        ([], 200, True),
        ([103], 204, True),
        ([], 302, False),
        ([103], 417, False),
        ([], 500, False),
    ],
)
def test_content_that_waits_is_sent_unless_the_answer_needs_none(
    face: str, informational: list[int], status: int, sent: bool
) -> None:
    answer = Answer(status, informational=informational)
    with client_of(face, Server(answer)) as client:
        response = client.request("POST", URL, content=b"hello", expect_continue=True)
    assert response.status == status
    assert answer.written == (b"hello" if sent else b"")


STALLED = WriteTimeout("the server took no content", stream_id=1)


@pytest.mark.parametrize("error", [STALLED, StreamReset("enough"), ConnectionClosed("over")])
def test_an_answer_is_the_response_though_the_content_was_not_taken(
    face: str, error: Error
) -> None:
    server = Server(Answer(413, content=b"no", refuses=error))
    with client_of(face, server) as client:
        response = client.request("POST", URL, content=bytes(2 << 20))
    assert (response.status, response.content) == (413, b"no")


def test_a_response_that_waits_for_content_that_is_not_taken_is_a_write_timeout(kind: str) -> None:
    """Not a read timeout: an echo sends no more because nothing of its input is left."""
    late = ReadTimeout("nothing came from the server", stream_id=1)
    server = Server(Answer(200, content=b"some", refuses=STALLED, then=late))
    with (
        client_of(kind, server) as client,
        pytest.raises(WriteTimeout, match="took n"),
    ):
        client.request("POST", URL, content=bytes(2 << 20), timeout=Timeouts(read=0.01))


@pytest.mark.parametrize(
    ("error", "method", "repeated"),
    [
        (GoAway("gone", retryable=True), "POST", True),
        (GoAway("gone"), "GET", False),
        (StreamReset("refused", retryable=True), "POST", True),
        (StreamReset("no"), "GET", False),
        # A connection that was kept and has closed: likely not processed, and no proof.
        (ConnectionClosed("closed", retryable=True), "PUT", True),
        (ConnectionClosed("closed", retryable=True), "POST", False),
        (ConnectionClosed("closed"), "GET", False),
    ],
)
def test_what_was_sent_is_sent_again_by_one_rule(
    face: str, error: Error, method: str, repeated: bool
) -> None:
    server = Server(Answer(0, fails=error), Answer(200))
    with client_of(face, server) as client:
        if repeated:
            assert client.request(method, URL).status == 200
        else:
            with pytest.raises(type(error)):
                client.request(method, URL)
    assert len(server.requests) == 1 + repeated


THEIRS: list[Exception] = [
    GoAway("their own", retryable=True),
    ConnectionClosed("their own", retryable=True),
    StreamReset("their own"),
    WriteTimeout("their own"),
    ReadTimeout("their own"),
    Full("their own"),
    TimeoutError("their own"),
    BrokenPipeError("their own"),
    KeyError("their own"),
]
"""What the caller's own code may raise, perhaps of another client."""


def _content(error: Exception) -> Iterator[bytes]:
    yield b"some"
    raise error from ValueError("why")


async def _async_content(error: Exception) -> AsyncIterator[bytes]:
    for block in _content(error):
        yield block


@pytest.mark.parametrize("error", THEIRS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    ("face", "answer", "content"),
    [
        *((face, Silence, _content) for face in FACES),
        ("asyncio", Silence, _async_content),
        # A task takes the answer before it is asked for content.
        *((face, lambda: Answer(413), _content) for face in FACES if face != "asyncio"),
    ],
)
def test_what_the_content_raises_is_the_callers(
    face: str, answer: Callable[[], Answer], content: Callable[..., Any], error: Exception
) -> None:
    server = Server(answer(), Answer(200, content=b"hello"))
    with client_of(face, server) as client:
        with pytest.raises(type(error), match="their own") as caught:
            client.request("PUT", URL, content=content(error))
        assert caught.value is error
        assert isinstance(error.__cause__, ValueError)
        assert len(server.requests) == 1
        assert client.request("GET", URL).content == b"hello"


@pytest.mark.parametrize("error", THEIRS, ids=lambda error: type(error).__name__)
def test_what_a_function_of_the_caller_raises_is_the_callers(kind: str, error: Exception) -> None:
    def told(_status: int, _fields: object) -> None:
        raise error

    server = Server(Answer(200, informational=[103]), Answer(200, content=b"hello"))
    with client_of(kind, server) as client:
        with pytest.raises(type(error), match="their own") as caught:
            client.request("GET", URL, on_informational=told)
        assert caught.value is error
        assert len(server.requests) == 1
        assert client.request("GET", URL).content == b"hello"
