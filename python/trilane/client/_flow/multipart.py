"""Forms with files: multipart/form-data (RFC 7578), written as browsers write it (WHATWG HTML).

Names are escaped as in WHATWG HTML §4.10.22.8, which servers' parsers expect: `"` is %22, CR and LF
are %0D and %0A, and everything else stands in UTF-8.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trilane.client._flow.content import Block, Content, Readable, Upload, upload
from trilane.client._flow.forms import Files
from trilane.client.errors import InvalidRequest

_ESCAPED: Final = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})
_UNKNOWN: Final = "application/octet-stream"


class _Part:
    """A field or a file: its head, and its content."""

    __slots__ = ("content", "head")

    def __init__(self, head: bytes, content: Upload | bytes) -> None:
        self.head = head
        self.content = content

    @property
    def length(self) -> int | None:
        """Bytes of the content, where known."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.length


class Multipart(Upload):
    """Fields and files as one content, which is read as it is sent.

    Its length is known where that of each file is; it can be sent again where each file can.
    """

    __slots__ = ("_boundary", "_parts", "content_type")

    def __init__(self, fields: Sequence[tuple[str, str | bytes]], files: Files) -> None:
        """`fields` come first, as `forms.items` gives them.

        Raises:
            TypeError: a file is none of what `forms.File` names.
            InvalidRequest: a field of a part has a line end in it.
        """
        self._boundary = os.urandom(16).hex().encode()
        self._parts = [
            _Part(
                _head(self._boundary, name, None, []),
                value if isinstance(value, bytes) else value.encode(),
            )
            for name, value in fields
        ]
        if isinstance(files, str | bytes | bytearray | Readable) or not hasattr(files, "__iter__"):
            raise TypeError(
                f"files= is a mapping or pairs of name and file, not {type(files).__name__}: one"
                " file that is all of the content is content="
            )
        given = files.items() if isinstance(files, Mapping) else files
        self._parts += [self._file(str(name), file) for name, file in given]
        self.content_type = f"multipart/form-data; boundary={self._boundary.decode()}"
        super().__init__((), self._whole_length())

    @property
    def replayable(self) -> bool:
        """Whether `blocks` can be called (again)."""
        return not self.started or all(
            isinstance(part.content, bytes) or part.content.replayable for part in self._parts
        )

    @property
    def is_file(self) -> bool:
        """Whether it reads a file, which may wait for a disk."""
        return any(
            isinstance(part.content, Upload) and part.content.is_file for part in self._parts
        )

    def blocks(self) -> Iterator[Block]:
        """The content from its start; no block is empty."""
        self.started = True
        return self._written()

    def _written(self) -> Iterator[Block]:
        for part in self._parts:
            yield part.head
            if not isinstance(part.content, bytes):
                yield from part.content.blocks()
            elif part.content:
                yield part.content
            yield b"\r\n"
        yield self._end

    @property
    def _end(self) -> bytes:
        return b"--" + self._boundary + b"--\r\n"

    def _whole_length(self) -> int | None:
        whole = len(self._end)
        for part in self._parts:
            length = part.length
            if length is None:
                return None
            whole += len(part.head) + length + len(b"\r\n")
        return whole

    def _file(self, name: str, given: Any) -> _Part:
        filename: str | None
        fields: list[tuple[str, str]] = []
        content_type: str | None = None
        if isinstance(given, tuple):
            if not 2 <= len(given) <= 4:
                raise TypeError(
                    f"files= has {len(given)} values for {name!r}: give (file name, content),"
                    " (…, content type) or (…, more fields)"
                )
            filename, content = given[:2]
            if len(given) > 2:
                content_type = given[2]
            if len(given) > 3:
                fields = [(str(key), str(value)) for key, value in given[3].items()]
        else:
            content = given
            filename = _name_of(given) or name
        if isinstance(content, os.PathLike) or not (
            isinstance(content, str | bytes | bytearray | memoryview | Readable)
        ):
            raise TypeError(
                f"the file {name!r} of files= is {type(content).__name__}: give an open file, bytes"
                " or text"
            )
        if content_type is None and not any(key.lower() == "content-type" for key, _ in fields):
            content_type = None if filename is None else _guessed(filename)
        if content_type is not None:
            fields.append(("Content-Type", content_type))
        return _Part(_head(self._boundary, name, filename, fields), _sendable(content))


def _sendable(content: Content) -> Upload | bytes:
    body, upload_ = upload(content, "POST")
    return upload_ if upload_ is not None else body or b""


def _head(
    boundary: bytes, name: str, filename: str | None, fields: Sequence[tuple[str, str]]
) -> bytes:
    disposition = f'form-data; name="{name.translate(_ESCAPED)}"'
    if filename is not None:
        disposition += f'; filename="{filename.translate(_ESCAPED)}"'
    lines = [f"Content-Disposition: {disposition}"]
    for key, value in fields:
        if any(end in key + value for end in "\r\n\0"):
            raise InvalidRequest(f"the field {key!r} of the file {name!r} has a line end in it")
        lines.append(f"{key}: {value}")
    return b"--" + boundary + b"\r\n" + "\r\n".join(lines).encode() + b"\r\n\r\n"


def _name_of(file: object) -> str | None:
    """The name of an open file; None where it has none that could be one."""
    name = getattr(file, "name", None)
    if not isinstance(name, str) or not name or name.startswith("<"):
        return None
    return Path(name).name


def _guessed(filename: str) -> str:
    import mimetypes  # noqa: PLC0415 - it reads the system's tables

    return mimetypes.guess_type(filename)[0] or _UNKNOWN
