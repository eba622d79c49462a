# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "certifi==2026.10.18",
#     "charset-normalizer==3.5.2",
#     "hdrhistogram==0.10.8",
#     "idna==3.20",
#     "pbr==7.1.3",
#     "requests==2.34.2",
#     "setuptools==84.2.1",
#     "urllib3==2.8.0",
# ]
#
# [tool.trilane]
# name = "requests"
# title = "Requests"
# library = "requests"
# versions = ["h1"]
# strategies = ["serial", "threads", "processes", "asyncio_threads"]
#
# [tool.trilane.variants.requests-trilane]
# title = "Requests over Trilane"
# runtime = "self"
# versions = ["h1", "h2", "h2c", "h3"]
# note = "Requests' session on trilane.client.requests, both of the installation that measures"
# ///
"""Requests: a session with a pool as large as the plan allows, shared by all threads.

With an adapter of its own, or with `TrilaneAdapter` in the place of that.
"""

import contextlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import Answer, Library, Plan, run
from trilane_contender.bodies import PIECE, counted
from trilane_contender.missing import need

need("requests")

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import SKIP_HEADER

ASKED = {"h1": ("h1",), "h2": ("h2",), "h2c": ("h2",), "h3": ("h3",)}
SPOKEN = {11: "h1", 20: "h2", 30: "h3"}


def own(plan: Plan) -> HTTPAdapter:
    """The adapter of Requests."""
    return HTTPAdapter(pool_maxsize=plan.pool, pool_block=False)


def trilane(plan: Plan) -> HTTPAdapter:
    """That of `trilane.client.requests`."""
    from trilane.client.requests import TrilaneAdapter  # noqa: PLC0415 - not there otherwise

    return TrilaneAdapter(pool_maxsize=plan.pool, pool_block=True, versions=ASKED[plan.version])


class Client:
    """One `Session`."""

    def __init__(self, adapter: Callable[[Plan], HTTPAdapter], plan: Plan) -> None:
        self._plan = plan
        self._session = requests.Session()
        # No proxies and no .netrc of this machine; and only the plan's headers.
        self._session.trust_env = False
        self._session.headers.clear()
        self._session.headers.update({"user-agent": SKIP_HEADER, **dict(plan.headers)})
        self._session.verify = plan.cacert or True
        self._session.mount(plan.target, adapter(plan))

    def fetch(self, path: str) -> Answer:
        """`session.request`; the body is read and decoded before it returns."""
        plan = self._plan
        with contextlib.ExitStack() as stack:
            file = plan.body_file and stack.enter_context(plan.body_file.open("rb"))
            response = self._session.request(
                plan.method,
                plan.target + path,
                data=file or plan.body,
                timeout=plan.timeout_s,
                allow_redirects=False,
                stream=plan.discard,
            )
        version = SPOKEN.get(response.raw.version, f"{response.raw.version}")
        if plan.discard:
            size = counted(response.iter_content(PIECE))
            return Answer(response.status_code, version, b"", size)
        return Answer(response.status_code, version, response.content)

    def close(self) -> None:
        """Close the pool."""
        self._session.close()


KINDS = (
    (requests.exceptions.SSLError, "tls"),
    (requests.exceptions.Timeout, "timeout"),
    (requests.exceptions.ChunkedEncodingError, "body"),
    (requests.exceptions.ContentDecodingError, "body"),
    (requests.exceptions.ConnectionError, "connect"),
)


def library(variant: str) -> Library:
    """Requests with an adapter."""
    common = partial(Library, distribution="requests", streams_bodies=True)
    if variant == "requests-trilane":
        from trilane.client.errors import VersionUnavailable  # noqa: PLC0415 - not there otherwise

        return common(
            client=partial(Client, trilane),
            shared_by_threads=frozenset(ASKED),
            kinds=((VersionUnavailable, "protocol"), *KINDS),
        )
    return common(
        client=partial(Client, own),
        # Not promised by its documentation, but what everybody does: the pool under it hands each
        # thread a connection of its own.
        shared_by_threads=frozenset({"h1"}),
        kinds=KINDS,
    )


if __name__ == "__main__":
    sys.exit(run(library(sys.argv[-1])))
