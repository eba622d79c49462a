"""The client under test of Connect's conformance suite: `trilane load --show` for each case.

The runner of the suite starts it, writes messages of ClientCompatRequest to its stdin, and reads
one of ClientCompatResponse for each from its stdout, in any order, each behind four bytes of
length.
"""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import grpc
from google.protobuf import descriptor_pb2, json_format

_LENGTH = struct.Struct(">I")
_SERVICE = "connectrpc/conformance/v1/service.proto"
_COMPAT = "connectrpc/conformance/v1/client_compat.proto"
_DEFAULT = "connectrpc.conformance.v1.ConformanceService"
_PROTOCOLS = {1: "connect", 2: "grpc", 3: "grpc-web"}
_GZIP = 2
# A case ends earlier; the runner waits for 20 s.
_PATIENCE_S = 15
# At a time: each is a process that mostly waits.
_CASES = 8
# How long a stream lasts that is to be cancelled before we end our direction: its messages have
# left and been answered long before.
_BEFORE_CLOSE = "1s"
_UNARY, _CLIENT, _SERVER, _HALF, _FULL = 1, 2, 3, 4, 5


class _InexpressibleError(Exception):
    """What a case asks of a client and no flag of `trilane load` says."""


@dataclass(frozen=True)
class _Client:
    """The program, the mode of its calls, a descriptor set, where files may lie, and messages."""

    program: str
    mode: str
    described: Path
    folder: Path
    compat: Any
    service: Any

    def argv(self, asked: Any, folder: Path) -> list[str]:
        """The command line of a case; raises `_InexpressibleError`."""
        secure = bool(asked.server_tls_cert)
        version = {1: "--h1", 2: "--h2" if secure else "--h2c", 3: "--h3"}[asked.http_version]
        method = f"{asked.service or _DEFAULT}/{asked.method}"
        argv = [self.program, "load", "--show", "--format", "json", "--grpc", method, version]
        argv += ["--grpc-protocol", _PROTOCOLS[asked.protocol], "--grpc-mode", self.mode]
        argv += ["--descriptor-set", str(self.described)]
        argv += ["--timeout", f"{_PATIENCE_S}s"]
        if secure:
            argv += ["--cacert", _file(folder / "ca.pem", asked.server_tls_cert)]
        if asked.HasField("client_tls_creds"):
            argv += ["--cert", _file(folder / "cert.pem", asked.client_tls_creds.cert)]
            argv += ["--key", _file(folder / "key.pem", asked.client_tls_creds.key)]
        if asked.compression == _GZIP:
            argv += ["--gzip"]
        if asked.message_receive_limit:
            argv += ["--max-message", str(asked.message_receive_limit)]
        if asked.HasField("timeout_ms"):
            argv += ["--deadline", f"{asked.timeout_ms}ms"]
        for header in asked.request_headers:
            for value in header.value:
                argv += ["-H", f"{header.name}: {value}"]
        argv += self._messages(asked, folder)
        scheme = "https" if secure else "http"
        return [*argv, f"{scheme}://{asked.host}:{asked.port}"]

    def _messages(self, asked: Any, folder: Path) -> list[str]:
        if asked.use_get_http_method:
            raise _InexpressibleError("calls by GET")
        messages = [message.value for message in asked.request_messages]
        streams = asked.stream_type in {_CLIENT, _HALF, _FULL}
        if not streams and len(messages) != 1:
            raise _InexpressibleError(f"{len(messages)} messages in a call that has one")
        argv: list[str] = []
        if messages:
            content = b"".join(_varint(len(each)) + each for each in messages)
            argv += ["--message-format", "delimited", "-b", "@" + _file(folder / "body", content)]
        if streams:
            argv += ["--messages", str(len(messages))]
            if asked.request_delay_ms:
                argv += ["--message-rate", str(1000 / asked.request_delay_ms)]
        if asked.stream_type == _HALF:
            argv += ["--answers", "any"]
        return argv + self._cancelled(asked)

    @staticmethod
    def _cancelled(asked: Any) -> list[str]:
        if not asked.HasField("cancel"):
            return []
        when = asked.cancel.WhichOneof("cancel_timing")
        if when == "before_close_send":
            return ["--half-close", "never", "--stream-duration", _BEFORE_CLOSE]
        if when == "after_close_send_ms" and asked.stream_type == _SERVER:
            return ["--stream-duration", f"{max(asked.cancel.after_close_send_ms, 1)}ms"]
        raise _InexpressibleError(f"a call that is cancelled: {when}")

    def respond(self, asked: Any) -> Any:
        """Make the call that is asked for, and say what came of it."""
        response = self.compat.ClientCompatResponse(test_name=asked.test_name)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            try:
                argv = self.argv(asked, Path(folder))
            except _InexpressibleError as error:
                response.error.message = f"trilane load cannot say: {error}"
                return response
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_PATIENCE_S + 30,
            )
        if not done.stdout:
            response.error.message = f"trilane load ended with {done.returncode}: {done.stderr}"
            return response
        self._tell(json.loads(done.stdout), asked, response.response)
        return response

    def _tell(self, shown: dict[str, Any], asked: Any, result: Any) -> None:
        head, trailers = shown["head"] or [], shown["trailers"] or []
        bare = shown["protocol"] == "connect" and asked.stream_type == _UNARY
        if bare:
            trailers = [(name[8:], text) for name, text in head if name.startswith("trailer-")]
            head = [(name, text) for name, text in head if not name.startswith("trailer-")]
        elif not trailers and any(name == "grpc-status" for name, _ in head):
            # A response of a head alone: that is its trailers, too.
            trailers = head
        _headers(result.response_headers, head)
        _headers(result.response_trailers, trailers)
        kind = asked.method + "Response"
        if shown["ok"] or asked.stream_type in {_SERVER, _HALF, _FULL}:
            for message in shown["messages"]:
                # The class of a method that is not there has no payload.
                made = getattr(self.service, kind)()
                json_format.ParseDict(message, made)
                result.payloads.append(made.payload)
        result.num_unsent_requests = max(len(asked.request_messages) - (shown["sent"] or 0), 0)
        if shown["status"]["code"] != 0:
            self._error(shown, dict(trailers), result.error)

    def _error(self, shown: dict[str, Any], trailers: dict[str, str], error: Any) -> None:
        failure = shown["failure"] or {"text": ""}
        told = shown["connect_error"]
        if isinstance(told, dict):
            error.message = told.get("message") or ""
            for detail in told.get("details") or []:
                error.details.add(
                    type_url=f"type.googleapis.com/{detail['type']}",
                    value=_decoded(detail["value"]),
                )
        elif "grpc-status-details-bin" in trailers:
            # A google.rpc.Status has the fields of the suite's Error, by number and by type.
            error.ParseFromString(_decoded(trailers["grpc-status-details-bin"]))
        elif "grpc-status" in trailers:
            error.message = unquote(trailers.get("grpc-message", ""))
        else:
            error.message = failure["text"]
        error.code = shown["status"]["code"]


def _decoded(text: str) -> bytes:
    """Base64, with or without padding."""
    return base64.b64decode(text + "=" * (-len(text) % 4))


def _varint(number: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def _file(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def _headers(into: Any, fields: list[Any]) -> None:
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name, []).append(value)
    for name, several in values.items():
        into.add(name=name, value=several)


def _add(described: descriptor_pb2.FileDescriptorSet, file: Any) -> None:
    """Add a file and its imports, which come first."""
    for each in file.dependencies:
        _add(described, each)
    if all(known.name != file.name for known in described.file):
        file.CopyToProto(described.file.add())


def _read(stream: IO[bytes], kind: Any) -> Any:
    """The next message; None at the end."""
    prefix = stream.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(prefix)
    return kind.FromString(stream.read(length))


def main(program: str, mode: str, protos: str, folder: str) -> None:
    """Answer the cases on stdin until there are no more."""
    # Where grpc.protos looks for them.
    sys.path.insert(0, protos)
    compat: Any = grpc.protos(_COMPAT)
    service: Any = grpc.protos(_SERVICE)
    described = Path(folder) / "service.pb"
    file = descriptor_pb2.FileDescriptorSet()
    _add(file, service.DESCRIPTOR)
    described.write_bytes(file.SerializeToString())
    client = _Client(program, mode, described, Path(folder), compat, service)
    writing = threading.Lock()

    def answer(asked: Any) -> None:
        try:
            response = client.respond(asked)
        except Exception as error:  # noqa: BLE001 a case that breaks this program has failed, and no other
            response = compat.ClientCompatResponse(test_name=asked.test_name)
            response.error.message = f"{type(error).__name__}: {error}"
        content: bytes = response.SerializeToString()
        with writing:
            sys.stdout.buffer.write(_LENGTH.pack(len(content)) + content)
            sys.stdout.buffer.flush()

    with ThreadPoolExecutor(_CASES) as pool:
        while (asked := _read(sys.stdin.buffer, compat.ClientCompatRequest)) is not None:
            pool.submit(answer, asked)


if __name__ == "__main__":
    main(*sys.argv[1:])
