"""Long streams, over both faces, from other people's servers: events, lines, both directions."""

from __future__ import annotations

import gc
import json
import queue
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from client.face import AnyClient, Each, MakeClient
from client.waits import PATIENCE_S
from peers.streams import Streams
from trilane.client import errors

MIB = 1 << 20


@pytest.fixture
def peer(streaming: Streams) -> Streams:
    return streaming


@pytest.fixture
def client(make_client: MakeClient, peer: Streams, version: str) -> AnyClient:
    return make_client(versions=(version,), verify=peer.ca)


def test_events_go_on_after_the_last_that_was_had(
    client: AnyClient, peer: Streams, version: str
) -> None:
    with client.events(peer.url(version, "/numbers")) as events:
        had = list(events)
        assert events.last_event_id == "6"
    assert [event.json() for event in had] == [{"n": number} for number in range(1, 7)]
    assert [(event.event, event.id) for event in had] == [("number", str(n)) for n in range(1, 7)]


def test_events_come_without_reconnection_too(
    client: AnyClient, peer: Streams, version: str
) -> None:
    events = client.events(peer.url(version, "/numbers"), reconnect=False)
    assert [event.id for event in events] == ["1", "2"]


def test_events_begin_after_a_given_id(client: AnyClient, peer: Streams, version: str) -> None:
    given = {"Last-Event-ID": "4"}
    events = client.events(peer.url(version, "/numbers"), headers=given)
    assert [event.id for event in events] == ["5", "6"]


def test_a_server_that_is_away_for_a_while(client: AnyClient, peer: Streams, version: str) -> None:
    events = client.events(peer.url(version, f"/gone?name={uuid.uuid4()}"))
    assert [event.data for event in events] == ["1", "4"]


def test_events_of_a_post(client: AnyClient, peer: Streams, version: str) -> None:
    url = peer.url(version, "/words")
    with client.events(url, method="POST", content=b"to be or not") as events:
        assert [event.data for event in events] == ["to", "be", "or", "not", "[DONE]"]
    with client.events(url, method="POST", json={"a": 1}) as events:
        assert next(events).json() == {"a": 1}


def test_what_is_no_stream_of_events(client: AnyClient, peer: Streams, version: str) -> None:
    with pytest.raises(errors.StreamRefused, match="'text/html'") as caught:
        next(client.events(peer.url(version, "/page")))
    assert caught.value.content == b"<p>no events here"
    with pytest.raises(errors.StreamRefused, match="status 403") as caught:
        next(client.events(peer.url(version, "/denied")))
    assert json.loads(caught.value.content) == {"error": "no key"}
    # Its connection can be used again.
    assert len(client.connections) == 1


def test_an_event_without_end_is_refused(
    make_client: MakeClient, peer: Streams, version: str
) -> None:
    client = make_client(versions=(version,), verify=peer.ca, max_content=MIB)
    with pytest.raises(errors.LimitExceeded, match="max_content=1048576"):
        next(client.events(peer.url(version, "/endless"), reconnect=False))


def test_a_stream_is_left_in_the_middle(client: AnyClient, peer: Streams, version: str) -> None:
    with client.events(peer.url(version, "/numbers")) as events:
        assert next(events).id == "1"
    with pytest.raises(StopIteration):
        next(events)
    with client.stream("GET", peer.url(version, "/numbers")) as response:
        first = next(iter(response.iter_events()))
    assert (first.event, first.json()) == ("number", {"n": 1})


def test_nobody_there_is_told_at_once(client: AnyClient) -> None:
    with pytest.raises(errors.ConnectFailed):
        next(client.events("http://127.0.0.1:1/"))


def test_a_wrong_option_is_named(client: AnyClient) -> None:
    with pytest.raises(TypeError, match="tiemout"):
        next(client.events("http://127.0.0.1:1/", tiemout=1))


def test_lines_of_json(client: AnyClient, peer: Streams, version: str) -> None:
    with client.stream("GET", peer.url(version, "/lines")) as response:
        assert list(response.iter_json_lines()) == [{"n": 1}, {"n": "ä"}, []]
    response = client.get(peer.url(version, "/lines"))
    assert list(response.iter_json_lines()) == [{"n": 1}, {"n": "ä"}, []]


def test_a_line_that_is_no_json_is_named(client: AnyClient, peer: Streams, version: str) -> None:
    url = peer.url(version, "/echo")
    with client.stream("POST", url, content=b"1\n\nx\n") as response:
        values = response.iter_json_lines()
        assert next(values) == 1
        with pytest.raises(ValueError, match=f"line 3 of the content of {url} is not JSON"):
            next(values)


def test_a_conversation(client: AnyClient, peer: Streams, version: str) -> None:
    """Each piece is sent only when the one before it has come back."""
    answers: queue.Queue[bytes] = queue.Queue()

    def content() -> Iterator[bytes]:
        yield b"0"
        for number in range(1, 5):
            assert answers.get(timeout=PATIENCE_S) == b"%d" % (number - 1)
            yield b"%d" % number

    said = content()
    if not hasattr(client, "asynchronous"):
        given: Any = said
    else:
        given = _in_threads(said)
    with client.stream("POST", peer.url(version, "/echo"), content=given) as response:
        had = []
        for piece in response.iter_bytes():
            had.append(piece)
            answers.put(piece)
    assert had == [b"0", b"1", b"2", b"3", b"4"]


async def _in_threads(blocks: Iterator[bytes]) -> Any:
    import asyncio  # noqa: PLC0415

    while (block := await asyncio.to_thread(next, blocks, None)) is not None:
        yield block


@pytest.mark.parametrize(
    ("kind", "each", "mebibytes", "whole"),
    # Up to 64 MiB of the answer are read while a thread waits to write, whatever the version.
    [
        *(("blocking", "h1", 72, False), ("blocking", "h1", 72, True), ("asyncio", "h1", 8, True)),
        *(("asyncio", "h2", 8, False), ("blocking", "h3", 8, True)),
    ],
    indirect=["kind", "each"],
)
def test_more_than_anything_buffers_in_both_directions(
    each: Each, mebibytes: int, whole: bool
) -> None:
    client, _, base = each
    url, block = f"{base}/echo", bytes(range(256)) * 4096

    def content() -> Iterator[bytes]:
        for _ in range(mebibytes):
            yield block

    if whole:
        answer = client.post(url, content=content()).content
        assert len(answer) == mebibytes * MIB
        assert answer == block * mebibytes
        return
    had = 0
    with client.stream("POST", url, content=content()) as response:
        for piece in response.iter_bytes():
            at = had % 256
            assert piece[:16] == (block[:512])[at : at + len(piece[:16])]
            had += len(piece)
    assert had == mebibytes * MIB


def test_content_that_fails_ends_the_response(
    client: AnyClient, peer: Streams, version: str
) -> None:
    class OwnError(Exception):
        pass

    def content() -> Iterator[bytes]:
        yield b"first"
        raise OwnError("no more")

    with (
        pytest.raises(OwnError, match="no more"),
        client.stream("POST", peer.url(version, "/echo"), content=content()) as response,
    ):
        for _ in response.iter_bytes():
            pass


def test_an_answer_that_is_left_ends_the_upload(
    client: AnyClient, peer: Streams, version: str
) -> None:
    ended: queue.Queue[bool] = queue.Queue()

    def content() -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 65_536
        finally:
            ended.put(True)

    with client.stream("POST", peer.url(version, "/echo"), content=content()) as response:
        assert response.read(10) == b"x" * 10
    # A response on a loop keeps its request; an exception and its frame hold each other.
    del response
    gc.collect()
    assert ended.get(timeout=PATIENCE_S)
    # A new request finds its way.
    assert client.post(peer.url(version, "/echo"), content=b"again").content == b"again"
