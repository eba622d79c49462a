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
# ///
"""Requests: a session with a pool as large as the plan allows, shared by all threads."""

import contextlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import SKIP_HEADER

from trilane_contender import Answer, Library, Plan, run
from trilane_contender.bodies import PIECE, counted


class Client:
    """One `Session`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._session = requests.Session()
        # No proxies and no .netrc of this machine; and only the plan's headers.
        self._session.trust_env = False
        self._session.headers.clear()
        self._session.headers.update({"user-agent": SKIP_HEADER, **dict(plan.headers)})
        self._session.verify = plan.cacert or True
        adapter = HTTPAdapter(pool_maxsize=plan.pool, pool_block=False)
        self._session.mount(plan.target, adapter)

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
        version = "h1" if response.raw.version == 11 else f"{response.raw.version}"
        if plan.discard:
            size = counted(response.iter_content(PIECE))
            return Answer(response.status_code, version, b"", size)
        return Answer(response.status_code, version, response.content)

    def close(self) -> None:
        """Close the pool."""
        self._session.close()


if __name__ == "__main__":
    sys.exit(
        run(
            Library(
                distribution="requests",
                client=Client,
                streams_bodies=True,
                # Not promised by its documentation, but what everybody does: the pool under it
                # hands each thread a connection of its own.
                shared_by_threads=frozenset({"h1"}),
                kinds=(
                    (requests.exceptions.SSLError, "tls"),
                    (requests.exceptions.Timeout, "timeout"),
                    (requests.exceptions.ChunkedEncodingError, "body"),
                    (requests.exceptions.ContentDecodingError, "body"),
                    (requests.exceptions.ConnectionError, "connect"),
                ),
            )
        )
    )
