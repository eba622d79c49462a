"""What the engine makes of servers that break rules is asked in each way in which it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waiting import in_each_way, wait

if TYPE_CHECKING:
    import pytest

__all__ = ["wait"]

# What starts a load; the others ask the Python client, or nobody.
_ENGINE = {"test_engine", "test_h2specd"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function.__name__ in _ENGINE:
        in_each_way(metafunc)
