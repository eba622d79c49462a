"""What others wrote: `make test` has a few cases of it, `make test-all` has all.

What is left out has the mark `others`: whole suites of other projects, what is asked of each
program of others, and a cluster on five machines. Which cases stay is said beside each table of
them, and here where `tests/prepare.py` has to know: it builds only what the tests ask for.
"""

from __future__ import annotations

import pytest

MARK = "others"
others = pytest.mark.others

# Of the contenders: ours, two scripts and a program of others, and two load generators.
CONTENDERS = frozenset({"go", "h2load", "http-client", "requests", "trilane", "wrk"})
# Of the servers: ours, and those that other tests than `test_every_server` ask for, too.
SERVERS = frozenset(
    {
        *("embedded", "trilane-gateway"),
        *("caddy", "connect-go", "go", "grpc-go", "grpc-go-http", "hypercorn", "nginx"),
    }
)


class Left:
    """Counts the tests that are left to `make test-all`, and says how many they are."""

    def __init__(self) -> None:
        self._count = 0

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        # Whoever types `-k` knows what that leaves out.
        if MARK in items[0].config.getoption("markexpr"):
            self._count += sum(item.get_closest_marker(MARK) is not None for item in items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Of processes of pytest-xdist, each of which has collected all tests."""
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["left"] = self._count

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self._count = getattr(node, "workeroutput", {}).get("left", self._count)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._count:
            terminalreporter.write_line(
                f"{self._count} tests of what others wrote were left to `make test-all`"
            )
