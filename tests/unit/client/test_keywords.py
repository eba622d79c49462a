"""Keywords: methods have them by name, and what they do not have is an error with the way out."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

import trilane.client
from trilane.client import InsecureWarning
from trilane.client._aio.client import AsyncClient
from trilane.client._pool import Client

from .replies import Scripted, asynchronous, blocking

URL = "http://localhost/"
BARE = ("get", "head", "options", "delete")
"""Methods whose requests have no content."""
FILLED = ("post", "put", "patch")
ALL = ("request", "stream", "send", *BARE, *FILLED)

Ask: TypeAlias = Callable[..., None]
"""Asks a client by the name of a method, with keywords."""


def _blocking(name: str, **given: Any) -> None:
    # Nobody listens there: what is not refused before is ConnectFailed.
    with Client(unix="/nowhere", proxies=None) as client:
        method = getattr(client, name)
        if name == "get_all":
            method([URL], **given)
        elif name == "stream":
            with method("GET", URL, **given):
                pass
        elif name in {"request", "send"}:
            method("GET", URL, **given)
        else:
            method(URL, **given)


def _asyncio(name: str, **given: Any) -> None:
    async def asking() -> None:
        async with AsyncClient(unix="/nowhere", proxies=None) as client:
            method = getattr(client, name)
            if name == "stream":
                async with method("GET", URL, **given):
                    pass
            elif name in {"request", "send"}:
                await method("GET", URL, **given)
            else:
                await method(URL, **given)

    asyncio.run(asking())


EACH = [(_blocking, "Client", name) for name in (*ALL, "get_all")] + [
    (_asyncio, "AsyncClient", name) for name in ALL
]


@pytest.mark.parametrize(("ask", "kind", "name"), EACH)
def test_a_keyword_that_is_not_there_is_named(ask: Ask, kind: str, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{kind}\.{name}\(\) takes no tiemout=: use timeout=$"):
        ask(name, tiemout=3)
    with pytest.raises(TypeError, match=rf"{kind}\.{name}\(\) takes no xyzzy=: .*timeout="):
        ask(name, xyzzy=1)


@pytest.mark.parametrize("ask", [_blocking, _asyncio])
@pytest.mark.parametrize("name", ["get", "post"])
@pytest.mark.parametrize(
    ("keyword", "way_out"),
    [
        ("allow_redirects", r"use follow_redirects="),
        ("redirect", r"use follow_redirects="),
        ("max_retries", r"use retries="),
        ("body", r"content=.*json=.*data=.*files="),
        ("fields", r"params=.*data=.*files="),
        ("stream", r"method stream\(\)"),
        ("hooks", r"event_hooks="),
        ("trust_env", r"Client\(proxies=None.*NetRCAuth"),
    ],
)
def test_keywords_of_other_libraries_have_a_way_out(
    ask: Ask, name: str, keyword: str, way_out: str
) -> None:
    with pytest.raises(TypeError, match=rf"{name}\(\) takes no {keyword}=: .*{way_out}"):
        ask(name, **{keyword: {"a": "1"}})


@pytest.mark.parametrize(("ask", "kind", "name"), EACH)
def test_a_setting_of_the_client_is_known_as_one(ask: Ask, kind: str, name: str) -> None:
    with pytest.raises(TypeError, match=rf"takes no verify=: .*{kind}\(verify=\.\.\.\)"):
        ask(name, verify=False)


@pytest.mark.parametrize("ask", [_blocking, _asyncio])
@pytest.mark.parametrize("name", BARE)
@pytest.mark.parametrize(
    "keyword", ["content", "json", "data", "files", "progress", "trailers", "expect_continue"]
)
def test_content_of_any_method_goes_by_request(ask: Ask, name: str, keyword: str) -> None:
    way_out = rf'takes no {keyword}=: .*request\("{name.upper()}", url, {keyword}=\.\.\.\)'
    with pytest.raises(TypeError, match=way_out):
        ask(name, **{keyword: b"1"})


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("method", "given", "said"),
    [
        ("get", (URL, {"a": 1}), r"takes the URL by position, and then \{'a': 1\} .*params="),
        ("post", (URL, b"", {"a": 1}), r"takes URL and content by position.*params=, json="),
        ("request", ("POST", URL, b""), r"takes method and URL by position, and then b''"),
        ("stream", ("GET", URL, None), r"takes method and URL by position"),
    ],
)
def test_what_is_given_by_position_has_a_name(
    kind: Any, method: str, given: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\.{method}\(\) {said}"):
        getattr(kind(), method)(*given)


@pytest.mark.parametrize(
    ("setting", "value", "error", "said"),
    [
        ("verify", "", ValueError, "verify='' names no file: give True, False"),
        ("verify", 0, TypeError, "verify=0 is of type int: give True, False"),
        ("cert", " ", ValueError, "cert=' ' names no file"),
        ("cert", ("cert.pem", 5), TypeError, "cert=5 is of type int"),
    ],
)
def test_what_is_no_certificate(setting: str, value: Any, error: Any, said: str) -> None:
    # The current folder, or an error of pathlib with the first request.
    with pytest.raises(error, match=said):
        Client(**{setting: value})


def test_names_of_the_other_kind_and_of_other_modules_have_a_way_out() -> None:
    for owner, name, way_out in (
        (Client(), "aclose", r": use close\(\)$"),
        (AsyncClient(), "get_all", r"asyncio\.gather"),
        (blocking(Scripted([])), "aiter_bytes", r": use iter_bytes\(\)$"),
        (asynchronous(Scripted([])), "iter_lines", r": use aiter_lines\(\)$"),
        (trilane.client, "get", r"Client\(\)\.get\(\)$"),
        (trilane.client, "Session", r"Client is what"),
    ):
        with pytest.raises(AttributeError, match=way_out):
            getattr(getattr(owner, "_response", owner), name)
    with pytest.raises(AttributeError, match=r"has no attribute 'xyzzy'$"):
        Client().xyzzy  # type: ignore[attr-defined] # noqa: B018


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("of", [pickle.dumps, copy.copy])
def test_a_client_is_not_pickled(kind: Any, of: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=rf"a {kind.__name__} can be neither pickled nor copied"):
        of(kind())


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_help_shows_what_is_left_out(kind: Any) -> None:
    for of in (kind, kind.get, kind.post):
        assert "llipsis" not in str(inspect.signature(of))
    assert "decode: 'bool' = True" in str(inspect.signature(kind.get))
    assert "timeout: 'TimeoutGiven' = <as the client has it>" in str(inspect.signature(kind.get))


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_that_takes_any_certificate_warns_once(kind: Any) -> None:
    with pytest.warns(InsecureWarning, match="verify=False: anybody on the way") as caught:
        kind(verify=False)
    assert [each.filename for each in caught] == [__file__]


def test_several_keywords_are_named_at_once() -> None:
    with pytest.raises(TypeError, match=r"takes no body=: .*; no tiemout=: use timeout=$"):
        _blocking("post", body={}, tiemout=3)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("keyword", "way_out"),
    [
        ("tiemout", "use timeout=$"),
        ("http2", r"Client\(versions="),
        ("proxy", r"Client\(proxies="),
        ("trust_env", r"Client\(proxies=None"),
        ("allow_redirects", r"follow_redirects="),
        ("limits", r"max_connections=.*idle_timeout="),
        ("decode", r"each request"),
        ("mounts", r"proxies="),
        ("transport", r"trilane\.client\.httpx\.Transport"),
    ],
)
def test_settings_that_are_not_there(kind: Any, keyword: str, way_out: str) -> None:
    way_out = way_out.replace("Client", kind.__name__)
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\(\) takes no {keyword}=: .*{way_out}"):
        kind(**{keyword: True})


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_signatures_say_what_there_is(client: type) -> None:
    for name in ALL:
        given = inspect.signature(getattr(client, name)).parameters
        wanted = {"timeout", "decode", "on_informational"} | (
            {"headers"} if name != "send" else {"target"}
        )
        if name not in BARE:
            wanted |= {"content", "trailers", "expect_continue"}
        assert wanted <= given.keys(), name
        rest = [each for each in given.values() if each.kind is inspect.Parameter.VAR_KEYWORD]
        # A checker of types refuses what would end there.
        wanted_rest = [("unknown", "Never")] if name == "send" else []
        assert [(each.name, each.annotation) for each in rest] == wanted_rest, name
