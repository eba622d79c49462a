"""Which cases are played end to end: what a connection makes of them reaches the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pytest

from . import cases, h3
from .data import H1, H3, is_played

_H1 = frozenset(
    {
        "an ordinary response",
        "a folded value",
        "three kinds of 1xx",
        "two trailers",
        "status 600",
        "a control character in the reason phrase",
        "257 fields",
        "silence",
        "a close instead of a response",
        "a reset inside the head",
        "too little content and a close",
        "too much content",
    }
)
_H3 = frozenset(
    {
        "an ordinary response",
        "trailers",
        "a setting twice",
        "no section prefix",
        "GOAWAY that rejects the request",
        "a reset with H3_REQUEST_REJECTED",
        "a reset behind the head",
        "a close with H3_INTERNAL_ERROR instead of a response",
        ":status twice",
        "less content than content-length",
        "fields of 257 KiB",
        "silence",
    }
)
Any = TypeVar("Any", cases.Case, h3.Case)


def _each(played: Sequence[Any], names: frozenset[str], alone: set[str]) -> pytest.MarkDecorator:
    """Those of these names, and those that nothing else shows."""
    chosen = [case for case in played if case.name in names | alone]
    assert len(chosen) == len(names | alone)
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.name)


each_h1 = _each(H1, _H1, {case.name for case in H1 if case.above})
each_h3 = _each(H3, _H3, {case.name for case in H3 if not is_played(case)})
