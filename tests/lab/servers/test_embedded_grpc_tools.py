"""Health and reflection of the embedded server, by grpcio's clients of them and by grpcurl."""

from __future__ import annotations

import functools
import json
import subprocess
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from peers import grpcurl as grpcurl_tool
from peers.grpc_schema import FILE, SERVICE, as_json
from peers.peer import Peer
from peers.process import MissingProgramError
from peers.running import absent

from .library import PATIENCE_S, Library, address, refused

REFLECTION = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
HEALTH = "grpc.health.v1.Health"


def test_health(library: Library) -> None:
    # Its methods are made at run time, which its types do not say.
    stub: Any = health_pb2_grpc.HealthStub(library.channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    for service in ("", SERVICE):
        request = health_pb2.HealthCheckRequest(service=service)
        assert stub.Check(request, timeout=PATIENCE_S).status == serving, service
        watching = stub.Watch(request, timeout=PATIENCE_S)
        assert next(watching).status == serving
        watching.cancel()
    unknown = health_pb2.HealthCheckRequest(service="no.such.Service")
    assert refused(lambda: stub.Check(unknown, timeout=PATIENCE_S))[0] is (
        grpc.StatusCode.NOT_FOUND
    )


def test_reflection_by_the_client_of_grpcio(library: Library) -> None:
    database = ProtoReflectionDescriptorDatabase(library.channel)
    services = set(database.get_services())
    assert {SERVICE, HEALTH} <= services
    # Each version of tonic-reflection knows of itself alone.
    assert services & set(REFLECTION)
    pool = DescriptorPool(database)
    service = pool.FindServiceByName(SERVICE)
    ours = library.schema.pool.FindServiceByName(SERVICE)
    assert [method.name for method in service.methods] == [method.name for method in ours.methods]
    for found, known in zip(service.methods, ours.methods, strict=True):
        assert found.client_streaming == known.client_streaming
        assert found.server_streaming == known.server_streaming
        assert found.input_type.full_name == known.input_type.full_name
        # With the rules of transcoding, which are options of the methods.
        assert found.GetOptions().SerializeToString() == known.GetOptions().SerializeToString()
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("trilane.library.v1.Book"))
    book: Any = kind.FromString(
        library.raw(f"/{SERVICE}/GetBook")(
            library.schema.make("GetBookRequest", name="shelves/3/books/9").SerializeToString(),
            timeout=PATIENCE_S,
        )
    )
    assert book.title == "Book 9 of shelf 3"


@pytest.mark.parametrize("service", REFLECTION)
def test_every_question_of_reflection(library: Library, service: str) -> None:
    ask = library.channel.stream_stream(
        f"/{service}/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    request = reflection_pb2.ServerReflectionRequest
    questions = [
        request(list_services=""),
        request(file_by_filename=FILE),
        request(file_containing_symbol=SERVICE),
        request(file_containing_symbol=f"{SERVICE}.GetBook"),
        request(file_containing_symbol="trilane.library.v1.Book.title"),
        request(file_containing_symbol="google.protobuf.Duration"),
    ]
    answers = list(ask(iter(questions), timeout=PATIENCE_S))
    assert [answer.original_request for answer in answers] == questions
    kinds = [answer.WhichOneof("message_response") for answer in answers]
    assert kinds == ["list_services_response"] + ["file_descriptor_response"] * 5

    unknown = [
        request(file_containing_symbol="no.such.Symbol"),
        request(file_by_filename="no/such.proto"),
    ]
    for question in unknown:
        # reflection.proto has a response for it; tonic-reflection ends the call instead.
        try:
            (answer,) = ask(iter([question]), timeout=PATIENCE_S)
            code = answer.error_response.error_code
        except grpc.RpcError as error:
            code = error.code().value[0]
        assert code == grpc.StatusCode.NOT_FOUND.value[0], question


@pytest.fixture(scope="module")
def grpcurl() -> str:
    try:
        return grpcurl_tool.program()
    except MissingProgramError as error:
        absent(str(error))


def run(program: str, *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [program, "-max-time", "20", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def security(peer: Peer, listener: str) -> list[str]:
    return ["-plaintext"] if listener == "h2c" else ["-cacert", str(peer.ca)]


@pytest.mark.parametrize("listener", ["h2c", "h2"])
def test_grpcurl(ours: Peer, grpcurl: str, listener: str) -> None:
    where = address(ours, listener)
    ask = functools.partial(run, grpcurl, *security(ours, listener))
    assert {SERVICE, HEALTH, REFLECTION[0]} <= set(ask(where, "list").split())
    assert f"{SERVICE}.LookUpBooks" in ask(where, "list", SERVICE).split()
    described = ask(where, "describe", f"{SERVICE}.GetBook")
    assert "rpc GetBook ( .trilane.library.v1.GetBookRequest )" in described
    assert 'get: "/v1/{name=shelves/*/books/*}"' in described
    assert "repeated string labels = 6;" in ask(where, "describe", "trilane.library.v1.Book")

    found = ask("-d", '{"name": "shelves/3/books/8"}', where, f"{SERVICE}/GetBook")
    assert json.loads(found) == as_json(3, 8)
    found = ask("-d", '{"parent": "shelves/3", "count": 5}', where, f"{SERVICE}/WatchBooks")
    assert found.count('"change": "PRESENT"') == 5
    two = '{"parent": "shelves/7", "book": {}} {"parent": "shelves/7", "book": {"title": "x"}}'
    assert json.loads(ask("-d", two, where, f"{SERVICE}/ImportBooks")) == {"created": 2}
    two = '{"name": "shelves/1/books/1"} {"name": "shelves/1/books/2"}'
    assert ask("-d", two, where, f"{SERVICE}/LookUpBooks").count('"title"') == 2
    assert "SERVING" in ask(where, f"{HEALTH}/Check")


def test_grpcurl_is_refused(ours: Peer, grpcurl: str) -> None:
    where = address(ours, "h2c")
    # Its exit code is 64 and the code of the status.
    missing = '{"name": "shelves/3/books/99999"}'
    call = ["-plaintext", "-d", missing, where, f"{SERVICE}/GetBook"]
    said = run(grpcurl, *call, code=64 + 5)
    assert "NotFound" in said
    assert "shelves/3/books/99999" in said
