"""The library service for Python: compiled by Google's protoc, called and served by descriptor.

Nothing here shares code with the implementations under test: protoc (in grpcio-tools) reads
`proto/`, the `protobuf` package makes the messages.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import MethodDescriptor

PROTO = Path(__file__).resolve().parents[2] / "proto"
FILE = "trilane/library/v1/library.proto"
SERVICE = "trilane.library.v1.Library"
PACKAGE = "trilane.library.v1"
SHELVES, BOOKS = 10, 100
Message = Any


def compile_set(target: Path) -> Path:
    """Write the file descriptor set of the service, imports included, to `target`."""
    well_known = resources.files("grpc_tools") / "_proto"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"-I{well_known}"]
    command += [f"--descriptor_set_out={target}", "--include_imports", FILE]
    target.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"protoc: {done.stderr.strip()}")
    return target


def title(shelf: int, book: int) -> str:
    """Title of a book at the start."""
    return f"Book {book} of shelf {shelf}"


def author(shelf: int, book: int) -> str:
    """Author of a book at the start."""
    return f"Author {(7 * shelf + book) % 97}"


def as_json(shelf: int, book: int) -> dict[str, object]:
    """A book at the start in proto3 JSON; fields at their default are left out."""
    found: dict[str, object] = {
        "name": f"shelves/{shelf}/books/{book}",
        "author": author(shelf, book),
        "title": title(shelf, book),
        "pages": 100 + book,
    }
    return found | ({"read": True} if book % 2 == 0 else {})


class Schema:
    """The messages and methods of a file descriptor set, in a pool of its own."""

    def __init__(self, descriptor_set: Path) -> None:
        self.pool = descriptor_pool.DescriptorPool()
        found = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set.read_bytes())
        for file in found.file:
            self.pool.Add(file)

    def type(self, name: str) -> Any:
        """The class of a message; names without a dot are of the library's package."""
        full = name if "." in name else f"{PACKAGE}.{name}"
        descriptor = self.pool.FindMessageTypeByName(full)
        return message_factory.GetMessageClass(descriptor)

    def make(self, name: str, /, **fields: object) -> Message:
        """A message of that type."""
        return self.type(name)(**fields)

    def book(self, shelf: int, book: int) -> Message:
        """A book as it is at the start."""
        return self.make("Book", **as_json(shelf, book))

    def methods(self) -> dict[str, MethodDescriptor]:
        """The library's methods by name."""
        return dict(self.pool.FindServiceByName(SERVICE).methods_by_name)

    def stub(self, channel: Any, method: str) -> Callable[..., Any]:
        """What calls a method on a grpc or grpc.aio channel, of the method's own kind."""
        found = self.methods()[method]
        kind = (
            ("stream" if found.client_streaming else "unary")
            + "_"
            + ("stream" if found.server_streaming else "unary")
        )
        stub: Callable[..., Any] = getattr(channel, kind)(
            f"/{SERVICE}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_factory.GetMessageClass(found.output_type).FromString,
        )
        return stub
