"""Every test of a load is done in each way in which the engine waits for its sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waiting import in_each_way, wait

if TYPE_CHECKING:
    import pytest

__all__ = ["wait"]

# Where they import what starts a load from.
_LOADING = {"e2e.loading", "e2e.grpc_calls"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = vars(metafunc.module).values()
    if any(getattr(name, "__module__", None) in _LOADING for name in names):
        in_each_way(metafunc)
