"""gRPC's health check, of a server that answers nothing but gRPC.

One call of `grpc.health.v1.Health/Check`, written by hand: request and answer have one field each.
https://github.com/grpc/grpc/blob/master/doc/health-checking.md
"""

from __future__ import annotations

from trilane.client import Response
from trilane.lab.targets.calls import frame

PATH = "/grpc.health.v1.Health/Check"
FIELDS = {"content-type": "application/grpc", "te": "trailers"}
"""Header fields of the call."""
# Field 1 of both messages: the service's name, of wire type 2; its status, of wire type 0.
_SERVICE = b"\x0a"
_SERVING = b"\x08\x01"
NAME_LIMIT = 127
"""Bytes of a service's name: so its length is one byte."""


def request(service: str) -> bytes:
    """The content of the call."""
    name = service.encode()
    return frame(_SERVICE + bytes([len(name)]) + name)


def status(answer: Response) -> str | None:
    """The `grpc-status` of an answer: of its trailers, or of its head where it has no content."""
    return answer.trailers.get("grpc-status") or answer.headers.get("grpc-status")


def problem(answer: Response, service: str) -> str | None:
    """What is wrong with an answer of status 200; None where the service is being served."""
    if (told := status(answer)) != "0":
        return f"grpc-status {told or 'is missing'}"
    return None if answer.content == frame(_SERVING) else f"{service} is not being served"
