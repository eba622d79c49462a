"""Which proxy a request goes through."""

from __future__ import annotations

import re

import pytest

from repository import DOCS
from trilane.client._flow.origins import Origin, parse
from trilane.client._flow.proxies import Proxies
from trilane.client._flow.routes import Proxy
from trilane.client.tls import _ENVIRONMENT


def test_which_proxy_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    http, https = parse("http://example.org/").origin, parse("https://[::1]:8443/").origin
    monkeypatch.setenv("http_proxy", "proxy.example:3128")
    monkeypatch.setenv("https_proxy", "http://[::2]:1")
    monkeypatch.setenv("no_proxy", "[::1]:8443")
    environment = Proxies.of("environment")
    assert environment.choose(http) == Proxy(Origin("http", "proxy.example", 3128))
    assert environment.choose(https) is None
    monkeypatch.setenv("no_proxy", "*")
    assert Proxies.of("environment").choose(http) is None
    own = Proxy(Origin("http", "p", 1), (("x", "y"),))
    assert Proxies.of({"all": own, "https": ""}).choose(https) is own
    assert Proxies.of(None).choose(https) is None
    assert Proxies.of({"https": "http://p:1"}).choose(http) is None


@pytest.mark.parametrize(
    ("entry", "direct", "by_proxy"),
    [
        ("10.0.0.0/8", ["http://10.1.2.3/"], ["http://11.1.2.3/", "http://ten.example/"]),
        ("192.168.1.0/24:8080", ["http://192.168.1.9:8080/"], ["http://192.168.1.9/"]),
        (
            "127.0.0.1",
            ["http://127.0.0.1:81/", "http://[::ffff:127.0.0.1]/"],
            ["http://127.0.0.2/"],
        ),
        ("::1", ["https://[::1]:8443/"], ["https://[::2]/"]),
        ("[::1]", ["https://[::1]:8443/"], ["https://[::2]/"]),
        ("fd00::/8", ["http://[fd00::7]/"], ["http://[fe80::7]/"]),
        (
            "Corp.example",
            ["http://corp.example/", "http://a.corp.example/"],
            ["http://xcorp.example/"],
        ),
        (".corp.example", ["http://a.corp.example/"], ["http://corp.example.org/"]),
        ("*.corp.example", ["http://a.corp.example/"], ["http://corp.example.org/"]),
        ("a.example:444", ["https://a.example:444/"], ["https://a.example/"]),
        ("x, 10.0.0.0/8 a.example", ["http://10.0.0.1/", "http://a.example/"], ["http://b/"]),
    ],
)
def test_what_no_proxy_names_is_reached_directly(
    monkeypatch: pytest.MonkeyPatch, entry: str, direct: list[str], by_proxy: list[str]
) -> None:
    monkeypatch.setenv("all_proxy", "http://p:1")
    monkeypatch.setenv("no_proxy", entry)
    for proxies in (Proxies.of("environment"), Proxies.of({"all": "http://p:1", "no": entry})):
        assert [proxies.choose(parse(url).origin) for url in direct] == [None] * len(direct)
        assert None not in [proxies.choose(parse(url).origin) for url in by_proxy]


def test_what_is_no_proxy_is_refused() -> None:
    with pytest.raises(TypeError, match=r"proxies=5 is of type int: give a URL"):
        Proxies.of(5)  # type: ignore[arg-type]
    # HTTPX's keys, which would otherwise be passed over.
    with pytest.raises(ValueError, match="the key 'https://'"):
        Proxies.of({"https://": "http://p:1"})


def test_the_documents_say_what_is_read_of_the_environment() -> None:
    document = (DOCS / "client" / "migration.md").read_text(encoding="utf-8")
    row = next(line for line in document.splitlines() if line.startswith("| `trust_env`"))
    named = set(re.findall(r"[A-Z]+_[A-Z_]+", row))
    assert named >= {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", *_ENVIRONMENT}
