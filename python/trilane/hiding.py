"""What is kept and shown has no secrets: one list of names, that of the native module.

`_core.without_secrets` says what a secret is, and finds it in a text; here are command lines and
documents.
"""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from collections.abc import Iterable
from typing import Any

from trilane import _core

HIDDEN = _core.HIDDEN
"""What stands in place of a secret."""

_REFERENCE = re.compile(r"\$\{\w+\}")


def text(text: str) -> str:
    """A text that was typed, such as a URL or the command of a shell, without its secrets."""
    return _core.without_secrets(text)


def command(words: Iterable[str]) -> str:
    """A command line as a shell takes it, without its secrets."""
    return shlex.join(map(text, words))


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


def _body(encoded: str) -> str:
    """Content in base64, unless it has secrets."""
    try:
        content = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return encoded
    return encoded if text(content) == content else HIDDEN
