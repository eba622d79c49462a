"""Every test of a load is done in each way in which the engine waits for its sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waiting import in_each_way, wait

if TYPE_CHECKING:
    import pytest

__all__ = ["wait"]

# Tests that name the way themselves say `ONE_WAY`. The others are known by what starts a load.
_LOADING = {"e2e.loading", "e2e.grpc_calls"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = vars(metafunc.module)
    if not names.get("ONE_WAY", False) and any(
        getattr(name, "__module__", None) in _LOADING for name in names.values()
    ):
        in_each_way(metafunc)
