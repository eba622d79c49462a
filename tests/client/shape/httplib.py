"""CPython's own tests of `http.client`, with our module in its place.

`cpython/test_httplib.py.txt` is the file of Python 3.11.7 as it is (its licence is beside it); the
ending keeps linters and pytest away. `differences.toml` says which of its cases do not hold here.
"""

from __future__ import annotations

import builtins
import http
import sys
import tomllib
import unittest
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from test import support  # type: ignore[import-not-found] # not in typeshed

import trilane.client.http

HERE = Path(__file__).parent
SOURCE = HERE / "cpython" / "test_httplib.py.txt"
TABLE = HERE / "differences.toml"


@dataclass(frozen=True)
class Difference:
    """Cases that do not hold for one reason."""

    title: str
    reason: str
    skipped: bool
    cases: tuple[str, ...]


@cache
def differences() -> tuple[Difference, ...]:
    """The table."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return tuple(
        Difference(
            one["title"],
            " ".join(one["reason"].split()),
            one.get("skipped", False),
            tuple(one["cases"]),
        )
        for one in table["difference"]
    )


def listed() -> dict[str, Difference]:
    """The table by case."""
    return {case: one for one in differences() for case in one.cases}


@cache
def module() -> ModuleType:
    """The file, executed with our module under the name `client`."""
    # Its cases about servers in the network ask for this, and are skipped.
    support.use_resources = []
    made = ModuleType("test_httplib_with_trilane")
    made.__file__ = str(SOURCE)
    made.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
    sys.modules[made.__name__] = made
    exec(compile(SOURCE.read_text(encoding="utf-8"), SOURCE, "exec"), made.__dict__)  # noqa: S102
    installed = Path(support.__file__).parent.parent / "certdata"
    for name in ("CERT_localhost", "CERT_fakehostname", "CERT_selfsigned_pythontestdotnet"):
        setattr(made, name, str(installed / Path(getattr(made, name)).name))
    return made


def _import(
    name: str,
    variables: Mapping[str, Any] | None = None,
    local: Mapping[str, Any] | None = None,
    wanted: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    if name == "http" and "client" in (wanted or ()):
        return SimpleNamespace(client=trilane.client.http, HTTPStatus=http.HTTPStatus)
    return builtins.__import__(name, variables, local, wanted or (), level)


def cases() -> dict[str, unittest.TestCase]:
    """Every case by its name, such as `BasicTest.test_host_port`."""

    def flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
        for one in suite:
            if isinstance(one, unittest.TestSuite):
                yield from flat(one)
            else:
                yield one

    suite = unittest.defaultTestLoader.loadTestsFromModule(module())
    return {one.id().split(".", 1)[1]: one for one in flat(suite)}


def outcome(case: unittest.TestCase) -> tuple[str, str]:
    """`passed`, `failed` or `skipped`, with the traceback or the reason."""
    result = unittest.TestResult()
    case.run(result)
    if problems := result.failures + result.errors:
        return "failed", "\n".join(trace for _, trace in problems)
    if result.skipped:
        return "skipped", result.skipped[0][1]
    return "passed", ""
