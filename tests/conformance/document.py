"""`docs/conformance.md`, written from the cases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from repository import DOCS

from . import cases, h2_cases, h3
from .cases import Expected, Failed, Seen, Taken
from .data import H1, H2, H3

PAGE = DOCS / "conformance.md"
_CODES = {int(code): code.name for code in h3.Code} | {4: "STREAM_LIMIT_ERROR"}
COMMAND = "PYTHONPATH=tests .venv/bin/python -m conformance"

TITLES = {
    "RFC 9000 §4.6": "controlling concurrency",
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
    "RFC 9114 §4.1": "HTTP message framing",
    "RFC 9114 §4.1.1": "request cancellation and rejection",
    "RFC 9114 §4.1.2": "malformed requests and responses",
    "RFC 9114 §4.2": "HTTP fields",
    "RFC 9114 §4.2.2": "header size constraints",
    "RFC 9114 §4.3": "HTTP control data",
    "RFC 9114 §4.3.2": "response pseudo-header fields",
    "RFC 9114 §4.5": "HTTP upgrade",
    "RFC 9114 §4.6": "server push",
    "RFC 9114 §5.1": "idle connections",
    "RFC 9114 §5.2": "connection shutdown",
    "RFC 9114 §5.3": "immediate application closure",
    "RFC 9114 §6.2": "unidirectional streams",
    "RFC 9114 §6.2.1": "control streams",
    "RFC 9114 §7.1": "frame layout",
    "RFC 9114 §7.2.1": "DATA",
    "RFC 9114 §7.2.2": "HEADERS",
    "RFC 9114 §7.2.3": "CANCEL_PUSH",
    "RFC 9114 §7.2.4": "SETTINGS",
    "RFC 9114 §7.2.4.1": "defined SETTINGS parameters",
    "RFC 9114 §7.2.5": "PUSH_PROMISE",
    "RFC 9114 §7.2.6": "GOAWAY",
    "RFC 9114 §7.2.7": "MAX_PUSH_ID",
    "RFC 9114 §7.2.8": "reserved frame types",
    "RFC 9114 §8": "error handling",
    "RFC 9114 §9": "extensions to HTTP/3",
    "RFC 9114 §10.3": "intermediary-encapsulation attacks",
    "RFC 9114 §10.5": "denial-of-service considerations",
    "RFC 9204 §3.1": "static table",
    "RFC 9204 §4.1.1": "prefixed integers",
    "RFC 9204 §4.1.2": "string literals",
    "RFC 9204 §4.2": "encoder and decoder streams",
    "RFC 9204 §4.3.1": "Set Dynamic Table Capacity",
    "RFC 9204 §4.3.2": "Insert with Name Reference",
    "RFC 9204 §4.3.3": "Insert with Literal Name",
    "RFC 9204 §4.3.4": "Duplicate",
    "RFC 9204 §4.4.1": "Section Acknowledgment",
    "RFC 9204 §4.4.2": "Stream Cancellation",
    "RFC 9204 §4.4.3": "Insert Count Increment",
    "RFC 9204 §4.5.1": "encoded field section prefix",
    "RFC 9204 §4.5.1.1": "Required Insert Count",
    "RFC 9204 §4.5.1.2": "Base",
    "RFC 9204 §4.5.2": "Indexed Field Line",
    "RFC 9204 §4.5.3": "Indexed Field Line with Post-Base Index",
    "RFC 9204 §4.5.4": "Literal Field Line with Name Reference",
    "RFC 9204 §4.5.5": "Literal Field Line with Post-Base Name Reference",
    "RFC 9204 §4.5.6": "Literal Field Line with Literal Name",
}

_HEAD = """\
# Conformance: servers that break rules

Each case is a server that answers in one way to every request, and what a correct client makes of
it. Two requests are sent one after the other: a response must be taken both times for what it says,
or refused both times for the reason given, and the connection kept or given up.

The cases are data: `h1_heads`, `h1_contents`, `h2_cases`, `h3_connections` and `h3_requests` in
`tests/conformance`. Whole runs of the engine and connections of the client play every case in one
process, in virtual time; some of each version are played end to end, against `trilane load` and
`trilane.client`.

```
cargo test -p trilane-engine -p trilane-client conformance   # every case
.venv/bin/python -m pytest tests/conformance                 # some, end to end
{command}       # write this page and cases.json anew
```

The column of the engine is what `trilane load` counts, a kind of `failures` in
[its result](run.schema.json); the column of the client is what `trilane.client` raises. A response
that is taken is given by its status and length. A number in brackets leads to the RFC's words where
they would have something else or leave the choice to the recipient.
"""


_H3 = """
Where a stream fails alone, the connection is kept, and shown to be. The last column is the error
code, which the client's exception has, too, and how the server saw it: that a stream has failed
cannot be seen where the server had ended it, or had reset it with that code.
"""


_H2 = """
The first {count} are those of [h2specd](https://github.com/summerwind/h2spec), which judges both as
well: by some of them in `make test`, by all in `make test-all`. Each is for one request, and the
last column is what the server must see. Sections are those of RFC 9113.
"""


class Row(NamedTuple):
    """One case, as text."""

    name: str
    columns: list[str]
    deviation: str


def text() -> str:
    """The whole page."""
    notes: list[str] = []
    h1 = [(case.section, _of_h1(case)) for case in H1]
    h3_ = [(case.section, _of_h3(case)) for case in H3]
    parts = [
        _HEAD.format(command=COMMAND),
        f"## HTTP/1.1: {len(h1)} cases\n",
        *_sections(["engine", "client"], h1, notes),
        f"## HTTP/2: {len(H2)} cases\n{_H2.format(count=len(h2_cases.OF_H2SPECD))}",
        *_of_h2(),
        f"## HTTP/3: {len(h3_)} cases\n{_H3}",
        *_sections(["engine", "client", "error code"], h3_, notes),
        "## Words of the RFCs\n",
        *(f"{number}. {words}" for number, words in enumerate(notes, 1)),
    ]
    return "\n".join(parts) + "\n"


def _of_h1(case: cases.Case) -> Row:
    return Row(case.name, [str(case.expected), _client(case.of_client)], case.deviation)


_SEEN_OF_H2 = {
    Seen.NOTHING: "",
    Seen.CONNECTION_CLOSE: "by GOAWAY",
    Seen.STOP_SENDING: "by RST_STREAM",
    Seen.PONG: "PING answered",
    Seen.SETTLED: "SETTINGS acknowledged",
}


def _of_h2() -> Iterator[str]:
    columns = ["section", "case", "engine", "client", "the server sees"]
    yield _line(columns)
    yield _line(["---"] * len(columns))
    for case in H2:
        code = f"{h2_cases.Code(case.seen_code).name} " if case.seen_code else ""
        both = [str(case.expected), _client(case.expected)]
        yield _line([case.section, case.name, *both, code + _SEEN_OF_H2[case.seen]])
    yield ""


def _of_h3(case: h3.Case) -> Row:
    code = ""
    if case.code is not None:
        code = _CODES.get(case.code, f"0x{case.code:x}")
        if case.seen:
            code += f" by {case.seen.name}"
    expected = str(case.expected)
    if isinstance(case.expected, Taken) and case.once:
        expected += ", sent again"
    return Row(case.name, [expected, _client(case.expected), code], case.deviation)


def _client(expected: Expected) -> str:
    return f"`{expected.error.__name__}`" if isinstance(expected, Failed) else str(expected)


def _sections(
    columns: list[str], rows: Iterable[tuple[str, Row]], notes: list[str]
) -> Iterator[str]:
    """A table for each section of an RFC, in their order."""
    tables: dict[str, list[Row]] = {}
    for section, row in rows:
        tables.setdefault(section, []).append(row)
    for section in sorted(tables, key=_order):
        yield f"### {section}: {TITLES[section]}\n"
        yield _line(["case", *columns])
        yield _line(["---"] * (len(columns) + 1))
        for row in tables[section]:
            yield _line([row.name + _note(row.deviation, notes), *row.columns])
        yield ""


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _note(words: str, notes: list[str]) -> str:
    if not words:
        return ""
    if words not in notes:
        notes.append(words)
    return f" [{notes.index(words) + 1}]"


def _order(section: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", section)]
