"""How one call is asked of a server: `GetBook` of `shelves/1/books/1`, once for each format.

A `server.toml` says it in its tables `[calls.json]`, `[calls.protobuf]`, `[calls.grpc]` and
`[calls.grpc-web]`; what the embedded server understands stands here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

from trilane.lab.experiment.bad_experiment import BadKey, Key
from trilane.lab.experiment.check_workload import METHOD as METHOD_NAME
from trilane.lab.experiment.toml_document import Text
from trilane.lab.experiment.vocabulary import MESSAGES
from trilane.lab.experiment.words import is_not
from trilane.lab.experiment.workload import Headers
from trilane.lab.experiment.written import Header
from trilane.lab.targets import library_book

_SERVICE = "trilane.library.v1.Library"
METHOD = f"/{_SERVICE}/GetBook"
BOOK = str(library_book.BOOK["name"])
DEFINITION = "trilane/library/v1/library.proto"
"""The service that is called, in the folder of definitions."""
_GRPC: Headers = (("te", "trailers"), ("content-type", "application/grpc+proto"))


@dataclass(frozen=True, slots=True)
class Call:
    """A request that asks for the book."""

    path: str
    method: str = "POST"
    headers: Headers = ()
    body: bytes | None = None
    message: str | None = None
    """gRPC: the request as JSON, which the client encodes."""

    @property
    def encoded(self) -> tuple[Headers, bytes | None]:
        """Header fields and content as HTTP has them, for clients that know no gRPC."""
        if self.message is None:
            return self.headers, self.body
        said = {name.lower() for name, _ in self.headers}
        fields = tuple((name, value) for name, value in _GRPC if name not in said)
        return (*fields, *self.headers), frame(library_book.request())


class CallTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The table of a call in a server.toml."""

    path: Text
    method: Text | None = None
    body: Text | None = None
    message: Text | None = None
    headers: tuple[Header, ...] = ()


def read(tables: Mapping[str, CallTable], key: Key) -> dict[str, Call]:
    """The calls by format, from the tables at this key; BadKey tells what is wrong."""
    for name in tables:
        if name not in MESSAGES:
            raise BadKey(is_not("format of a call", name, MESSAGES), (*key, name))
    return {name: _call(name, table, (*key, name)) for name, table in tables.items()}


def _call(name: str, table: CallTable, key: Key) -> Call:
    if not table.path.startswith("/"):
        raise BadKey(f"starts with a slash, unlike {table.path!r}", (*key, "path"))
    method = table.method or ("POST" if name.startswith("grpc") else "GET")
    if not METHOD_NAME.fullmatch(method):
        raise BadKey(f"{method!r} is not a method: write it in capitals", (*key, "method"))
    if (name == "grpc") != (table.message is not None):
        problem = "is the request as JSON, which goes with [calls.grpc] and only there"
        raise BadKey(problem, (*key, "message"))
    if table.message is not None:
        if table.body is not None:
            raise BadKey("there is a message already: leave one of the two out", (*key, "body"))
        try:
            json.loads(table.message)
        except ValueError as error:
            raise BadKey(f"is not JSON: {error}", (*key, "message")) from None
    return Call(
        path=table.path,
        method=method,
        headers=table.headers,
        body=None if table.body is None else table.body.encode(),
        message=table.message,
    )


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
