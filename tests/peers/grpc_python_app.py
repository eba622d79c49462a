"""The program that `grpc_python` starts: the library, health and server reflection, by grpcio."""

from __future__ import annotations

import argparse
import signal
import threading
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import message_factory
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from .grpc_python_library import Library
from .grpc_schema import SERVICE, Schema, compile_set

_THREADS = 16
REFLECTION = {
    "v1": "grpc.reflection.v1.ServerReflection",
    "v1alpha": "grpc.reflection.v1alpha.ServerReflection",
}


def _library(schema: Schema) -> grpc.GenericRpcHandler:
    library = Library(schema)
    behaviours: dict[str, Any] = {
        "GetBook": library.get_book,
        "ListBooks": library.list_books,
        "CreateBook": library.create_book,
        "UpdateBook": library.update_book,
        "DeleteBook": library.delete_book,
        "WatchBooks": library.watch_books,
        "ImportBooks": library.import_books,
        "LookUpBooks": library.look_up_books,
    }
    handlers = {}
    for name, method in schema.methods().items():
        kind = ("stream" if method.client_streaming else "unary") + "_"
        kind += "stream" if method.server_streaming else "unary"
        handlers[name] = getattr(grpc, f"{kind}_rpc_method_handler")(
            behaviours[name],
            request_deserializer=message_factory.GetMessageClass(method.input_type).FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _reflection(schema: Schema, versions: list[str]) -> list[grpc.GenericRpcHandler]:
    """The two versions have the same messages and differ in the name of the service."""
    services = [SERVICE, *(REFLECTION[version] for version in versions)]
    servicer = reflection.ReflectionServicer(service_names=services, pool=schema.pool)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    return [
        grpc.method_handlers_generic_handler(REFLECTION[version], {"ServerReflectionInfo": handler})
        for version in versions
    ]


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    for flag in ("--plain", "--tls", "--cert", "--key", "--state"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--reflection", default="")
    options = parser.parse_args()
    schema = Schema(compile_set(Path(options.state) / "library.pb"))
    server = grpc.server(futures.ThreadPoolExecutor(_THREADS), options=[("grpc.so_reuseport", 0)])
    versions = [version for version in options.reflection.split(",") if version]
    server.add_generic_rpc_handlers([_library(schema), *_reflection(schema, versions)])
    servicer = health.HealthServicer()
    servicer.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    pair = (Path(options.key).read_bytes(), Path(options.cert).read_bytes())
    server.add_insecure_port(options.plain)
    server.add_secure_port(options.tls, grpc.ssl_server_credentials([pair]))
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server.start()
    ended.wait()
    server.stop(0).wait(5)


if __name__ == "__main__":
    main()
