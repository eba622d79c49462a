"""Redirects by either client, beside what Requests and HTTPX do on the same server."""

from __future__ import annotations

import io
import urllib.parse
from collections.abc import Iterator

import httpx
import pytest
import requests

from client.face import AnyClient, MakeClient
from trilane.client import errors

from .recorder import NO_TLS, Got, Recorder

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
STATUSES = (301, 302, 303, 307, 308)


@pytest.fixture
def client(make_client: MakeClient) -> AnyClient:
    return make_client(follow_redirects=True)


def _said(got: list[Got]) -> list[tuple[str, bytes, str | None]]:
    return [(each.method, each.body, each.field("content-type")) for each in got]


@pytest.fixture(scope="module")
def by_requests() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        yield session


@pytest.fixture(scope="module")
def by_httpx() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, follow_redirects=True, verify=NO_TLS) as other:
        yield other


# Both clients take it from the same function, which the tests below ask by either.
@pytest.mark.parametrize("kind", ["blocking"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("status", STATUSES)
def test_methods_and_content_are_as_requests_and_httpx_have_them(
    client: AnyClient,
    recorder: Recorder,
    by_requests: requests.Session,
    by_httpx: httpx.Client,
    status: int,
    method: str,
) -> None:
    url = recorder.redirect(status, "/end?a=1")
    content = b"content" if method not in {"GET", "HEAD"} else None
    fields = {"content-type": "text/x"} if content else {}
    by_requests.request(method, url, data=content, headers=fields, allow_redirects=True)
    of_requests = _said(recorder.forget())
    assert len(of_requests) == 2
    by_httpx.request(method, url, content=content, headers=fields)
    of_httpx = [each[:2] for each in _said(recorder.forget())]
    response = client.request(method, url, content=content, headers=fields)
    ours = _said(recorder.forget())
    assert [each[:2] for each in ours] == of_httpx
    assert [each[0] for each in ours] == [each[0] for each in of_requests]
    if (status, method) not in {(301, each) for each in ("PUT", "PATCH", "DELETE", "OPTIONS")}:
        assert ours == of_requests  # Which there keeps the method, and drops the content.
    assert response.url == f"{recorder.base}/end?a=1"
    assert [each.status for each in response.history] == [status]
    assert response.history[0].content == (b"" if method == "HEAD" else b"elsewhere")


def test_none_is_followed_unless_one_says_so(make_client: MakeClient, recorder: Recorder) -> None:
    plain, url = make_client(), recorder.redirect(302, "/end")
    response = plain.get(url)
    assert (response.status, response.is_redirect, response.history) == (302, True, [])
    assert plain.get(url, follow_redirects=True).status == 200
    following = make_client(follow_redirects=True)
    assert following.get(url, follow_redirects=False).status == 302
    with following.stream("GET", url) as streamed:
        assert streamed.status == 200
        assert b'"path": "/end"' in streamed.read()


def test_the_connection_is_kept_for_what_follows(client: AnyClient, recorder: Recorder) -> None:
    first = recorder.redirect(307, recorder.redirect(302, "/end"))
    response = client.get(first)
    assert [each.url for each in response.history] == [first, recorder.redirect(302, "/end")]
    assert response.stream_id == 3
    assert len(client.connections) == 1


def test_a_loop_names_the_limit(make_client: MakeClient, recorder: Recorder) -> None:
    client = make_client(follow_redirects=True, max_redirects=2)
    url = recorder.redirect(302, recorder.redirect(302, recorder.redirect(302, "/end")))
    with pytest.raises(errors.TooManyRedirects, match="max_redirects=2 ") as caught:
        client.get(url)
    assert caught.value.response.status == 302
    assert len(caught.value.response.history) == 2
    assert len(recorder.forget()) == 3


def test_a_file_is_sent_again_and_an_iterator_is_not(client: AnyClient, recorder: Recorder) -> None:
    url = recorder.redirect(307, "/end")
    file = io.BytesIO(b"skipped" + b"content" * 1000)
    file.seek(7)
    assert client.put(url, file).status == 200
    assert [each.body for each in recorder.forget()] == [b"content" * 1000] * 2
    with pytest.raises(errors.RedirectError, match="cannot be read again") as caught:
        client.put(url, iter([b"content"]))
    assert caught.value.response.status == 307
    # Where the method becomes GET there is nothing to be sent again.
    assert client.post(recorder.redirect(303, "/end"), iter([b"content"])).status == 200


@pytest.mark.parametrize("to", ["ftp://localhost/", "http://:1/", "http://a b/", "//[::1"])
def test_a_location_that_is_none(
    client: AnyClient, recorder: Recorder, by_httpx: httpx.Client, to: str
) -> None:
    with pytest.raises(errors.RedirectError, match="cannot be followed"):
        client.get(recorder.redirect(302, to))
    # The other libraries refuse them too.
    with pytest.raises((requests.RequestException, httpx.HTTPError, httpx.InvalidURL)):
        by_httpx.get(recorder.redirect(302, to))


@pytest.mark.parametrize(
    # The last is UTF-8 on the wire.
    "to",
    ["/end", "end", "//127.0.0.1:{port}/end", "http://127.0.0.1:{port}/end#part", "/end?x=Ã©"],
)
def test_locations_are_as_requests_has_them(
    client: AnyClient, recorder: Recorder, by_requests: requests.Session, to: str
) -> None:
    url = recorder.redirect(302, to.format(port=recorder.port))
    by_requests.get(url)
    theirs = [each.path for each in recorder.forget()]
    client.get(url)
    assert [each.path for each in recorder.forget()] == theirs


def _credentials(got: list[Got]) -> list[tuple[str | None, str | None]]:
    return [(each.field("authorization"), each.field("cookie")) for each in got]


def test_credentials_stay_with_their_origin(
    make_client: MakeClient, recorder: Recorder, by_httpx: httpx.Client
) -> None:
    """`authorization` and `cookie` do not follow a redirect to another origin."""
    there = recorder.redirect(302, f"{recorder.base}/back", at=recorder.other)
    url = recorder.redirect(302, "/same?" + urllib.parse.urlencode({"x": "1"}))
    fields = {"authorization": "Bearer secret", "cookie": "own=1"}
    client = make_client(follow_redirects=True)
    client.get(url, headers=fields)
    # A field `cookie` was for the first URL alone, as with both libraries.
    assert _credentials(recorder.forget()) == [("Bearer secret", "own=1"), ("Bearer secret", None)]
    client.get(recorder.redirect(302, there), headers=fields)
    ours = _credentials(recorder.forget())
    assert ours == [("Bearer secret", "own=1"), (None, None), (None, None)]
    by_httpx.get(recorder.redirect(302, there), headers=fields)
    assert _credentials(recorder.forget()) == ours


@pytest.mark.parametrize("setting", [{"auth": ("a", "b")}, {"headers": {"Authorization": "x"}}])
def test_settings_of_the_client_do_not_follow_either(
    make_client: MakeClient, recorder: Recorder, setting: dict[str, object]
) -> None:
    client = make_client(follow_redirects=True, **setting)
    client.get(recorder.redirect(302, f"{recorder.other}/end"), cookies={"own": "1"})
    first, second = _credentials(recorder.forget())
    assert first[0] is not None
    assert first[1] == "own=1"
    assert second == (None, None)


def test_a_redirect_to_where_nobody_is(make_client: MakeClient, recorder: Recorder) -> None:
    client = make_client(follow_redirects=True)
    with pytest.raises(errors.ConnectionRefused):
        client.get(recorder.redirect(302, "http://127.0.0.1:1/"))
