"""What is kept and shown has no secrets: one list of names, that of the native module.

`_core.without_secrets` says what a secret is, and finds it in a text; here are command lines and
documents.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from trilane import _core

HIDDEN = _core.HIDDEN
"""What stands in place of a secret."""

_REFERENCE = re.compile(r"\$\{\w+\}")
# -k is the only flag of a load that may stand before another one in a word.
_HEADER = re.compile(r"(-k*)H=?(.*)", re.DOTALL)


def text(text: str) -> str:
    """A text that was typed, such as a URL or the command of a shell, without its secrets."""
    # Bytes of a command line that are no text, Python keeps as halves of signs (PEP 383).
    return _core.without_secrets(text.encode(errors="surrogateescape").decode(errors="replace"))


def command(words: Iterable[str]) -> str:
    """A command line as a shell takes it, without its secrets."""
    return shlex.join(map(text, words))


def aside(words: Sequence[str], file: Path) -> list[str]:
    """Arguments of `trilane load` whose secret header fields stand in `file`, and not among them.

    Other users of the machine see the command lines of processes. Without such fields there is no
    file.
    """
    kept: list[str] = []
    secrets: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            kept += [word, *rest]
            break
        flags, field = _header(word, rest)
        kept += flags
        if field is None:
            continue
        if _is_secret(field):
            if not secrets:
                kept += ["-H", f"@{file}"]
            secrets.append(field)
        else:
            kept += ["-H", field]
    if secrets:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", errors="surrogateescape") as out:
            out.writelines(f"{field}\n" for field in secrets)
    return kept


def document(value: Any, key: str = "") -> Any:
    """Builtins as JSON has them, without secrets; `key` is what the value is called."""
    match value:
        case str() if key == "body":
            return _body(value)
        case str():
            return text(value)
        case [str(name), str(content)] if key == "headers" and _core.is_secret(name):
            return [name, content if _REFERENCE.search(content) else HIDDEN]
        case list() | tuple():
            return [document(each, key) for each in value]
        case dict():
            return {name: document(each, str(name)) for name, each in value.items()}
        case _:
            return value


def has_hidden(value: Any) -> bool:
    """Whether a document lacks secrets that it once had."""
    match value:
        case str():
            return HIDDEN in value
        case list() | tuple():
            return any(map(has_hidden, value))
        case dict():
            return any(map(has_hidden, value.values()))
        case _:
            return False


def _header(word: str, rest: Iterator[str]) -> tuple[list[str], str | None]:
    """What a word has beside a header field, and the field that begins there, if one does."""
    if word.startswith("--header="):
        return [], word.removeprefix("--header=")
    short = _HEADER.fullmatch(word)
    if word != "--header" and short is None:
        return [word], None
    flags = [short[1]] if short is not None and short[1] != "-" else []
    field = short[2] if short is not None and short[2] else next(rest, None)
    # A flag without its value is for the load to refuse.
    return (flags, field) if field is not None else ([word], None)


def _is_secret(field: str) -> bool:
    """Whether the value of a field is a secret that stands there, and can stand in a file."""
    name, colon, value = field.partition(":")
    return (
        bool(colon)
        and _core.is_secret(name.strip())
        and not field.startswith("@")
        and not _REFERENCE.search(value)
        # Refused where the field is read; in a file it would be two.
        and len(field.splitlines()) == 1
    )


def _body(encoded: str) -> str:
    """Content in base64, unless it has secrets."""
    try:
        content = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return encoded
    return encoded if text(content) == content else HIDDEN
