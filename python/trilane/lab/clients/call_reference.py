"""What a call answers before it is measured, read by clients that are not the load engine.

HTTP/1.1 is read by the standard library's client, what needs another version by `trilane.client`.
The answer must be the book of the service's formula; its bytes are what runs are held against.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import zlib

from trilane.client import Error
from trilane.lab.clients.reference import NoReference, Reference
from trilane.lab.model.documents import Json
from trilane.lab.targets import grpc_health, library_book
from trilane.lab.targets.calls import Call
from trilane.lab.targets.library_book import WrongBook
from trilane.lab.targets.target_ready import caller, connection

_TIMEOUT_S = 10.0
_TOLD = 80
_LIMIT = 1 << 20
_STATUS = re.compile(r"^grpc-status: *(\d+)", re.IGNORECASE | re.MULTILINE)


def read(call: Call, message: str, version: str, origin: str, cacert: str | None) -> Reference:
    """Make the call once and check its answer; raises `NoReference` where it is not the book."""
    what = f"{origin}{call.path} over {version}, {message}"
    try:
        status, content, grpc_status = _answer(call, version, origin, cacert)
    except (OSError, http.client.HTTPException, Error, ValueError) as error:
        raise NoReference(f"{what}: {str(error) or type(error).__name__}") from error
    if status != http.HTTPStatus.OK:
        raise NoReference(f"{what}: status {status}, {content[:_TOLD]!r}")
    try:
        library_book.check(_book(message, content, grpc_status))
    except WrongBook as error:
        raise NoReference(f"{what}: this is not the book: {error}") from error
    return Reference(((call.path, zlib.crc32(content)),), (len(content),), complete=False)


def _book(message: str, content: bytes, grpc_status: str | None) -> Json:
    if message == "json":
        return library_book.of_json(content)
    if message == "protobuf":
        return library_book.of_protobuf(content)
    # A status without a message stands alone, so it is looked at first.
    if message == "grpc" and grpc_status != "0":
        raise WrongBook(f"grpc-status is {grpc_status}")
    book, trailers = library_book.of_frames(content)
    if message == "grpc-web":
        found = _STATUS.search(trailers)
        if found is None or found[1] != "0":
            raise WrongBook(f"the trailers are {trailers[:200]!r}")
    return book


def _answer(
    call: Call, version: str, origin: str, cacert: str | None
) -> tuple[int, bytes, str | None]:
    """Status, content, and `grpc-status` of the trailers, or of the head where there are none."""
    # As the engine asks: what it reads is held against these bytes.
    fields, body = call.encoded
    headers = {"accept-encoding": "identity", **dict(fields)}
    if version == "h1":
        with contextlib.closing(connection(origin, cacert, _TIMEOUT_S)) as asked:
            asked.request(call.method, call.path, body, headers)
            told = asked.getresponse()
            return told.status, told.read(_LIMIT), None
    with caller(version, cacert, _TIMEOUT_S) as client:
        answer = client.request(call.method, origin + call.path, headers=headers, content=body)
        return answer.status, answer.content, grpc_health.status(answer)
