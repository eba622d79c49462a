"""Servers of grpcio for services that a test describes, by Google's protoc."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent import futures
from importlib import resources
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from .grpc_schema import PROTO

Message = Any


class Described:
    """A `.proto` file: its descriptor set, and classes for its messages."""

    def __init__(self, folder: Path, file: Path, *, includes: tuple[Path, ...] = ()) -> None:
        well_known = resources.files("grpc_tools") / "_proto"
        self.set = folder / "described.pb"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{file.parent}", f"-I{PROTO}"]
        command += [f"-I{include}" for include in (*includes, well_known)]
        command += [f"--descriptor_set_out={self.set}", "--include_imports", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        self._pool = descriptor_pool.DescriptorPool()
        found = descriptor_pb2.FileDescriptorSet.FromString(self.set.read_bytes())
        for each in found.file:
            self._pool.Add(each)

    def make(self, name: str, **fields: object) -> Message:
        """A message by its full name."""
        kind = message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))
        return kind(**fields)

    def read(self, name: str, content: bytes) -> Message:
        """A message from its bytes."""
        message = self.make(name)
        message.ParseFromString(content)
        return message


@contextlib.contextmanager
def serving(service: str, methods: Mapping[str, object]) -> Iterator[str]:
    """Serve methods, by name, whose messages are bytes; gives the URL."""
    handlers: Any = methods
    with _running(grpc.method_handlers_generic_handler(service, handlers)) as url:
        yield url


class _Echo(grpc.GenericRpcHandler):
    def service(self, _call: grpc.HandlerCallDetails) -> Any:
        return grpc.unary_unary_rpc_method_handler(lambda request, _context: request)


@contextlib.contextmanager
def echoing() -> Iterator[str]:
    """Serve every unary method there may be: the response is the request. Gives the URL."""
    with _running(_Echo()) as url:
        yield url


@contextlib.contextmanager
def _running(handler: grpc.GenericRpcHandler) -> Iterator[str]:
    alone = [("grpc.so_reuseport", 0)]
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[handler], options=alone)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"grpc://127.0.0.1:{port}"
    finally:
        server.stop(None).wait(60)
