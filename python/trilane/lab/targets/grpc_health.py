"""gRPC's health check, of a server that answers nothing but gRPC.

One call of `grpc.health.v1.Health/Check`, written by hand: request and answer have one field each.
https://github.com/grpc/grpc/blob/master/doc/health-checking.md
"""

from __future__ import annotations

import struct

from trilane import client

PATH = "/grpc.health.v1.Health/Check"
# Field 1 of both messages: the service's name, of wire type 2; its status, of wire type 0.
_SERVICE = b"\x0a"
_SERVING = b"\x08\x01"
_FIELDS = {"content-type": "application/grpc", "te": "trailers"}
NAME_LIMIT = 127
"""Bytes of a service's name: so its length is one byte."""


def ask(url: str, version: str, service: str, cacert: str | None, timeout_s: float) -> str | None:
    """What is wrong with the server's answer; None where it says that it serves the service.

    `url` ends with `PATH`, `version` is h2, h2c or h3. Waits at most `timeout_s` seconds for each
    of connection, head and content.
    """
    name = service.encode()
    request = _framed(_SERVICE + bytes([len(name)]) + name)
    try:
        with client.Client(
            versions=["h2" if version == "h2c" else version],
            verify=cacert or True,
            timeout=timeout_s,
            proxies=None,
        ) as caller:
            answer = caller.post(url, request, headers=_FIELDS)
    except (client.Error, OSError) as error:
        return str(error) or type(error).__name__
    if answer.status != 200:
        return f"status {answer.status}"
    # In a response without content the status is in its head.
    status = answer.trailers.get("grpc-status") or answer.headers.get("grpc-status")
    if status != "0":
        return f"grpc-status {status or 'is missing'}"
    return None if answer.content == _framed(_SERVING) else f"{service} is not being served"


def _framed(message: bytes) -> bytes:
    return struct.pack(">?I", False, len(message)) + message
