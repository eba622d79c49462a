"""Loads that take turns, as a server of somebody else's sees them."""

from __future__ import annotations

import json
import selectors
import socket
import subprocess
import threading
import time
from itertools import pairwise
from typing import Any, Self

from repository import native

LIMIT_S = 120
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
TURN_S = 0.02
DURATION_S = 0.5
# A round of both, with the pauses.
TURNS = 2 * DURATION_S / TURN_S


class Log:
    """Answers on two ports, in one thread, and keeps which port each request came to, in order."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self._ended = threading.Event()
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.urls = [f"http://127.0.0.1:{each.getsockname()[1]}/" for each in self._listeners]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            for number, listener in enumerate(self._listeners):
                selector.register(listener, selectors.EVENT_READ, (number, True))
            while not self._ended.is_set():
                for key, _ in selector.select(0.05):
                    number, listens = key.data
                    assert isinstance(key.fileobj, socket.socket)
                    if listens:
                        connection, _ = key.fileobj.accept()
                        selector.register(connection, selectors.EVENT_READ, (number, False))
                    elif not self._answered(number, key.fileobj):
                        selector.unregister(key.fileobj)
                        key.fileobj.close()
            for each in list(selector.get_map().values()):
                assert isinstance(each.fileobj, socket.socket)
                each.fileobj.close()

    def _answered(self, number: int, connection: socket.socket) -> bool:
        try:
            # One request is in flight on each connection, and smaller than a read.
            if not connection.recv(65536):
                return False
            self.asked.append(number)
            connection.sendall(ANSWER)
        except ConnectionError:
            return False
        return True


def load(url: str, turn: dict[str, Any], *flags: str) -> subprocess.Popen[str]:
    command = [native(), "load", url, "-c", "1", "--warmup", "0s", "--format", "json"]
    return subprocess.Popen(
        [*command, "--in-turn", json.dumps(turn), *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_server_sees_one_of_the_loads_at_a_time() -> None:
    start_ns = time.monotonic_ns() + 300_000_000
    turn = {"start_ns": start_ns, "length_s": TURN_S, "of": 2, "seed": 5}
    with Log() as server:
        loads = [
            load(url, {**turn, "index": index}, "-d", f"{DURATION_S}s")
            for index, url in enumerate(server.urls)
        ]
        reports = [json.loads(each.communicate(timeout=LIMIT_S)[0]) for each in loads]
    for number, report in enumerate(reports):
        assert report["plan"]["turns"] == {"length_s": TURN_S, "of": 2}
        assert report["plan"]["duration_s"] == DURATION_S
        requests = report["requests"]
        assert requests["ok"] > 0
        assert requests["failed"] == 0
        assert server.asked.count(number) == requests["started"]
    # Another load's request follows where the turn changes; one that was late may do so twice more.
    changes = sum(one != other for one, other in pairwise(server.asked))
    assert changes <= 3 * TURNS + 2
