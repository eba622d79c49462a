"""Parameters of URLs and forms: what callers may give, and how it is encoded."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from trilane.client._flow.content import Block, Content, Readable, Upload

Scalar: TypeAlias = str | bytes | int | float | bool | None
# Not more exact: a checker of types takes no literal of a mapping whose values differ in type.
Params: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Scalar]] | str | bytes
"""Parameters of a URL: names and values, several values of a name in a list, or an encoded text."""
Form: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Scalar]]
"""Fields of a form, as `Params`."""
FileContent: TypeAlias = Block | str | Readable
File: TypeAlias = (
    FileContent
    | tuple[str | None, FileContent]
    | tuple[str | None, FileContent, str | None]
    | tuple[str | None, FileContent, str | None, Mapping[str, str]]
)
"""A file, or (file name, content), (…, content type) or (…, more fields), as in Requests."""
Files: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, File]]

URLENCODED: Final = "application/x-www-form-urlencoded"


def items(given: Any, what: str) -> list[tuple[str, str | bytes]]:
    """Names and values, a name for each of its values; None is left out, booleans in lower case.

    Raises:
        TypeError: it is neither a mapping nor pairs.
    """
    if isinstance(given, str | bytes | bytearray) or not hasattr(given, "__iter__"):
        raise TypeError(
            f"{what}= is a mapping or pairs of name and value, not {type(given).__name__}: bytes,"
            " text and files are content="
        )
    found: list[tuple[str, str | bytes]] = []
    for pair in given.items() if isinstance(given, Mapping) else given:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"{what}= has {pair!r}: give pairs of name and value")
        name, value = pair
        several = value if isinstance(value, list | tuple | set | frozenset) else (value,)
        for each in several:
            if each is None:
                continue
            if isinstance(each, bool):
                each = "true" if each else "false"  # noqa: PLW2901
            found.append((str(name), each if isinstance(each, bytes) else str(each)))
    return found


def query(given: Params | None) -> str:
    """Parameters as they stand in a URL, without a question mark; "" where there are none."""
    if given is None:
        return ""
    if isinstance(given, bytes):
        given = given.decode("utf-8")
    if isinstance(given, str):
        return given.lstrip("?")
    return urllib.parse.urlencode(items(given, "params"))


def with_query(url: str, added: str) -> str:
    """A URL with parameters behind those that it has."""
    if not added:
        return url
    url, _, _ = url.partition("#")
    if "?" not in url:
        return f"{url}?{added}"
    return url + added if url.endswith(("?", "&")) else f"{url}&{added}"


def encoded(data: Form | None, files: Files | None) -> tuple[Content | Upload, str]:
    """The content of a form, and its `content-type`.

    Raises:
        TypeError: `data` or `files` is none of what they may be.
    """
    if files is None:
        return urllib.parse.urlencode(items(data, "data")).encode("ascii"), URLENCODED
    from trilane.client._flow.multipart import Multipart  # noqa: PLC0415 - few requests have files

    made = Multipart([] if data is None else items(data, "data"), files)
    return made, made.content_type
