"""How one call is asked of a server: `GetBook` of `shelves/1/books/1`, once for each format.

A `server.toml` says it in its tables `[calls.json]`, `[calls.protobuf]`, `[calls.grpc]` and
`[calls.grpc-web]`; what the embedded server understands stands here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from trilane.lab.clients import library_book
from trilane.lab.design.toml_table import Table
from trilane.lab.design.vocabulary import MESSAGES
from trilane.lab.design.words import is_not
from trilane.lab.design.workload import Headers

SERVICE = "trilane.library.v1.Library"
METHOD = f"/{SERVICE}/GetBook"
BOOK = str(library_book.BOOK["name"])

_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_METHOD = re.compile(r"[A-Z]+")


@dataclass(frozen=True, slots=True)
class Call:
    """A request that asks for the book."""

    path: str
    method: str = "POST"
    headers: Headers = ()
    body: bytes | None = None
    message: str | None = None
    """gRPC: the request as JSON, which the client encodes."""


def read(table: Table | None) -> dict[str, Call]:
    """The calls in the table `calls` of a server.toml, by format; BadExperiment names the key."""
    if table is None:
        return {}
    return {name: _call(name, inner, table) for name, inner in table.named()}


def _call(name: str, table: Table, around: Table) -> Call:
    if name not in MESSAGES:
        raise around.bad(name, is_not("format of a call", name, MESSAGES))
    path = table.text("path")
    if not path.startswith("/"):
        raise table.bad("path", f"starts with a slash, unlike {path!r}")
    method = table.text("method", "POST" if name.startswith("grpc") else "GET")
    if not _METHOD.fullmatch(method):
        raise table.bad("method", f"{method!r} is not a method: write it in capitals")
    body, message = table.text("body", None), table.text("message", None)
    if (name == "grpc") != (message is not None):
        problem = "is the request as JSON, which goes with [calls.grpc] and only there"
        raise table.bad("message", problem)
    if message is not None:
        if body is not None:
            raise table.bad("body", "there is a message already: leave one of the two out")
        try:
            json.loads(message)
        except ValueError as error:
            raise table.bad("message", f"is no JSON: {error}") from None
    call = Call(
        path=path,
        method=method,
        headers=_headers(table),
        body=None if body is None else body.encode(),
        message=message,
    )
    table.close()
    return call


def _headers(table: Table) -> Headers:
    found = []
    for index, line in enumerate(table.texts("headers", ())):
        name, colon, value = line.partition(":")
        if not colon or not _FIELD.fullmatch(name):
            raise table.bad("headers", f"{line!r} is no header: write 'name: value'", index)
        found.append((name, value.strip()))
    return tuple(found)


def frame(message: bytes) -> bytes:
    """A message with the prefix of gRPC: not compressed, length in four bytes."""
    return b"\0" + len(message).to_bytes(4, "big") + message


EMBEDDED: Mapping[str, Call] = {
    "json": Call(f"/v1/{BOOK}", "GET", (("accept", "application/json"),)),
    "protobuf": Call(f"/v1/{BOOK}", "GET", (("accept", "application/protobuf"),)),
    "grpc": Call(METHOD, message=json.dumps({"name": BOOK})),
    "grpc-web": Call(
        METHOD,
        headers=(("content-type", "application/grpc-web+proto"), ("x-grpc-web", "1")),
        body=frame(library_book.request()),
    ),
}
"""The calls of the embedded server."""
