"""What a response and a client have by the names that Requests and HTTPX have, by either client."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import requests

from client.face import AnyClient, Each, MakeClient
from client.waits import until
from peers import chaos
from trilane.client import AsyncClient, AsyncResponse, Client, Response, Timeouts, errors
from trilane.client._flow.links import links
from trilane.client._flow.text import DefaultEncoding
from trilane.client._flow.timeouts import Until

from .recorder import NO_TLS, Recorder


@pytest.fixture
def client(make_client: MakeClient) -> AnyClient:
    return make_client()


def test_what_a_response_tells(each: Each) -> None:
    client, _, base = each
    response = client.get(f"{base}/hello", headers={"X-A": "1"})
    assert response.status_code == response.status == 200
    assert response.ok
    assert response.is_success
    assert not response.is_redirect
    assert response.history == []
    assert 0 < response.elapsed.total_seconds() < 60
    assert (response.request.method, response.request.url) == ("GET", f"{base}/hello")
    assert response.request.headers["x-a"] == "1"
    assert response.encoding == "utf-8"
    assert response.raise_for_status() is response
    assert dict(response.cookies) == {}


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_raise_for_status(client: AnyClient, recorder: Recorder, status: int) -> None:
    url = f"{recorder.base}/status?status={status}"
    response = client.get(url)
    assert not response.ok
    with pytest.raises(errors.StatusError, match=rf"GET {recorder.base}.* {status} \w+") as caught:
        response.raise_for_status()
    error = caught.value
    assert error.status == status
    assert error.response.content == b"so it is"
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert (type(again), str(again), again.status) == (type(error), str(error), status)
    # The others raise for the same.
    with pytest.raises(requests.HTTPError):
        requests.get(url, timeout=60).raise_for_status()
    with pytest.raises(httpx.HTTPStatusError):
        httpx.get(url, trust_env=False, verify=NO_TLS).raise_for_status()


def test_the_encoding_can_be_set(client: AnyClient, recorder: Recorder) -> None:
    response = client.get(f"{recorder.base}/status?status=200")
    target: Any = getattr(response, "asynchronous", response)
    target.encoding = "utf-16-le"
    assert response.text == b"so it is".decode("utf-16-le")
    target.encoding = None
    assert response.text == "so it is"


def _cyrillic(content: bytes) -> str | None:
    """What a library that guesses gives: nothing where it has no idea."""
    return "cp1251" if b"\xef" in content else None


@pytest.mark.parametrize(
    ("default", "kind", "content", "text"),
    [
        ("utf-8", "text/plain", b"\xe4", "\ufffd"),
        ("latin-1", "text/plain", b"\xe4", "\xe4"),
        ("latin-1", "text/plain; charset=utf-8", b"\xc3\xa4", "\xe4"),
        ("latin-1", "text/plain; charset=nonsense", b"\xe4", "\xe4"),
        (_cyrillic, "text/plain", b"\xef\xf0\xe8", "\u043f\u0440\u0438"),
        (_cyrillic, "text/plain", b"\xc3\xa4", "\xe4"),
    ],
)
def test_the_encoding_of_content_that_names_none(
    make_client: MakeClient, default: DefaultEncoding, kind: str, content: bytes, text: str
) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
    with chaos.serve(chaos.answer(head.encode() + content)) as server:
        response = make_client(default_encoding=default).get(server.base)
        assert response.text == text
        assert httpx_reads(default, kind, content) == text
        kept = pickle.loads(pickle.dumps(getattr(response, "asynchronous", response)))  # noqa: S301
        assert kept.text == text


def httpx_reads(default: DefaultEncoding, kind: str, content: bytes) -> str:
    """The text that HTTPX makes of it."""
    headers = {"content-type": kind}
    guess: Any = default
    response = httpx.Response(200, headers=headers, content=content, default_encoding=guess)
    return response.text


def test_a_guess_that_is_no_encoding(make_client: MakeClient, recorder: Recorder) -> None:
    one = make_client(default_encoding=lambda _: "nonsense")
    assert one.get(f"{recorder.base}/status?status=200").text == "so it is"
    wrong: Any = make_client(default_encoding=lambda _: 3)
    with pytest.raises(TypeError, match="gave 3, not an encoding's name or None"):
        _ = wrong.get(f"{recorder.base}/status?status=200").text


def test_the_encoding_is_guessed_once(make_client: MakeClient, recorder: Recorder) -> None:
    asked: list[bytes] = []

    def guess(content: bytes) -> str:
        asked.append(content)
        return "latin-1"

    response = make_client(default_encoding=guess).get(f"{recorder.base}/status?status=200")
    assert (response.text, response.encoding, response.text) == (
        "so it is",
        "iso8859-1",
        "so it is",
    )
    assert asked == [b"so it is"]


def test_a_default_encoding_that_is_none() -> None:
    with pytest.raises(ValueError, match="Python knows no such encoding"):
        Client(default_encoding="hex")
    with pytest.raises(TypeError, match="give the name of an encoding"):
        Client(default_encoding=None)  # type: ignore[arg-type]


LINKS = [
    '<https://a/?page=2>; rel="next", <https://a/?page=9>; rel="last"',
    '<https://a/>; rel=next; type="text/html"',
]


@pytest.mark.parametrize("value", LINKS)
def test_links_are_as_requests_and_httpx_have_them(make_client: MakeClient, value: str) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nLink: {value}\r\n\r\n".encode()
    with chaos.serve(chaos.answer(head)) as server:
        found = make_client().get(server.base).links
        assert found == httpx.get(server.base, trust_env=False, verify=NO_TLS).links
        with requests.Session() as session:
            session.trust_env = False
            assert found == session.get(server.base).links


@pytest.mark.parametrize(
    "value", ["", ",", "<", "<" * 100_000, "<a>;" * 50_000, "<a>" + " " * 99_999]
)
def test_links_of_any_kind(value: str) -> None:
    assert isinstance(links(value), dict)


def test_a_comma_in_a_link_is_part_of_it() -> None:
    """RFC 8288 §3; the others cut there."""
    found = links('<https://a/,b;c>; rel="next, or not", <x>')
    assert found == {
        "next, or not": {"url": "https://a/,b;c", "rel": "next, or not"},
        "x": {"url": "x"},
    }


NAMES_OF_RESPONSES = sorted(
    {name for kind in (requests.Response, httpx.Response) for name in dir(kind)}
    | set(vars(requests.Response()))
    | {"http_version", "request", "stream", "extensions"}
)


@pytest.mark.parametrize("kind", [Response, AsyncResponse])
def test_every_name_of_the_others_is_here_or_named(kind: type) -> None:
    """None of them is an error that says nothing, but for what is private or pickles."""
    missing = []
    for name in NAMES_OF_RESPONSES:
        if name.startswith("_") or hasattr(kind, name):
            continue
        try:
            kind.__getattr__(object(), name)  # type: ignore[attr-defined]
        except AttributeError as error:
            if ": " not in str(error):
                missing.append(name)
    # What the other face has, what belongs to the other library's own parts.
    face = {
        "aclose",
        "aread",
        "aiter_bytes",
        "aiter_lines",
        "aiter_raw",
        "iter_bytes",
        "iter_lines",
    }
    face |= {"iter_raw", "connection", "default_encoding", "charset_encoding"}
    assert sorted(set(missing) - face) == []


def test_settings_can_be_changed(recorder: Recorder) -> None:
    with Client() as client:
        client.headers.update({"X-A": "1", "User-Agent": "me"})
        client.headers["x-b"] = "2"
        del client.headers["X-A"]
        client.auth = ("a", "b")
        client.params = {"p": "1"}
        client.cookies = {"c": "1"}
        client.base_url = recorder.base
        client.get("/x")
        [got] = recorder.forget()
        assert (got.field("x-a"), got.field("x-b"), got.field("user-agent")) == (None, "2", "me")
        assert got.field("authorization") is not None
        assert (got.path, got.field("cookie")) == ("/x?p=1", "c=1")
        client.auth = client.params = client.cookies = None
        client.follow_redirects = True
        assert client.get(recorder.redirect(302, "/end")).status == 200
        assert recorder.forget()[0].field("authorization") is None


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("name", ["verify", "timeout", "trust_env", "proxies", "hooks", "haeders"])
def test_a_setting_that_is_none_is_not_ignored(kind: type, name: str) -> None:
    client = kind()
    with pytest.raises(AttributeError, match=name):
        setattr(client, name, None)
    with pytest.raises(AttributeError, match=name):
        getattr(client, name)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("name", ["request", "stream", "get", "head", "post", "put", "patch"])
def test_signatures_name_every_option(kind: type, name: str) -> None:
    shown = inspect.signature(getattr(kind, name)).parameters
    assert {"params", "auth", "cookies", "follow_redirects", "retries", "timeout"} <= set(shown)
    assert ("data" in shown) == (name not in {"get", "head"})
    assert inspect.Parameter.VAR_KEYWORD not in {each.kind for each in shown.values()}


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("get", {"tiemout": 1}, "use timeout="),
    ("get", {"allow_redirects": True}, "use follow_redirects="),
    ("get", {"data": {}}, r'use request\("GET", url, data=...\)'),
    ("post", {"verify": False}, r"it is a setting of the client, \w+\(verify=...\)"),
    ("get", {"stream": True}, r"the method stream\(\)"),
]


@pytest.mark.parametrize(("name", "options", "way"), WRONG)
def test_a_wrong_keyword_names_the_right_one(
    client: AnyClient, name: str, options: dict[str, Any], way: str
) -> None:
    with pytest.raises(TypeError, match=way):
        getattr(client, name)("http://localhost/", **options)


def test_three_timeouts_are_none(client: AnyClient) -> None:
    with pytest.raises(TypeError, match=r"give seconds, \(connect, read\), or Timeouts"):
        client.get("http://localhost/", timeout=(1, 2, 3))  # type: ignore[arg-type]


DRIP = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"


async def _drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A byte now and then, well within every other limit."""
    await chaos.request(reader)
    writer.write(DRIP)
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def _drips_heads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Interim responses for ever."""
    await chaos.request(reader)
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


async def _redirects(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """To itself, for ever."""
    while True:
        await chaos.request(reader)
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n")
        await asyncio.sleep(0.02)


def _streamed(client: AnyClient, url: str, **options: Any) -> None:
    with client.stream("GET", url, **options) as response:
        for _ in response.iter_bytes():
            pass


def _whole(client: AnyClient, url: str, **options: Any) -> None:
    client.get(url, **options)


LIMITS = Timeouts(connect=60.0, read=60.0, write=60.0, pool=60.0, total=0.1)


@pytest.mark.parametrize("read", [_whole, _streamed])
@pytest.mark.parametrize("script", [_drips, chaos.silent, _redirects])
def test_the_whole_request_has_a_limit(
    make_client: MakeClient, script: chaos.Script, read: Callable[..., None]
) -> None:
    client = make_client(max_redirects=1_000_000)
    with chaos.serve(script) as server:
        with pytest.raises(errors.TotalTimeout, match=r"not done within 0\.1 s"):
            read(client, server.base, timeout=LIMITS, follow_redirects=True)
        until(lambda: client.connections == [])


def test_interim_responses_do_not_prolong_it(client: AnyClient) -> None:
    with chaos.serve(_drips_heads) as server, pytest.raises(errors.Error):
        client.get(server.base, timeout=LIMITS, on_informational=lambda *_: None)


def test_content_that_comes_at_once_has_the_limit_too(client: AnyClient) -> None:
    """Where every read finds something, none of them waits."""
    script = chaos.endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536)
    with chaos.serve(script) as server, pytest.raises(errors.TotalTimeout):
        _streamed(client, server.base, timeout=LIMITS)


def test_an_upload_has_the_limit_too(client: AnyClient) -> None:
    with chaos.serve(chaos.silent) as server, pytest.raises(errors.TotalTimeout):
        client.post(server.base, bytes(64 << 20), timeout=LIMITS)


def test_a_request_within_the_limit(make_client: MakeClient, recorder: Recorder) -> None:
    client = make_client(timeout=Timeouts(total=60.0))
    assert client.get(f"{recorder.base}/").status == 200
    assert client.post(f"{recorder.base}/", b"x").status == 200


def test_limits_shrink_with_the_time_that_is_left() -> None:
    now = 100.0
    limits = Until.begin(Timeouts(connect=1.0, read=None, write=9.0, total=5.0), lambda: now)
    assert (limits.connect, limits.read, limits.write, limits.pool) == (1.0, 5.0, 5.0, 5.0)
    now = 104.5
    assert (limits.connect, limits.read, limits.pool) == (0.5, 0.5, 0.5)
    assert limits.since(3.0)[:2] == (1.0, 3.5)
    assert not limits.is_over()
    now = 105.0
    assert limits.is_over()
    assert (limits.read, limits.left()) == (0.0, 0.0)
