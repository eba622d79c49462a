"""Tests of decisions and shapes alone: a process or a connection here is a test in the wrong place.

What needs one belongs to `tests/client`, `tests/lab` or `tests/e2e`; `make check` runs this folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trilane.lab.analysis import spending, stats, unpaired
from undrawn import drawn as drawn  # noqa: PLC0414
from undrawn import undrawn as undrawn  # noqa: PLC0414
from unit import guard

HERE = Path(__file__).parent
FEWER = 999


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    # pytest calls this for the tests of other folders, too.
    if HERE not in item.path.parents:
        return (yield)
    with guard.watching(item.nodeid):
        return (yield)


@pytest.fixture(autouse=True)
def _nothing_was_refused() -> Iterator[None]:
    guard.caught.clear()
    yield
    assert guard.caught == []


@pytest.fixture(autouse=True, scope="module")
def _fewer_resamples() -> Iterator[None]:
    """Coarser percentiles of bootstraps, in a tenth of the time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stats, "RESAMPLES", FEWER)
        # Defaults are read where functions are made.
        for drawing in (stats.bootstrap, unpaired.interval):
            patched.setattr(drawing, "__defaults__", (FEWER,))
        for comparing in (unpaired.compare, spending.judge):
            defaults = comparing.__kwdefaults__ or {}
            assert "resamples" in defaults
            patched.setitem(defaults, "resamples", FEWER)
        yield
