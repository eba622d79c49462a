"""A way to a server that can be cut without a word to either end, as when a NAT forgets a flow."""

from __future__ import annotations

import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_MOST = 1 << 16


class Way:
    """Carries TCP and UDP from a port of its own to that of a server."""

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._selector = selectors.DefaultSelector()
        self._open: list[socket.socket] = []
        self._flows: dict[tuple[str, int], socket.socket] = {}
        self._dead: set[tuple[str, int]] = set()
        self._lock = threading.Lock()
        self._listener = self._own(socket.create_server(("127.0.0.1", 0)))
        self.port: int = self._listener.getsockname()[1]
        self._udp = self._own(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._udp.bind(("127.0.0.1", self.port))
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._udp, selectors.EVENT_READ, self._from_client)
        self._ends, self._wakes = os.pipe()
        self._selector.register(self._ends, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Carry nothing more of what goes through it now; what begins later is carried."""
        with self._lock:
            kept = {self._listener, self._udp, self._ends}
            for key in [k for k in self._selector.get_map().values() if k.fileobj not in kept]:
                self._selector.unregister(key.fileobj)
            self._dead |= self._flows.keys()
            self._flows.clear()

    def close(self) -> None:
        os.write(self._wakes, b"x")
        self._thread.join()
        for one in self._open:
            one.close()
        os.close(self._ends)
        os.close(self._wakes)
        self._selector.close()

    def _own(self, one: socket.socket) -> socket.socket:
        self._open.append(one)
        return one

    def _carry(self) -> None:
        while True:
            ready = self._selector.select()
            with self._lock:
                for key, _ in ready:
                    if key.data is None:
                        return
                    # It may have been cut since.
                    if key.fd in self._selector.get_map():
                        key.data()

    def _accept(self) -> None:
        near = self._own(self._listener.accept()[0])
        far = self._own(socket.create_connection(self._server))
        for a, b in ((near, far), (far, near)):
            self._selector.register(a, selectors.EVENT_READ, self._piping(a, b))

    def _piping(self, a: socket.socket, b: socket.socket) -> Callable[[], None]:
        def pipe() -> None:
            try:
                data = a.recv(_MOST)
                b.sendall(data)
            except OSError:
                data = b""
            if not data:
                self._selector.unregister(a)
                a.close()
                with suppress(OSError):
                    b.shutdown(socket.SHUT_WR)

        return pipe

    def _from_client(self) -> None:
        data, client = self._udp.recvfrom(_MOST)
        if client in self._dead:
            return
        far = self._flows.get(client)
        if far is None:
            far = self._flows[client] = self._own(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            far.connect(self._server)
            back = far

            def answered() -> None:
                self._udp.sendto(back.recv(_MOST), client)

            self._selector.register(far, selectors.EVENT_READ, answered)
        far.send(data)


@contextmanager
def to(port: int) -> Iterator[Way]:
    """A way to the server at that port of this machine."""
    way = Way(port)
    try:
        yield way
    finally:
        way.close()
