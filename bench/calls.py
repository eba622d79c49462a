"""The gRPC call of the rows: one message that is the same bytes for every tool."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

_PROTO = Path(__file__).resolve().parents[1] / "proto"


@dataclass(frozen=True)
class Call:
    """A unary call with one message of one text field."""

    method: str
    """`pkg.Service/Method`."""
    field: str
    number: int
    """Of the field; at most 15, so that its tag is one byte."""
    value: str
    """At most 127 bytes, so that its length is one byte."""

    @property
    def data(self) -> str:
        """The message as JSON."""
        return json.dumps({self.field: self.value})

    @property
    def frame(self) -> bytes:
        """The message, encoded, behind its prefix: what a tool that knows no gRPC sends."""
        value = self.value.encode()
        message = bytes([self.number << 3 | 2, len(value)]) + value
        return struct.pack(">BI", 0, len(message)) + message

    @property
    def proto(self) -> tuple[str, str]:
        """The file that defines the method, and the folder of its imports."""
        return str(_PROTO / "trilane/library/v1/library.proto"), str(_PROTO)


GET_BOOK = Call("trilane.library.v1.Library/GetBook", "name", 1, "shelves/1/books/1")
