"""One request over any version, by somebody else's client where there is one."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from peers.peer import Peer
from trilane.client import Client

PATIENCE_S = 60.0
# Names of listeners, and what the clients call the version there.
_SAID = {"h1": "HTTP/1.1", "h1s": "HTTP/1.1", "h2c": "HTTP/2", "h2": "HTTP/2", "h3": "HTTP/3"}
VERSIONS = tuple(_SAID)
JSON = "application/json"
PROTOBUF = "application/protobuf"


@dataclass(frozen=True)
class Answer:
    """A response; the names of its fields are in lower case."""

    status: int
    fields: Mapping[str, str]
    content: bytes
    version: str

    @property
    def media_type(self) -> str:
        """Its content type without parameters."""
        return self.fields.get("content-type", "").partition(";")[0].strip()


class Web:
    """A client of one listener: httpx, and ours for h3, which httpx does not speak."""

    def __init__(self, peer: Peer, listener: str, http: httpx.Client | Client) -> None:
        self._base = peer.bases[listener]
        self.says = _SAID[listener]
        self._http = http

    @classmethod
    @contextlib.contextmanager
    def open(cls, peer: Peer, listener: str) -> Iterator[Web]:
        """Leaving the context closes the connections."""
        if listener == "h3":
            with Client(versions=("h3",), verify=str(peer.ca), proxies=None) as ours:
                yield cls(peer, listener, ours)
            return
        trust = ssl.create_default_context(cafile=peer.ca)
        with httpx.Client(
            http1=listener.startswith("h1"),
            http2=listener.startswith("h2"),
            verify=trust,
            trust_env=False,
            timeout=PATIENCE_S,
        ) as theirs:
            yield cls(peer, listener, theirs)

    def ask(self, method: str, path: str, content: bytes = b"", **fields: str) -> Answer:
        """One request; an underscore in the name of a field is a hyphen."""
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        given: dict[str, Any] = {"content": content} if content or method == "POST" else {}
        if isinstance(self._http, Client):
            ours = self._http.request(method, self._base + path, headers=headers, **given)
            found: dict[str, str] = {}
            for name, value in ours.fields:
                # As httpx joins several of one name.
                before = found.get(name.lower())
                found[name.lower()] = value if before is None else f"{before}, {value}"
            return Answer(ours.status, found, ours.content, "HTTP/3")
        theirs = self._http.request(method, self._base + path, headers=headers, **given)
        return Answer(theirs.status_code, dict(theirs.headers), theirs.content, theirs.http_version)

    @contextlib.contextmanager
    def stream(self, path: str, **fields: str) -> Iterator[Iterator[str]]:
        """The lines of a GET, as they come."""
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        if isinstance(self._http, Client):
            with self._http.stream("GET", self._base + path, headers=headers) as ours:
                assert ours.status == 200
                yield ours.iter_lines()
        else:
            with self._http.stream("GET", self._base + path, headers=headers) as theirs:
                assert theirs.status_code == 200
                yield theirs.iter_lines()
