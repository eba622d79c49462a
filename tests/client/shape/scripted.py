"""A socket that answers from a script, for tests that look at every byte."""

from __future__ import annotations

import io


class Scripted:
    """Holds what was sent, in the pieces that it was sent in; `file` is what it answers with."""

    def __init__(self, answer: bytes = b"") -> None:
        self.pieces: list[bytes] = []
        self.file = io.BytesIO(answer)
        self.closed = False

    @property
    def sent(self) -> bytes:
        return b"".join(self.pieces)

    def sendall(self, data: bytes) -> None:
        self.pieces.append(bytes(data))

    def makefile(self, mode: str) -> io.BytesIO:
        assert mode == "rb"
        return self.file

    def close(self) -> None:
        self.closed = True


class Broken(Scripted):
    """Takes only the head: the peer answers and reads no more."""

    def sendall(self, data: bytes) -> None:
        if self.pieces:
            raise BrokenPipeError
        super().sendall(data)


def answer(content: bytes, *fields: str, status: str = "200 OK") -> bytes:
    """A response with a Content-Length."""
    lines = [f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(content)}", "", ""]
    return "\r\n".join(lines).encode() + content
