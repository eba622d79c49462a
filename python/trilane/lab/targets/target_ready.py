"""Waiting until a server answers, over every version that is wanted."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from trilane.lab.processes import supervisor
from trilane.lab.processes.launch import Launched
from trilane.lab.processes.place import HERE, Place
from trilane.lab.processes.supervisor import Late, NotStarted
from trilane.lab.processes.words import how_ended, told
from trilane.lab.targets import grpc_health
from trilane.lab.targets.target_config import PLAIN, ServerConfig

_LOAD = (sys.executable, "-m", "trilane", "load")
_POLL_S = 0.05
_ANSWER_S = 2.0
_LOAD_S = 5.0
# Starting Python takes longer than asking.
_LOAD_SLACK_S = 10.0


class NotReady(RuntimeError):
    """The server did not answer in time; the message ends with its last words."""


class Died(NotReady):
    """The server ended before it was ready."""


def wait_for(
    config: ServerConfig,
    server: Launched,
    origins: Mapping[str, str],
    cacert: str | None,
    place: Place = HERE,
) -> None:
    """Return once a server of ours answers over the versions of `origins`; raises NotReady."""

    def check() -> None:
        if server.ended():
            raise Died(
                f"{config.name} ended with {how_ended(server.exit_code or 0)} before it was ready"
                f"{_last_words(server)}"
            )

    _wait(config, origins, cacert, place, check, lambda: _last_words(server))


def wait_for_url(config: ServerConfig, origins: Mapping[str, str], cacert: str | None) -> None:
    """Return once a server that is not ours answers; raises NotReady."""
    _wait(config, origins, cacert, HERE, lambda: None, lambda: "")


def _wait(
    config: ServerConfig,
    origins: Mapping[str, str],
    cacert: str | None,
    place: Place,
    check: Callable[[], None],
    last_words: Callable[[], str],
) -> None:
    deadline = time.monotonic() + config.ready_timeout_s
    # HTTP/1.1 first: asking costs nothing, where the others need a process each.
    for version in sorted(origins, key="h1".__ne__):
        url = f"{origins[version]}{config.ready_path or grpc_health.PATH}"
        while True:
            check()
            patience_s = max(0.1, deadline - time.monotonic())
            problem = _ask(config, version, url, cacert, place, patience_s)
            if problem is None:
                break
            check()
            if time.monotonic() > deadline:
                raise NotReady(
                    f"{config.name} was not ready within {config.ready_timeout_s:g} s: "
                    f"{url} over {version}: {problem}{last_words()}"
                )
            time.sleep(_POLL_S)
    check()


def _ask(
    config: ServerConfig,
    version: str,
    url: str,
    cacert: str | None,
    place: Place,
    patience_s: float,
) -> str | None:
    """What is wrong with the server's answer; None when it is ready."""
    if config.ready_grpc is not None:
        timeout_s = min(_ANSWER_S, patience_s)
        return place.call(grpc_health.ask, url, version, config.ready_grpc, cacert, timeout_s)
    if version in ("h1", PLAIN):
        return place.call(_ask_h1, url, cacert, min(_ANSWER_S, patience_s))
    return _ask_native(version, url, cacert, place, min(_LOAD_S, patience_s))


def _ask_h1(url: str, cacert: str | None, timeout_s: float) -> str | None:
    """What is wrong with the answer to one request; None when it is 200."""
    try:
        with contextlib.closing(_connection(url, cacert, timeout_s)) as connection:
            connection.request("GET", urlsplit(url).path)
            status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    return None if status == http.HTTPStatus.OK else f"status {status}"


def _connection(url: str, cacert: str | None, timeout_s: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    host = str(parts.hostname)
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    context = ssl.create_default_context(cafile=cacert)
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)


def _ask_native(
    version: str, url: str, cacert: str | None, place: Place, timeout_s: float
) -> str | None:
    """What is wrong with the answer to one request of the engine, which speaks every version."""
    command = [
        *(*_LOAD, url, f"--{version}", "-c", "1", "-n", "1", "--expect-status", "200"),
        *("--timeout", f"{timeout_s:.3f}s", "--connect-timeout", f"{timeout_s:.3f}s"),
        *(("--cacert", cacert) if cacert else ()),
        *("--format", "json"),
    ]
    try:
        done = supervisor.finished(place.command(command), limit_s=2 * timeout_s + _LOAD_SLACK_S)
    except Late:
        return f"no answer within {timeout_s:g} s"
    except NotStarted as error:
        return f"trilane load {error}"
    try:
        requests = json.loads(done.output)["requests"]
    except (ValueError, KeyError, TypeError):
        return told(done.errors) or f"trilane load ended with {how_ended(done.code)}"
    if requests["ok"] == 1:
        return None
    examples = [str(failure["example"]) for failure in requests["failures"].values()]
    return examples[0] if examples else "no answer"


def _last_words(server: Launched) -> str:
    tail = server.tail()
    return f"; its log {server.log} ends:\n{tail}" if tail else f"; its log {server.log} is empty"
