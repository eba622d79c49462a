"""A file of another load generator, recognised by its shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from trilane.lab.generators import h2load, k6, oha, vegeta
from trilane.lab.model.beside import Told
from trilane.lab.storage.runs import BadRun

# Enough for a first line: the body of a response can be in one of vegeta's.
_HEAD = 1 << 20
KNOWN = (
    "trilane load -o FILE --format json",
    "oha --output-format json",
    "k6 run --summary-export FILE",
    "vegeta report -type json",
    "vegeta encode -to json",
    "h2load --log-file FILE",
    "h2load > FILE",
)
"""What makes files that are read."""


def read(path: Path) -> Told | None:
    """What a file of another load generator tells; None for a document of our own.

    Raises:
        BadRun: the file cannot be read, or is none of any tool that is known.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if head.lstrip()[:1] in {b"{", b"["}:
            return _json(path, head)
        if h2load.is_log(head):
            return h2load.read_log(path, str(path))
        text = path.read_text(encoding="utf-8") if b"\0" not in head else ""
        if h2load.is_report(text):
            return h2load.read_report(text, str(path))
    except OSError as error:
        raise BadRun(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise BadRun(_unknown(path)) from None
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise BadRun(f"{path} is damaged, or of a version that is not known: {error}") from error
    raise BadRun(_unknown(path))


def _json(path: Path, head: bytes) -> Told | None:
    line = _object(head.lstrip().partition(b"\n")[0])
    if line is not None and vegeta.is_hit(line):
        return vegeta.read_results(path, str(path))
    if line is not None and {"type", "metric", "data"} <= line.keys():
        raise BadRun(
            f"{path} is a stream of k6's points: its summary is read, which it writes with "
            "--summary-export FILE"
        )
    try:
        document: Any = msgspec.json.decode(path.read_bytes())
    except msgspec.DecodeError as error:
        raise BadRun(f"{path} is not a JSON file: {error}") from error
    if not isinstance(document, dict):
        raise BadRun(_unknown(path))
    if "schema" in document:
        return None
    readers = (
        (oha.is_one, oha.read),
        (k6.is_one, k6.read),
        (vegeta.is_report, vegeta.read_report),
    )
    for is_one, reads in readers:
        if is_one(document):
            return reads(document, str(path))
    raise BadRun(_unknown(path))


def _object(line: bytes) -> dict[str, Any] | None:
    """The JSON object in a line; None where it holds none, or only the beginning of one."""
    try:
        found: Any = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def _unknown(path: Path) -> str:
    return (
        f"{path} is no result of a load generator that is known; such files are made by: "
        f"{'; '.join(KNOWN)}. What vegeta attack writes is read after: "
        "vegeta encode -to json"
    )
