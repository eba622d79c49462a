"""What is sent again: the decisions without a clock, and what servers see of them."""

from __future__ import annotations

import asyncio
import threading
import time
from email.utils import formatdate
from typing import Any

import pytest

from client.face import AnyClient, MakeClient
from peers import chaos, h2_chaos
from trilane.client import Client, Retries, Timeouts, errors
from trilane.client._flow import steps
from trilane.client._flow.preparing import Prepared
from trilane.client._flow.repeating import seconds_of
from trilane.client._flow.steps import Drain, Load
from trilane.client.fields import Headers

from .recorder import Recorder

NOW = 1_800_000_000.0


class Answered:
    """As much of a response as decisions look at."""

    def __init__(self, status: int, **fields: str) -> None:
        self.status = status
        self.url = "http://localhost/"
        self.fields = [(name.replace("_", "-"), value) for name, value in fields.items()]
        self.headers = Headers(self.fields)
        self.history: list[Any] = []

    def has_field(self, name: str) -> bool:
        return name in self.headers


@pytest.fixture
def whole_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest pauses that may be drawn, at one time of day."""
    monkeypatch.setattr(steps, "_chance", lambda: 1.0)
    monkeypatch.setattr(time, "time", lambda: NOW)


def _driven(answers: list[Any], method: str = "GET", **options: Any) -> tuple[Any, list[float]]:
    """The outcome of a flow to which all of that happens, and its pauses: no second passes."""
    with Client(proxies=None) as client:
        flow = client._session.begin(method, "http://localhost/", options, whole=True)
        assert not isinstance(flow, Prepared)
        pauses: list[float] = []
        happens = iter(answers)
        step = next(flow)
        try:
            while True:
                if isinstance(step, Prepared):
                    answer = next(happens)
                    if isinstance(answer, Exception):
                        step = flow.throw(answer)
                    else:
                        step = flow.send(answer)
                    continue
                if isinstance(step, float):
                    pauses.append(step)
                else:
                    assert isinstance(step, Load | Drain)
                step = flow.send(None)
        except StopIteration as end:
            return end.value.status, pauses
        except errors.Error as error:
            return error, pauses
        finally:
            assert list(happens) == []


CLOSED = errors.ConnectionClosed("closed")
REFUSED_STREAM = errors.StreamReset("refused", error_code=7, retryable=True)
REFUSED = errors.ConnectionRefused("refused")
OK = Answered(200)


def test_pauses_double_and_end(whole_jitter: None) -> None:
    refusals = [Answered(503)] * 4
    assert _driven([*refusals, OK], retries=4) == (200, [0.5, 1.0, 2.0, 4.0])
    # The last response is the caller's.
    assert _driven([*refusals, Answered(503)], retries=4) == (503, [0.5, 1.0, 2.0, 4.0])
    policy = Retries(4, backoff=10.0, longest=25.0)
    assert _driven([*refusals, OK], retries=policy) == (200, [10.0, 20.0, 25.0, 25.0])
    assert _driven([Answered(503)], retries=0) == (503, [])
    assert _driven([Answered(500)], retries=9) == (500, [])
    policy = Retries(1, statuses=(500,), backoff=0)
    assert _driven([Answered(500), Answered(503)], retries=policy) == (503, [])


def test_pauses_are_drawn_from_nothing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    chances = iter([0.25, 0.5])
    monkeypatch.setattr(steps, "_chance", lambda: next(chances))
    assert _driven([Answered(502), Answered(504), OK], retries=2) == (200, [0.125, 0.5])


@pytest.mark.parametrize(
    ("error", "method", "again"),
    [
        (REFUSED, "POST", True),  # Nothing was sent.
        (errors.ResolveError("no such name"), "POST", True),
        (errors.ConnectTimeout("late"), "POST", True),
        (REFUSED_STREAM, "POST", True),  # The server says so.
        (errors.GoAway("going", retryable=True), "POST", True),
        (CLOSED, "GET", True),  # It may have been processed.
        (CLOSED, "POST", False),
        (errors.StreamReset("reset", error_code=2), "PUT", True),
        (errors.StreamReset("reset", error_code=2), "PATCH", False),
        (errors.ReadTimeout("late"), "DELETE", True),
        (errors.ReadTimeout("late"), "POST", False),
        (errors.IncompleteBody("cut"), "GET", True),
        (errors.TLSError("not trusted"), "GET", False),  # So it will be the next time.
        (errors.VersionUnavailable("no h3"), "GET", False),
        (errors.RemoteProtocolError("broken"), "GET", False),
        (errors.InvalidRequest("no URL"), "GET", False),
        (errors.PoolTimeout("all in use"), "GET", False),
    ],
    ids=lambda value: f"{type(value).__name__}" if isinstance(value, Exception) else None,
)
def test_proof_likelihood_and_no(
    whole_jitter: None, error: errors.Error, method: str, again: bool
) -> None:
    outcome = _driven([error, OK] if again else [error], method, retries=1)
    assert outcome == ((200, [0.5]) if again else (error, []))


def test_methods_are_the_callers_to_name(whole_jitter: None) -> None:
    policy = Retries(1, methods=["post"])
    assert _driven([CLOSED, OK], "POST", retries=policy) == (200, [0.5])
    assert _driven([Answered(503), OK], "POST", retries=policy) == (200, [0.5])
    assert _driven([Answered(503)], "POST", retries=1) == (503, [])


def test_retry_after(whole_jitter: None) -> None:
    def after(value: str, **options: Any) -> tuple[Any, list[float]]:
        first = Answered(429, retry_after=value)
        ends = options.pop("ends", False)
        return _driven([first] if ends else [first, OK], retries=Retries(1, **options))

    assert after("7") == (200, [7.0])
    assert after("0") == (200, [0.5])
    assert after("7", respect_retry_after=False) == (200, [0.5])
    assert after(formatdate(NOW + 30, usegmt=True)) == (200, [30.0])
    assert after(formatdate(NOW - 30, usegmt=True)) == (200, [0.5])
    assert after("soon") == (200, [0.5])
    assert after("-1") == (200, [0.5])
    # Beyond the bound the response is given at once.
    assert after("61", ends=True) == (429, [])
    assert after("9" * 400, ends=True) == (429, [])
    assert after("61", longest=61.0) == (200, [61.0])


@pytest.mark.parametrize("value", ["", "x", "Wed, 99 Foo 2026 99:99:99 GMT", "9" * 10_000, "١"])
def test_a_retry_after_of_any_kind(value: str) -> None:
    seconds = seconds_of(value, NOW)
    assert seconds is None or seconds >= 0


def test_no_pause_outlasts_the_whole_request(whole_jitter: None) -> None:
    limits = Timeouts(total=2.0)
    outcome = _driven([Answered(503, retry_after="5")], retries=3, timeout=limits)
    assert outcome == (503, [])


@pytest.mark.parametrize("bad", [{"total": -1}, {"backoff": -0.1}, {"longest": float("nan")}])
def test_policies_out_of_range(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"Retries\\({next(iter(bad))}="):
        Retries(**bad)


def test_policies_of_others_are_refused() -> None:
    with pytest.raises(TypeError, match="give a number, or Retries"):
        Client(retries="3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="total=-1"):
        Client(retries=-1)


@pytest.mark.parametrize("kind_of_call", ["get", "stream"])
def test_a_server_that_is_busy_is_asked_again(
    make_client: MakeClient, recorder: Recorder, kind_of_call: str
) -> None:
    client = make_client(retries=Retries(3, backoff=0))
    url = f"{recorder.base}/flaky?times=2&after=0&{kind_of_call}-{id(client)}"
    if kind_of_call == "get":
        assert client.get(url).status == 200
    else:
        with client.stream("GET", url) as response:
            assert response.status == 200
    assert len(recorder.forget()) == 3
    assert len(client.connections) <= 1


def test_content_that_was_cut_is_fetched_again(make_client: MakeClient) -> None:
    cut = threading.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        first, rest = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello", b" world"
        writer.write(first if not cut.is_set() else first + rest)
        cut.set()

    client = make_client(retries=Retries(1, backoff=0))
    with chaos.serve(script) as server:
        assert client.get(server.base).content == b"hello world"
        assert server.connections == 2
    cut.clear()
    with chaos.serve(script) as server, pytest.raises(errors.IncompleteBody):
        client.get(server.base, retries=0)


def _closes_each(count: int) -> chaos.Script:
    """HTTP/2 that ends each connection without a word, in the place of a `count`-th response."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = 0

        def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            served += 1
            if served == count:
                writer.close()
            else:
                writer.write(h2_chaos.response(stream))

        await h2_chaos.server(on_request)(reader, writer)

    return script


def test_a_connection_of_http_2_that_ends_is_replaced(make_client: MakeClient) -> None:
    """As a kept connection of HTTP/1.1, without `retries`."""
    client: AnyClient = make_client(versions=("h2",))
    with chaos.serve(_closes_each(3)) as server:
        for _ in range(7):
            assert client.get(server.base).content == b"hello world"
        assert server.connections == 4
    client = make_client(versions=("h2",))
    with chaos.serve(_closes_each(2)) as server:
        client.get(server.base)
        # It may have been processed.
        with pytest.raises(errors.ConnectionClosed):
            client.post(server.base, b"x")
    client = make_client(versions=("h2",))
    with chaos.serve(_closes_each(1)) as server:
        # Its first request may be why it ended.
        with pytest.raises(errors.ConnectionClosed):
            client.get(server.base)
        assert server.connections == 1
