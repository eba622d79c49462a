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


def test_the_documents_say_what_is_read_of_the_environment() -> None:
    document = (DOCS / "client" / "migration.md").read_text(encoding="utf-8")
    row = next(line for line in document.splitlines() if line.startswith("| `trust_env`"))
    named = set(re.findall(r"[A-Z]+_[A-Z_]+", row))
    assert named >= {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", *_ENVIRONMENT}
