"""The cases as data: `cases.json`, which the crates play without sockets or a clock."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trilane.client import errors

from . import cases, h1_contents, h1_heads, h2_cases, h3, h3_connections, h3_requests
from .cases import Close, End, Expected, Failed, Reset, Say, Step

FILE = Path(__file__).with_name("cases.json")
H1 = h1_heads.CASES + h1_contents.CASES
H2 = h2_cases.CASES
H3 = h3_connections.CASES + h3_requests.CASES
_ENDS: dict[End, tuple[Step, ...]] = {
    End.STAY: (),
    End.CLOSE: (Close(0),),
    End.RESET: (Reset(cases.REQUEST, 0),),
}
# The client's name of each class of its errors.
_KINDS = {name: kind for kind, name in errors._KINDS.items()}
_REPEATED = re.compile(r"(.{1,70}?)\1{15,}", re.DOTALL)


def text() -> str:
    """The whole file, a case a line."""
    lines = ",\n".join(json.dumps(case) for case in _cases())
    opening, answer = json.dumps(_steps(h3.GREETING)), json.dumps(_steps(h3.ANSWER))
    return f'{{"opening": {opening}, "answer": {answer}, "cases": [\n{lines}\n]}}\n'


def is_played(case: h3.Case) -> bool:
    """Whether the crates can: their QUIC opens no stream that was not granted."""
    steps = case.opening + case.answer
    return not any(isinstance(step, Say) and step.stream == h3.BIDIRECTIONAL for step in steps)


def _cases() -> Iterator[dict[str, Any]]:
    for h1 in H1:
        steps = tuple(Say(cases.REQUEST, piece) for piece in h1.pieces) + _ENDS[h1.end]
        yield _set(
            version="h1",
            name=h1.name,
            method=h1.method,
            requests=h1.requests,
            answer=_steps(steps),
            engine=_expected(h1.expected, of_client=False),
            client=None if h1.above else _expected(h1.of_client, of_client=True),
        )
    for h2 in H2:
        yield _case("h2", h2, h2.seen_code) | _set(method="GET", requests=1)
    for each in filter(is_played, H3):
        request = _set(method=each.method, requests=each.requests, once=each.once)
        yield _case("h3", each, each.code) | request


def _case(version: str, case: h2_cases.Case | h3.Case, seen: int | None) -> dict[str, Any]:
    return _set(
        version=version,
        name=case.name,
        opening=_steps(case.opening),
        answer=_steps(case.answer),
        engine=_expected(case.expected, of_client=False),
        client=_expected(case.expected, of_client=True),
        code=case.code,
        seen=case.seen and [case.seen, seen],
    )


def _set(**values: Any) -> dict[str, Any]:
    """Those that say something."""
    return {name: value for name, value in values.items() if value}


def _expected(expected: Expected, *, of_client: bool) -> dict[str, Any]:
    if isinstance(expected, Failed):
        kind = _KINDS[expected.error.__name__] if of_client else expected.kind
        return _set(failure=kind, kept=expected.kept)
    return _set(
        status=expected.status,
        content=_bytes(expected.content),
        fields=expected.fields,
        trailers=expected.trailers,
        informational=expected.informational,
        kept=expected.kept,
    )


def _steps(steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    return [_step(step) for step in steps]


def _step(step: Step) -> dict[str, Any]:
    if isinstance(step, Say):
        return {"say": [step.stream, _bytes(step.data), step.end]}
    if isinstance(step, Close):
        return {"close": step.code}
    return {"reset" if isinstance(step, Reset) else "stop": [step.stream, step.code]}


def _bytes(data: bytes) -> list[str | tuple[str, int]]:
    """Pieces, each character of which is a byte; of one that repeats, how often."""
    said, pieces, begin = data.decode("latin-1"), list[str | tuple[str, int]](), 0
    for found in _REPEATED.finditer(said):
        pieces += [said[begin : found.start()]] if begin < found.start() else []
        pieces.append((found[1], len(found[0]) // len(found[1])))
        begin = found.end()
    return pieces + ([said[begin:]] if begin < len(said) else [])
