"""URLs: origin, target, userinfo."""

from __future__ import annotations

import pytest

from trilane.client._flow.origins import Origin, parse
from trilane.client.errors import InvalidRequest


@pytest.mark.parametrize(
    ("url", "origin", "authority", "target"),
    [
        ("http://example.org", ("http", "example.org", 80), "example.org", "/"),
        ("https://example.org/", ("https", "example.org", 443), "example.org", "/"),
        ("HTTPS://Example.ORG:443/A", ("https", "example.org", 443), "example.org", "/A"),
        ("http://example.org:443/a?b=c", ("http", "example.org", 443), "example.org:443", "/a?b=c"),
        ("http://example.org:/a", ("http", "example.org", 80), "example.org", "/a"),
        ("http://example.org?q", ("http", "example.org", 80), "example.org", "/?q"),
        ("http://example.org#top", ("http", "example.org", 80), "example.org", "/"),
        ("http://example.org/a?b#top", ("http", "example.org", 80), "example.org", "/a?b"),
        ("http://[::1]:8080/", ("http", "::1", 8080), "[::1]:8080", "/"),
        ("http://[0:0::1]/", ("http", "::1", 80), "[::1]", "/"),
        ("http://[fe80::1%25eth0]/", ("http", "fe80::1%eth0", 80), "[fe80::1]", "/"),
        ("http://[fe80::1%eth0]/", ("http", "fe80::1%eth0", 80), "[fe80::1]", "/"),
        ("http://127.0.0.1:1/", ("http", "127.0.0.1", 1), "127.0.0.1:1", "/"),
        ("http://bücher.example/", ("http", "xn--bcher-kva.example", 80), None, "/"),
        ("http://a_b.example/", ("http", "a_b.example", 80), "a_b.example", "/"),
    ],
)
def test_an_origin(url: str, origin: tuple[str, str, int], authority: str, target: str) -> None:
    address = parse(url)
    assert address.origin == origin
    assert address.authority == address.origin.authority
    assert authority in {None, address.authority}
    assert address.target == target


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("/a b", "/a%20b"),
        ("/ä", "/%C3%A4"),
        ("/%C3%A4", "/%C3%A4"),
        ("/100%", "/100%"),
        ('/"<>`{}', "/%22%3C%3E%60%7B%7D"),
        ("/a?b=c d&e=ü", "/a?b=c%20d&e=%C3%BC"),
        ("/a?b=http://x/?y", "/a?b=http://x/?y"),
        ("/a;b=c,d/(e)!*'", "/a;b=c,d/(e)!*'"),
        ("/../a/./b/../c", "/a/c"),
        ("/a/..", "/"),
        ("/a/.", "/a/"),
        ("/.hidden/a..b", "/.hidden/a..b"),
        ("/a?b=/../c", "/a?b=/../c"),
        ("//a//b", "//a//b"),
    ],
)
def test_a_target_is_what_may_stand_on_the_wire(written: str, sent: str) -> None:
    assert parse("http://example.org" + written).target == sent


def test_an_origin_seen_before_is_read_the_same_way() -> None:
    for _ in range(2):
        for path, target in (("/a?b", "/a?b"), ("/ä#x", "/%C3%A4"), ("/../b", "/b"), ("?q", "/?q")):
            assert parse(f"https://u:p@Seen.example:1{path}").target == target
        assert parse("https://u:p@Seen.example:1/").origin.host == "seen.example"
        assert parse("http://a?x=/y").origin.host == "a"
        assert parse("http://a?x=/y").target == "/?x=/y"
        assert parse("http://a/y").target == "/y"
    for number in range(3000):
        assert parse(f"http://{number}.example/").origin.host == f"{number}.example"


def test_userinfo_becomes_basic_authorization() -> None:
    address = parse("https://user:p%40ss@example.org/x")
    assert address.authorization == "Basic dXNlcjpwQHNz"
    assert address.authority == "example.org"
    assert address.url == "https://example.org/x"
    assert parse("https://user@example.org/").authorization == "Basic dXNlcjo="
    assert parse("https://example.org/").authorization is None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("example.org/a", "write http:// or https://"),
        ("", "write http:// or https://"),
        ("ftp://example.org/", "'ftp'"),
        ("http:///a", "names no host"),
        ("http://user@/a", "names no host"),
        ("http://exa mple.org/", "space"),
        ("http://example.org\r\nX: y/", "control character"),
        ("http://example.org/a\r\nX: y", r"'\\r' at character 2"),
        ("http://example.org/a\0", "at character 2"),
        ("http://example.org:0/", "from 1 to 65535"),
        ("http://example.org:65536/", "from 1 to 65535"),
        ("http://example.org:x/", "from 1 to 65535"),
        ("http://example.org:٣/", "from 1 to 65535"),
        ("http://::1/", "in brackets"),
        ("http://[::1/", "in brackets"),
        ("http://[::1]x/", "in brackets"),
        ("http://[::g]/", "not valid"),
        ("http://straße.example/", "xn--"),
        ("http://a..b.ü/", "internationalised"),
        ("http://a%41/", "not a name"),
        ("http://a\\b/", "backslash"),
        ("http://a\\@b/", "backslash"),
    ],
)
def test_a_url_that_is_refused_says_why(url: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as caught:
        parse(url)
    assert repr(url) in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_an_origin_reads_as_a_url() -> None:
    assert str(Origin("https", "::1", 8443)) == "https://[::1]:8443"
