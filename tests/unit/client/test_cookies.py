"""What a jar keeps of what servers set, and where it goes (RFC 6265bis)."""

from __future__ import annotations

from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import Any

import pytest

from trilane.client._flow.cookies import Cookies
from trilane.client._flow.origins import parse

HTTPS = "https://shop.example.com/a/b"


def _jar(*set_: tuple[str, str], given: Any = None) -> Cookies:
    cookies = Cookies(given)
    for url, value in set_:
        cookies.keep(parse(url), [("Set-Cookie", value)])
    return cookies


def _sent(cookies: Cookies, url: str) -> str:
    return cookies.header(parse(url)) or ""


@pytest.mark.parametrize(
    ("value", "to", "sent"),
    [
        ("a=1", "https://shop.example.com/a/", "a=1"),
        # A host's own, though its jar is one of 1997.
        ("a=1", "https://eu.shop.example.com/a/", ""),
        ("a=1; Domain=", "https://eu.shop.example.com/a/", ""),
        ("a=1; domain=.Example.com", "https://example.com/a/x", "a=1"),
        ("a=1; domain=.Example.com", "https://example.com/", ""),
        ("a=1; Domain=example.com; Path=/", "https://deep.eu.example.com/", "a=1"),
        ("a=1; Domain=example.com; Path=/", "https://notexample.com/", ""),
        # Others' domains, and those in which anybody may have a name.
        ("a=1; Domain=other.com; Path=/", "https://other.com/", ""),
        ("a=1; Domain=eu.shop.example.com; Path=/", "https://eu.shop.example.com/", ""),
        ("a=1; Domain=com; Path=/", "https://other.com/", ""),
        ("a=1; Path=relative", "https://shop.example.com/a/x", "a=1"),
        ("__Secure-a=1; Path=/", HTTPS, ""),
        ("__Secure-a=1; Path=/; Secure", HTTPS, "__Secure-a=1"),
        ("__Host-a=1; Path=/; Secure", HTTPS, "__Host-a=1"),
        ("__Host-a=1; Secure", "https://shop.example.com/a/", ""),
        ("__Host-a=1; Path=/a; Secure", "https://shop.example.com/a", ""),
        ("__HOST-a=1; Path=/", HTTPS, ""),
        ("__Host-a=1; Path=/; Secure; Domain=shop.example.com", HTTPS, ""),
        ("__Host-a", HTTPS, ""),
        ("a=1; Max-Age=-1", HTTPS, ""),
        ("a=1; Max-Age=never; Expires=Thu, 01 Jan 1970 00:00:00 GMT", HTTPS, ""),
        ("a=1; Max-Age=9; Expires=Thu, 01 Jan 1970 00:00:00 GMT", HTTPS, "a=1"),
        ("a=1; Expires=Fri, 31-Dec-99 23:59:59 GMT", HTTPS, ""),
        ("a=1; Expires=Fri, 01 Jan 99999 00:00:00 GMT", HTTPS, "a=1"),
        (f"a=1; Max-Age={'9' * 5000}", HTTPS, "a=1"),
        ('a="1 2"; HttpOnly; SameSite=Lax; Version=1; Port="1"', HTTPS, 'a="1 2"'),
        ("=1", HTTPS, ""),
        ("", HTTPS, ""),
        ("flag", HTTPS, "flag"),
    ],
)
def test_what_is_kept_and_where_it_goes(value: str, to: str, sent: str) -> None:
    assert _sent(_jar((HTTPS, value)), to) == sent
    # So it is with a jar of the caller's, unless its policy is one too.
    assert _sent(_jar((HTTPS, value), given=CookieJar()), to) == sent


@pytest.mark.parametrize("suffix", ["co.uk", "github.io", "intranet"])
def test_sites_under_one_public_suffix_share_nothing(suffix: str) -> None:
    cookies = _jar((f"https://a.{suffix}/", f"a=1; Domain={suffix}"))
    assert len(cookies) == 0
    # Of the suffix itself it is a host's own.
    cookies = _jar((f"https://{suffix}/", f"a=1; Domain={suffix}"))
    assert _sent(cookies, f"https://{suffix}/") == "a=1"
    assert _sent(cookies, f"https://a.{suffix}/") == ""


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "host.docker.internal"])
def test_a_domain_that_is_the_host(host: str) -> None:
    cookies = _jar((f"http://{host}:8080/", f"a=1; Domain={host}"), (f"http://{host}/", "b=2"))
    assert set(_sent(cookies, f"http://{host}:9090/").split("; ")) == {"a=1", "b=2"}
    assert _sent(cookies, "http://other.internal/") == ""
    cookies.set("c", "3", domain=host)
    assert "c=3" in _sent(cookies, f"http://{host}/")


def test_an_address_has_no_names_below_it() -> None:
    cookies = _jar(("http://127.0.0.1/", "a=1; Domain=0.0.1"))
    assert len(cookies) == 0


@pytest.mark.parametrize(
    ("url", "value"),
    [
        ("http://example.com/login/", "sid=evil"),
        ("http://example.com/", "sid=; Max-Age=0; Path=/login"),
        ("http://evil.example.com/", "sid=evil; Domain=example.com; Path=/login/deep"),
        ("http://example.com/", "other=1; Secure"),
    ],
)
def test_http_changes_nothing_that_is_secure(url: str, value: str) -> None:
    cookies = _jar(("https://example.com/", "sid=1; Secure; Path=/login"), (url, value))
    assert _sent(cookies, "https://example.com/login/deep") == "sid=1"


def test_https_changes_what_is_secure_and_http_the_rest() -> None:
    for attributes, scheme in (("; Secure", "https"), ("", "http")):
        first, then = f"sid=1{attributes}", (f"{scheme}://example.com/", "sid=2")
        cookies = _jar(("https://example.com/", first), then)
        assert _sent(cookies, "https://example.com/") == "sid=2"


def test_nobody_forgets_the_cookies_of_others() -> None:
    mine = ("https://bank.com/", "sid=1; Domain=bank.com")
    cookies = _jar(mine, ("https://evil.com/", "sid=; Domain=bank.com; Max-Age=0"))
    assert _sent(cookies, "https://bank.com/") == "sid=1"
    cookies = _jar(mine, ("https://bank.com/", "sid=; Domain=bank.com; Max-Age=0"))
    assert len(cookies) == 0


def test_a_policy_of_the_callers_is_kept() -> None:
    blocked = CookieJar(DefaultCookiePolicy(blocked_domains=["example.com", ".example.com"]))
    assert len(_jar((HTTPS, "a=1; Domain=example.com"), given=blocked)) == 0

    class Own(DefaultCookiePolicy):
        """One that sends nothing."""

        def return_ok(self, cookie: Cookie, request: Any) -> bool:  # noqa: ARG002 - theirs
            return False

    cookies = _jar((HTTPS, "a=1"), given=CookieJar(Own()))
    assert (dict(cookies), _sent(cookies, HTTPS)) == ({"a": "1"}, "")
