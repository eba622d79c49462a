"""What `trilane load` and `trilane.client` made of a case, against what they should."""

from __future__ import annotations

import zlib

import pytest

from e2e.loading import load
from trilane.client import Client, errors

from .cases import Expected, Failed, Taken

HANG_S = 60.0
"""Patience that only ends a hang."""
SHORT_S = 0.5
"""How long both wait for what never comes."""
# What the engine counts as ok unless it is told otherwise.
_FINE = range(200, 400)
# As many of them as the client keeps.
_INFORMATIONAL = 16


def wait_s(expected: Expected) -> float:
    """The patience that a case needs."""
    return SHORT_S if isinstance(expected, Failed) and expected.kind == "timeout" else HANG_S


def judge_engine(expected: Expected, requests: int, *arguments: str) -> int:
    """Send requests one after the other by `trilane load`; gives the connections it had."""
    timeout = f"{wait_s(expected) * 1000:.0f}ms"
    options = ["-c", "1", "-n", str(requests), "--timeout", timeout, "--check-body"]
    report = load(*options, *arguments).checked
    counts = {kind: each["count"] for kind, each in report["requests"]["failures"].items()}
    if isinstance(expected, Failed):
        assert counts == {expected.kind: requests}, report["requests"]
    else:
        fine = expected.status in _FINE
        assert counts == ({} if fine else {"status": requests}), report["requests"]
        assert report["status"] == {str(expected.status): requests}
        crc32 = f"{zlib.crc32(expected.content):08x}"
        body = {"bytes": len(expected.content), "crc32": crc32} if fine else None
        assert report["target"]["body"] == body
    established: int = report["connections"]["established"]
    return established


def judge_client(client: Client, expected: Expected, method: str, url: str) -> errors.Error | None:
    """Send a request by the client; gives the error where one was due."""
    if isinstance(expected, Failed):
        with pytest.raises(errors.Error) as caught:
            client.request(method, url)
        assert type(caught.value) is expected.error, repr(caught.value)
        assert str(caught.value)
        return caught.value
    response = client.request(method, url)
    assert made_of(response.status, response.content) == made_of(expected.status, expected.content)
    assert tuple(response.trailers.items()) == expected.trailers
    informational = tuple(status for status, _ in response.informational)
    assert informational == expected.informational[:_INFORMATIONAL]
    names = {name for name, _ in expected.fields}
    fields = tuple((name.lower(), value) for name, value in response.fields)
    assert tuple(field for field in fields if field[0] in names) == expected.fields
    return None


def made_of(status: int, content: bytes) -> Taken:
    """A response without what else there is of it."""
    return Taken(content, status)
