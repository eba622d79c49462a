"""Which proxy a request goes through."""

from __future__ import annotations

import pytest

from trilane.client.origins import Origin, parse
from trilane.client.proxies import Proxies
from trilane.client.routing import Proxy


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
    assert not Proxies.of(None)
    assert Proxies.of({"https": "http://p:1"}).choose(http) is None
