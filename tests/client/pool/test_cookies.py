"""Cookies by either client, beside those that Requests and HTTPX send to the same server."""

from __future__ import annotations

import time
from http.cookiejar import CookieJar

import httpx
import pytest
import requests

from client.face import AnyClient, MakeClient
from trilane.client import Client
from trilane.client._flow import cookies as cookies_of
from trilane.client._flow.cookies import Cookies
from trilane.client._flow.origins import parse

from .recorder import NO_TLS, Got, Recorder


@pytest.fixture
def client(make_client: MakeClient) -> AnyClient:
    return make_client()


def _sent(got: list[Got]) -> list[set[str]]:
    return [set((each.field("cookie") or "").split("; ")) - {""} for each in got]


STEPS = [
    ["a=1", "b=2; Path=/deep", "c=3; Secure", 'd="quoted value"'],
    ["a=changed; Max-Age=3600", "b=gone; Path=/deep; Max-Age=0"],
    ["e=5; Domain=127.0.0.1", "f=6; Domain=example.com", "g=7; HttpOnly; SameSite=Lax"],
    ["h=8; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "i=9; Expires=Fri, 01 Jan 2100 00:00:00 GMT"],
]


def test_what_is_sent_is_what_requests_and_httpx_send(
    client: AnyClient, recorder: Recorder
) -> None:
    urls = [f"{recorder.base}/", f"{recorder.base}/deep/er", f"{recorder.other}/"]
    asked = [url for step in STEPS for url in (recorder.setting(*step), *urls)]
    with requests.Session() as session:
        session.trust_env = False
        for url in asked:
            session.get(url)
    by_requests = _sent(recorder.forget())
    with httpx.Client(trust_env=False, verify=NO_TLS) as other:
        for url in asked:
            other.get(url)
    assert _sent(recorder.forget()) == by_requests
    for url in asked:
        client.get(url)
    assert _sent(recorder.forget()) == by_requests
    # What is Secure and comes in clear is sent by none, and not kept here (RFC 6265bis §5.7).
    assert sorted(client.cookies) == ["a", "d", "e", "g", "i"]


def test_cookies_are_set_by_redirects_on_the_way(
    make_client: MakeClient, recorder: Recorder
) -> None:
    client = make_client(follow_redirects=True)
    client.get(recorder.setting("a=1"))
    client.get(recorder.redirect(302, "/end"))
    assert _sent(recorder.forget()) == [set(), {"a=1"}, {"a=1"}]


def test_cookies_of_a_request_alone(client: AnyClient, recorder: Recorder) -> None:
    client.get(recorder.setting("a=1", "b=2"))
    client.get(f"{recorder.base}/", cookies={"b": "own", "c": "3"})
    client.get(f"{recorder.base}/")
    client.get(f"{recorder.base}/", headers={"Cookie": "only=this"}, cookies={"c": "3"})
    assert _sent(recorder.forget())[1:] == [
        {"a=1", "b=own", "c=3"},
        {"a=1", "b=2"},
        {"only=this"},
    ]


def test_settings_and_the_mapping(make_client: MakeClient, recorder: Recorder) -> None:
    client = make_client(cookies={"all": "1"})
    cookies = client.cookies
    assert dict(cookies) == {"all": "1"}
    cookies["more"] = "2"
    cookies.set("elsewhere", "3", domain="example.com")
    client.get(f"{recorder.base}/")
    del cookies["all"]
    client.get(f"{recorder.base}/")
    cookies.clear()
    client.get(f"{recorder.base}/")
    assert _sent(recorder.forget()) == [{"all=1", "more=2"}, {"more=2"}, set()]
    assert len(cookies) == 0
    with pytest.raises(KeyError):
        cookies["all"]
    with pytest.raises(ValueError, match="cannot be sent"):
        cookies["a"] = "1; b=2"


def test_a_jar_of_the_callers_is_used(make_client: MakeClient, recorder: Recorder) -> None:
    jar = CookieJar()
    make_client(cookies=jar).get(recorder.setting("a=1"))
    assert [cookie.name for cookie in jar] == ["a"]
    make_client(cookies=jar).get(f"{recorder.base}/")
    jar.clear()
    make_client(cookies=jar).get(f"{recorder.base}/")
    assert _sent(recorder.forget()) == [set(), {"a=1"}, set()]


def test_the_cookies_of_a_response(client: AnyClient, recorder: Recorder) -> None:
    assert dict(client.get(recorder.setting("a=1", "b=2")).cookies) == {"a": "1", "b": "2"}
    assert dict(client.get(f"{recorder.base}/").cookies) == {}


def test_cookies_of_many_at_once(recorder: Recorder) -> None:
    with Client() as client:
        client.get(recorder.setting("a=1"))
        assert [r.status for r in client.get_all([f"{recorder.base}/"] * 3)] == [200] * 3
        [_] = client.get_all([recorder.setting("b=2")])
        assert client.cookies["b"] == "2"
    assert _sent(recorder.forget())[1:4] == [{"a=1"}] * 3


def test_what_is_remembered_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    address = parse("http://localhost/a?b=c")
    cookies = Cookies()
    cookies.keep(address, [("Set-Cookie", "a=1; Max-Age=100"), ("Set-Cookie", "b=2")])
    assert set((cookies.header(address) or "").split("; ")) == {"a=1", "b=2"}
    later = time.time() + 101
    monkeypatch.setattr(time, "time", lambda: later)
    assert cookies.header(address) == "b=2"
    assert cookies.header(parse("http://localhost.example/")) is None


def test_a_server_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cookies_of, "MOST", 5)
    address = parse("http://localhost/")
    cookies = Cookies()
    for number in range(20):
        cookies.keep(address, [("set-cookie", f"c{number}=1")])
    assert sorted(cookies) == ["c15", "c16", "c17", "c18", "c19"]
    cookies.keep(address, [("set-cookie", f"long={'x' * cookies_of.LONGEST}")])
    assert "long" not in cookies
    many = [("set-cookie", f"m{number}=1") for number in range(1000)]
    cookies.keep(address, many)
    assert max(int(name[1:]) for name in cookies) == cookies_of.MOST_OF_RESPONSE - 1
