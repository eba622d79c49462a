"""A server for HTTP/1.1 that does so much work for each request: what `proof` measures.

    python server.py PORT

It is copied into a repository of its own. How often its loop turns for a request stands in the file
`work` beside it. It imports nothing of Trilane. It has one thread, whose CPU the kernel counts to
the nanosecond: that of threads that have ended it counts in steps of 10 ms.
"""

from __future__ import annotations

import selectors
import socket
import sys
from pathlib import Path

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"
_HEAD_END = b"\r\n\r\n"
_LONGEST_HEAD = 65536


def work(turns: int) -> None:
    """Turn a loop so many times."""
    for _ in range(turns):
        pass


def answered(connection: socket.socket, waiting: bytearray, turns: int) -> bool:
    """Answer the requests that have come, none of which has content; False where that was all."""
    try:
        read = connection.recv(_LONGEST_HEAD)
        *heads, rest = bytes(waiting + read).split(_HEAD_END)
        waiting[:] = rest
        for _ in heads:
            work(turns)
            # The client waits for each answer, so that there is room for it.
            connection.sendall(_ANSWER)
    except OSError:
        return False
    return bool(read) and len(waiting) <= _LONGEST_HEAD


def main(port: int) -> None:
    """Serve at a port of this machine until the process is ended."""
    turns = int(Path(__file__).with_name("work").read_text(encoding="ascii"))
    with selectors.DefaultSelector() as selector, socket.create_server(("127.0.0.1", port)) as at:
        selector.register(at, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    connection, _ = at.accept()
                    connection.setblocking(False)
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(connection, selectors.EVENT_READ, bytearray())
                elif isinstance(key.fileobj, socket.socket) and not answered(
                    key.fileobj, key.data, turns
                ):
                    selector.unregister(key.fileobj)
                    key.fileobj.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
