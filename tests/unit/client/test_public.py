"""What of the client is for its users: modules whose names begin with no underscore."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

import pytest

import trilane.client
import trilane.client.http
import trilane.client.hyper

PUBLIC = {
    "auth",
    "cached",
    "dns",
    "errors",
    "fields",
    "http",
    "httpx",
    "httpx2",
    "hyper",
    "otel",
    "requests",
    "tls",
}


def test_nothing_else_is_public() -> None:
    assert _modules(trilane.client.__path__) == PUBLIC
    assert _modules(trilane.client.http.__path__) == set()
    assert _modules(trilane.client.hyper.__path__) == {"contrib"}


@pytest.mark.parametrize("name", sorted(set(trilane.client.__all__)))
def test_every_public_name_is_there(name: str) -> None:
    home = importlib.import_module(getattr(trilane.client, name).__module__)
    assert getattr(home, name) is getattr(trilane.client, name)


def _modules(path: Iterable[str]) -> set[str]:
    found = pkgutil.iter_modules(path)
    return {module.name for module in found if not module.name.startswith("_")}
