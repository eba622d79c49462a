"""`docs/conformance.md`, written from the cases."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from repository import DOCS

from . import h1_contents, h1_heads
from .cases import Case, Expected, Failed

PAGE = DOCS / "conformance.md"
COMMAND = "PYTHONPATH=tests .venv/bin/python -m conformance"

TITLES = {
    "RFC 9110 §5.1": "field names",
    "RFC 9110 §5.3": "field order",
    "RFC 9110 §5.4": "field limits",
    "RFC 9110 §5.5": "field values",
    "RFC 9110 §5.6.1.2": "lists",
    "RFC 9110 §6.2": "control data",
    "RFC 9110 §6.5.1": "limitations on trailers",
    "RFC 9110 §8.4": "Content-Encoding",
    "RFC 9110 §8.6": "Content-Length",
    "RFC 9110 §15": "status codes",
    "RFC 9110 §15.2": "informational responses",
    "RFC 9110 §15.2.2": "101 Switching Protocols",
    "RFC 9110 §15.3.6": "205 Reset Content",
    "RFC 9112 §2.2": "message parsing",
    "RFC 9112 §2.3": "HTTP version",
    "RFC 9112 §4": "status line",
    "RFC 9112 §5": "field syntax",
    "RFC 9112 §5.1": "field line parsing",
    "RFC 9112 §5.2": "obsolete line folding",
    "RFC 9112 §6.1": "Transfer-Encoding",
    "RFC 9112 §6.2": "Content-Length",
    "RFC 9112 §6.3": "message body length",
    "RFC 9112 §7": "transfer codings",
    "RFC 9112 §7.1": "chunked transfer coding",
    "RFC 9112 §7.1.1": "chunk extensions",
    "RFC 9112 §7.1.2": "chunked trailer section",
    "RFC 9112 §7.4": "negotiating transfer codings",
    "RFC 9112 §8": "incomplete messages",
    "RFC 9112 §9.2": "associating a response to a request",
    "RFC 9112 §9.3": "persistence",
    "RFC 9112 §9.5": "failures and timeouts",
    "RFC 9112 §9.6": "tear-down",
}

_HEAD = """\
# Conformance: servers that break rules

Each case is a server that answers in one way to every request, and what a correct client makes of
it. Two requests are sent one after the other: a response must be taken both times for what it says,
or refused both times for the reason given, and the connection kept or given up. No case waits for a
time to pass but those that end in `timeout`.

```
.venv/bin/python -m pytest tests/conformance                         # all of them
.venv/bin/python -m pytest tests/conformance -k 'engine and folded'  # some
{command}               # write this page anew
```

The cases are data: {files} in `tests/conformance`. What is added there
is tested with both, and this page has to be written anew: a test says so.

The column of the engine is what `trilane load` counts, a kind of `failures` in
[its result](run.schema.json); the column of the client is what `trilane.client` raises. A response
that is taken is given by its status and length. A number in brackets leads to the RFC's words where
they would have something else or leave the choice to the recipient.
"""


class Row(NamedTuple):
    """One case, as text."""

    name: str
    engine: str
    client: str
    deviation: str


def text() -> str:
    """The whole page."""
    notes: list[str] = []
    files = "`h1_heads` and `h1_contents`"
    parts = [_HEAD.format(command=COMMAND, files=files), "## HTTP/1.1\n"]
    h1 = h1_heads.CASES + h1_contents.CASES
    parts += _sections([(case.section, _of_h1(case)) for case in h1], notes)
    parts.append("## Words of the RFCs\n")
    parts.append("\n".join(f"{number}. {words}" for number, words in enumerate(notes, 1)) + "\n")
    return "\n".join(parts)


def _of_h1(case: Case) -> Row:
    return Row(case.name, _engine(case.expected), _client(case.of_client), case.deviation)


def _engine(expected: Expected) -> str:
    return str(expected)


def _client(expected: Expected) -> str:
    return f"`{expected.error.__name__}`" if isinstance(expected, Failed) else str(expected)


def _sections(cases: Iterable[tuple[str, Row]], notes: list[str]) -> list[str]:
    """A table for each section of an RFC, in their order."""
    tables: dict[str, list[Row]] = {}
    for section, row in cases:
        tables.setdefault(section, []).append(row)
    parts = []
    for section in sorted(tables, key=_order):
        lines = [f"### {section}: {TITLES[section]}", ""]
        lines += ["| case | engine | client |", "| --- | --- | --- |"]
        for row in tables[section]:
            name = row.name.replace("|", "\\|") + _note(row.deviation, notes)
            lines.append(f"| {name} | {row.engine} | {row.client} |")
        parts.append("\n".join(lines) + "\n")
    return parts


def _note(words: str, notes: list[str]) -> str:
    if not words:
        return ""
    if words not in notes:
        notes.append(words)
    return f" [{notes.index(words) + 1}]"


def _order(section: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", section)]
