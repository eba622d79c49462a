"""One server for all cases of HTTP/1.1: the target of a request is the number of its case."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from peers import chaos

from .cases import Case, End


class Server:
    """Answers a request by the case that it names, and counts."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self.base = ""
        self.requests = 0
        self.connections = 0
        """Those on which a request came."""

    def url(self, case: Case) -> str:
        """Where the case is; the counts begin anew."""
        self.requests = self.connections = 0
        return f"{self.base}/{self._cases.index(case)}"

    async def script(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        first = True
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            case = self._cases[int(head.split(b" ", 2)[1][1:])]
            self.connections += first
            self.requests += 1
            first = False
            for piece in case.pieces:
                writer.write(piece)
                await writer.drain()
            if case.end is End.CLOSE:
                writer.close()
                await writer.wait_closed()
                return
            if case.end is End.RESET:
                chaos.reset(writer)
                return


@contextlib.contextmanager
def serve(cases: Sequence[Case]) -> Iterator[Server]:
    """A server for the cases, while the context lasts."""
    server = Server(cases)
    with chaos.serve(server.script) as listening:
        server.base = listening.base
        yield server
