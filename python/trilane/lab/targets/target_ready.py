"""Waiting until a server answers, over every version that is wanted."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from trilane.client import Client, Error
from trilane.lab.processes.launch import Launched
from trilane.lab.processes.place import HERE, Place
from trilane.lab.processes.words import how_ended
from trilane.lab.targets import grpc_health
from trilane.lab.targets.servers import ServerFailed
from trilane.lab.targets.target_config import PLAIN, ServerConfig

_POLL_S = 0.05
_ANSWER_S = 5.0


class Died(ServerFailed):
    """The server ended before it was ready."""


def wait_for(
    config: ServerConfig,
    origins: Mapping[str, str],
    cacert: str | None,
    place: Place = HERE,
    server: Launched | None = None,
) -> None:
    """Return once a server answers over the versions of `origins`; `server` is it where it is ours.

    Raises:
        Died: it ended before.
        ServerFailed: it did not answer in time; the message ends with its last words.
    """
    deadline = time.monotonic() + config.ready_timeout_s
    for version, origin in origins.items():
        url = f"{origin}{config.ready_path or grpc_health.PATH}"
        while True:
            _check(config, server)
            timeout_s = min(_ANSWER_S, max(0.1, deadline - time.monotonic()))
            problem = place.call(_ask, url, version, config.ready_grpc, cacert, timeout_s)
            # What answered may be another program, where ours has ended.
            _check(config, server)
            if problem is None:
                break
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"{config.name} was not ready within {config.ready_timeout_s:g} s: "
                    f"{url} over {version}: {problem}{_last_words(server)}"
                )
            time.sleep(_POLL_S)


def _check(config: ServerConfig, server: Launched | None) -> None:
    if server is not None and server.ended():
        raise Died(
            f"{config.name} ended with {how_ended(server.exit_code or 0)} before it was ready"
            f"{_last_words(server)}"
        )


def _ask(
    url: str, version: str, service: str | None, cacert: str | None, timeout_s: float
) -> str | None:
    """What is wrong with the server's answer; None when it is ready.

    It is ready when it answers 200, and with a `service` when that is being served by gRPC's health
    check. Waits at most `timeout_s` seconds for each of connection, head and content.
    """
    try:
        if version in ("h1", PLAIN):
            with contextlib.closing(connection(url, cacert, timeout_s)) as asked:
                asked.request("GET", urlsplit(url).path)
                status = asked.getresponse().status
                return None if status == http.HTTPStatus.OK else f"status {status}"
        with caller(version, cacert, timeout_s) as client:
            if service is None:
                answer = client.get(url)
            else:
                content = grpc_health.request(service)
                answer = client.post(url, content, headers=grpc_health.FIELDS)
    except (OSError, http.client.HTTPException, Error) as error:
        return str(error) or type(error).__name__
    if answer.status != http.HTTPStatus.OK:
        return f"status {answer.status}"
    return None if service is None else grpc_health.problem(answer, service)


def connection(url: str, cacert: str | None, timeout_s: float) -> http.client.HTTPConnection:
    """A connection of the standard library's client, which trusts `cacert`, or the system's."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    context = ssl.create_default_context(cafile=cacert)
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)


def caller(version: str, cacert: str | None, timeout_s: float) -> Client:
    """Our own client for one version, `h2`, `h2c` or `h3`; it trusts as `connection` does."""
    return Client(
        versions=["h2" if version == "h2c" else version],
        verify=cacert or True,
        timeout=timeout_s,
        proxies=None,
    )


def _last_words(server: Launched | None) -> str:
    if server is None:
        return ""
    tail = server.tail()
    return f"; its log {server.log} ends:\n{tail}" if tail else f"; its log {server.log} is empty"
