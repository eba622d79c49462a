"""A plugin for pytest under urllib3's own tests: `http.client` is `trilane.client.http`.

It takes the place of the module before anything of urllib3, or of its tests, is imported.
"""

from __future__ import annotations

import http
import os
import sys

import pytest

import trilane.client.http as ours
from client.outcomes import VERSIONS


class Counted(ours.HTTPResponse):
    """Counts the versions of the responses that connections give."""

    def attach(self, *given: object) -> None:
        """The head of the response is there."""
        super().attach(*given)  # type: ignore[arg-type]
        VERSIONS[str(self.version)] += 1


if not os.environ["SUITE_BASELINE"]:
    ours.HTTPConnection.response_class = Counted
    sys.modules["http.client"] = ours
    http.client = ours


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let every case have the limit of the suite: their own are for a fast machine."""
    for item in items:
        for node in item.listchain():
            node.own_markers = [mark for mark in node.own_markers if mark.name != "timeout"]
