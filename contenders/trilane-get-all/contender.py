# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.trilane]
# name = "trilane-get-all"
# title = "Trilane, get_all"
# library = "trilane"
# runtime = "self"
# versions = ["h2", "h2c", "h3"]
# note = "Client.get_all, which reads responses in the order of their URLs; GET without content"
# strategies = ["multiplexed"]
# ///
"""Trilane's `Client.get_all`: many URLs from one thread."""

import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE / "harness"), str(HERE / "trilane")]

from contender import ASKED, KINDS, settings

from trilane.client import Client, Response
from trilane_contender import Answer, Broken, Library, Plan, run


class Ordered:
    """One `Client`, whose `get_all` takes the URLs as they are submitted."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._client = Client(**settings(plan))
        self._submitted: deque[str] = deque()
        self._responses: Iterator[Response] = iter(())

    def submit(self, path: str) -> None:
        """The response is the next that nobody has collected."""
        self._submitted.append(self._plan.target + path)

    def collect(self, _: None) -> Answer:
        """The next response of `get_all`."""
        response = next(self._responses, None)
        if response is None:
            # It has ended, as it found nothing more to send: what was submitted since is new.
            ahead = self._plan.in_flight
            self._responses = self._client.get_all(self._waiting(), ahead=ahead)
            response = next(self._responses, None)
        if response is None:
            raise Broken("closed", "get_all ended by an error before this response")
        return Answer(response.status, response.version, response.content)

    def close(self) -> None:
        """Close the pool."""
        self._client.close()

    def _waiting(self) -> Iterator[str]:
        while self._submitted:
            yield self._submitted.popleft()


def cannot(plan: Plan) -> str | None:
    """What `get_all` has no argument for."""
    if plan.method != "GET" or plan.body is not None:
        return "get_all sends GET without content"
    return None


if __name__ == "__main__":
    sys.exit(
        run(
            Library(
                distribution="trilane",
                stream_client=Ordered,
                shared_by_threads=frozenset(ASKED),
                cannot=cannot,
                kinds=KINDS,
            )
        )
    )
