"""`get_all`: many requests from one thread. Only `Client` has it: asyncio has `gather`."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from lab.contenders.counting import CountingRelay
from peers import chaos, h2_chaos
from peers.peer import Peer
from trilane.client import Retries, errors
from trilane.client._pool import Client
from trilane.client._pool.response import Response

Each = tuple[Client, str, str]


@pytest.fixture
def kind() -> str:
    return "blocking"


def test_responses_come_in_order(each: Each) -> None:
    client, version, base = each
    sizes = [(number * 37) % 3000 for number in range(200)]
    responses = list(client.get_all(f"{base}/bytes/{size}" for size in sizes))
    assert [len(response.content) for response in responses] == sizes
    assert {response.version for response in responses} == {version}
    assert len(client.connections) <= (6 if version == "h1" else 1)


def test_one_connection_for_all(server: Peer) -> None:
    url = server.url("h2")
    port = urlsplit(url).port
    assert port is not None
    with (
        CountingRelay(port) as relay,
        Client(versions=("h2", "h1"), verify=str(server.ca), timeout=60.0) as client,
    ):
        through = url.replace(str(port), str(relay.port))
        assert all(r.content == b"hello world" for r in client.get_all([through] * 500))
        assert relay.tcp == 1


def test_urls_are_taken_as_they_are_sent(each: Each) -> None:
    client, _, base = each
    taken = itertools.count()
    urls = (f"{base}/bytes/{next(taken)}" for _ in itertools.count())
    responses = client.get_all(urls, ahead=5)
    assert [len(next(responses).content) for _ in range(20)] == list(range(20))
    assert next(taken) <= 26
    responses.close()  # type: ignore[attr-defined]
    assert client.get(f"{base}/hello").status == 200


def test_large_responses_do_not_stall_each_other(each: Each) -> None:
    client, _, base = each
    responses = client.get_all([f"{base}/bytes/1m"] * 8)
    assert [len(response.content) for response in responses] == [1 << 20] * 8


def test_several_origins(client: Client, server: Peer) -> None:
    urls = [server.url(listener) for listener in ("h1", "h2")] * 20
    assert [r.version for r in client.get_all(urls)] == ["h1", "h2"] * 20


def test_its_own_requests_may_take_all_the_room(server: Peer) -> None:
    with Client(max_connections=1, timeout=60.0) as client:
        assert len(list(client.get_all([server.url("h1")] * 20))) == 20


def test_threads_each_with_many(client: Client, server: Peer) -> None:
    counts: list[int] = []

    def run() -> None:
        counts.append(len(list(client.get_all([server.url("h2")] * 100))))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [100] * 8


def test_goaway_and_refusals_are_not_seen() -> None:
    for script in (h2_chaos.goaway_each(7), h2_chaos.reset_each(3, 7)):
        with (
            Client(versions=("h2",), timeout=60.0) as client,
            chaos.serve(script) as server,
        ):
            assert {r.content for r in client.get_all([server.base] * 60)} == {b"hello world"}


def test_an_error_ends_the_iteration(each: Each) -> None:
    client, _, base = each
    urls = [f"{base}/hello", f"{base}/hello", "http://nowhere.invalid/", f"{base}/hello"]
    got: list[Response] = []
    with pytest.raises(errors.ConnectFailed):
        got.extend(client.get_all(urls, ahead=1))
    with pytest.raises(ValueError, match="at least 1"):
        client.get_all(urls, ahead=0)
    assert client.get(f"{base}/hello").status == 200


@pytest.mark.parametrize("bad", ["ftp://a/", "http://127.0.0.1:1/", "http://[::1"])
@pytest.mark.parametrize("retries", [0, 1])
def test_a_bad_url_discards_no_good_answer(
    client: Client, server: Peer, bad: str, retries: int
) -> None:
    good = server.url("h2")
    urls = [good, good, bad, good, bad, good]
    options: Any = {"retries": Retries(retries, backoff=0.0)}
    got: list[Response] = []

    def take() -> None:
        for response in client.get_all(urls, **options):
            got.append(response)  # noqa: PERF402 - what came before the error counts

    with pytest.raises(errors.Error):
        take()
    assert [response.content for response in got] == [b"hello world"] * 2
    both = list(client.get_all(urls, return_exceptions=True, **options))
    failed = [isinstance(each, errors.Error) for each in both]
    assert failed == [False, False, True, False, True, False]
    assert {each.content for each in both if isinstance(each, Response)} == {b"hello world"}


def _content(answer: Response | Exception) -> bytes:
    assert isinstance(answer, Response)
    return answer.content


@pytest.mark.parametrize("keeps", [False, True])
def test_an_error_of_the_iterable_discards_no_answer(each: Each, keeps: bool) -> None:
    client, _, base = each

    def urls() -> Iterator[str]:
        yield from [f"{base}/hello"] * 9
        raise KeyError("ten")

    got: list[bytes] = []
    with pytest.raises(KeyError, match="ten"):
        got.extend(_content(one) for one in client.get_all(urls(), return_exceptions=keeps))
    assert got == [b"hello world"] * 9


def test_options_hold_for_all(each: Each) -> None:
    client, _, base = each
    urls = [f"{base}/headers"] * 3
    for response in client.get_all(urls, headers={"X-Mine": "1"}, timeout=60.0):
        assert "x-mine" in response.text.lower()


def test_more_than_the_server_has_streams(each: Each) -> None:
    client, _, base = each
    assert {r.status for r in client.get_all([f"{base}/hello"] * 1500, ahead=1200)} == {200}
