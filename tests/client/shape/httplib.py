"""CPython's own tests of `http.client`, with our module in its place.

`cpython/test_httplib.py.txt` is the file of Python 3.11.7 as it is (its licence is beside it), and
those of 3.12.1 and 3.13.0 have their version in the name; the ending keeps linters and pytest away.
Each is for its own Python. `differences.toml` says which of the cases do not hold here.

`python -m client.shape.httplib` prints the outcome of each case with the Python that runs it, as
JSON.
"""

from __future__ import annotations

import builtins
import http
import json
import os
import sys
import tempfile
import tomllib
import unittest
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from test import support  # type: ignore[import-not-found] # not in typeshed

import trilane.client.http

HERE = Path(__file__).parent
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
SOURCES = {
    "3.11": HERE / "cpython" / "test_httplib.py.txt",
    "3.12": HERE / "cpython" / "test_httplib_3_12.py.txt",
    "3.13": HERE / "cpython" / "test_httplib_3_13.py.txt",
}
# What is newer has the cases of the newest that is here.
SOURCE = SOURCES.get(RUNNING, SOURCES["3.13"])
TABLE = HERE / "differences.toml"


@dataclass(frozen=True)
class Difference:
    """Cases that do not hold for one reason."""

    title: str
    reason: str
    skipped: bool
    cases: tuple[str, ...]
    versions: tuple[str, ...]
    """Of Python, whose cases these are; none: of all that have them."""


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
            tuple(one.get("versions", ())),
        )
        for one in table["difference"]
    )


def listed(version: str = RUNNING) -> dict[str, Difference]:
    """The table by case, for a version of Python."""
    return {
        case: one
        for one in differences()
        if not one.versions or version in one.versions
        for case in one.cases
    }


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


if __name__ == "__main__":
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        # CPython's cases leave sockets of their own to the collector, and files where they run.
        warnings.simplefilter("ignore", ResourceWarning)
        os.chdir(folder)
        outcomes = {name: outcome(case) for name, case in cases().items()}
        os.chdir(HERE)
    print("\n" + json.dumps(outcomes))
