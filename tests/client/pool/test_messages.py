"""What the errors of mistakes say: the thing, its value, and the way out, from either client."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from client.face import AnyClient, MakeClient
from peers import chaos
from peers.authority import Authority
from peers.peer import Peer
from peers.proxy import proxy
from trilane.client import errors


def test_a_method_in_lower_case_is_the_known_one(client: AnyClient, server: Peer) -> None:
    url = server.url("h2")
    assert client.request("get", url).method == "GET"
    assert client.request("Head", url).content == b""
    assert client.request("post", server.url("h2", "/echo"), content=b"x").content == b"x"


@pytest.mark.parametrize("method", [b"GET", None, 3])
def test_a_method_of_another_type(client: AnyClient, server: Peer, method: Any) -> None:
    with pytest.raises(errors.InvalidRequest, match=r"^the method .* is of type \w+: give a str"):
        client.request(method, server.url("h2"))


@pytest.mark.parametrize("url", [None, 3, ["http://127.0.0.1/"]])
def test_a_url_of_another_type(client: AnyClient, url: Any) -> None:
    with pytest.raises(errors.InvalidRequest, match=r"^the URL .* is of type \w+: give a str"):
        client.get(url)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"x-count": 3}, r"^the value of the field 'x-count' is of type int: give str or bytes"),
        ({"x-none": None}, r"^the value of the field 'x-none' is of type NoneType: leave the"),
        ([("a", "b", "c")], r"^a field is a pair of a name and a value, and one has 3 items"),
        ([("a",)], r"^a field is a pair of a name and a value, and one has 1 items"),
        ("a: b", r"^'a' is no field: give a mapping"),
        ([3], r"^3 is no field: give a mapping"),
        ({3: "b"}, r"^the name of a field is 3: give str or bytes"),
    ],
    ids=str,
)
def test_fields_of_another_form(client: AnyClient, server: Peer, headers: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        client.get(server.url("h2"), headers=headers)
    assert client.get(server.url("h2")).status == 200


def test_what_is_for_a_proxy_does_not_go_to_the_origin(
    make_client: MakeClient, server: Peer
) -> None:
    secret = {"Proxy-Authorization": "Basic bWU6c2VjcmV0"}
    said = r"^the field proxy-authorization would go to https?://"
    direct = make_client(verify=str(server.ca))
    for listener in ("h1", "h2"):
        with pytest.raises(errors.InvalidRequest, match=said) as caught:
            direct.get(server.url(listener), headers=secret)
        assert "bWU6c2VjcmV0" not in str(caught.value)
    with proxy() as seen:
        through = make_client(proxies=seen.address, verify=str(server.ca), headers=secret)
        with pytest.raises(errors.InvalidRequest, match=said):
            through.get(server.url("h2"))
        # A proxy that is handed the whole request takes the field out.
        assert "bWU6c2VjcmV0" not in through.get(server.url("h1", "/headers")).text
        assert seen.authorizations == ["Basic bWU6c2VjcmV0"]


def test_a_proxy_that_is_not_there_is_named(make_client: MakeClient, server: Peer) -> None:
    client = make_client(proxies="http://127.0.0.1:1")
    for listener in ("h1", "h2"):
        with pytest.raises(errors.ConnectionRefused, match=r"the proxy 127\.0\.0\.1"):
            client.get(server.url(listener))


def test_a_proxy_that_refuses_is_named(make_client: MakeClient, server: Peer) -> None:
    with proxy(authorization="Basic x") as seen:
        client = make_client(proxies=seen.address, verify=str(server.ca))
        place = seen.address.rpartition("/")[2]
        with pytest.raises(errors.ProxyError, match=rf"^the proxy .*{place}.* for .* refused"):
            client.get(server.url("h2"))


def test_a_wrong_name_in_a_certificate_says_what_can_be_done(
    make_client: MakeClient, authority: Authority
) -> None:
    leaf = authority.wrong_name()
    security = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    security.load_cert_chain(leaf.cert, leaf.key)
    client = make_client(verify=str(leaf.ca), versions=("h1",))
    with (
        chaos.serve(chaos.answer(b"", then="go on"), security) as peer,
        pytest.raises(errors.TLSError, match="ask for it by one of its names") as caught,
    ):
        client.get(peer.base)
    assert "server_name" not in str(caught.value)
    assert "verify=False" not in str(caught.value)


def test_a_limit_says_how_much_it_is(make_client: MakeClient) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 70_000 + b"\r\n\r\n"
    said = r"limit.*64 KiB, 256 fields"
    with (
        chaos.serve(chaos.answer(head, then="go on")) as peer,
        pytest.raises(errors.LimitExceeded, match=said),
    ):
        make_client().get(peer.base)
