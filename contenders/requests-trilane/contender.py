# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.trilane]
# name = "requests-trilane"
# title = "Requests over Trilane"
# library = "requests"
# runtime = "self"
# versions = ["h1", "h2", "h2c", "h3"]
# note = "Requests' session on trilane.client.requests, both of the installation that measures"
# strategies = ["serial", "threads", "processes", "asyncio_threads"]
# ///
"""Requests: a session with `TrilaneAdapter` in the place of its own, shared by all threads."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import Answer, Library, Plan, run
from trilane_contender.missing import cannot

ASKED = {"h1": ("h1",), "h2": ("h2",), "h2c": ("h2",), "h3": ("h3",)}
SPOKEN = {11: "h1", 20: "h2", 30: "h3"}


class Client:
    """One `Session`."""

    def __init__(self, plan: Plan) -> None:
        import requests  # noqa: PLC0415 - not before it is known to be installed

        from trilane.client.requests import TrilaneAdapter  # noqa: PLC0415

        self._plan = plan
        self._session = requests.Session()
        # No proxies and no .netrc of this machine; and only the plan's headers.
        self._session.trust_env = False
        self._session.headers.clear()
        self._session.headers.update(dict(plan.headers))
        self._session.verify = plan.cacert or True
        adapter: Any = TrilaneAdapter(
            pool_maxsize=plan.pool, pool_block=True, versions=ASKED[plan.version]
        )
        self._session.mount(plan.target, adapter)

    def fetch(self, path: str) -> Answer:
        """`session.request`; the body is read and decoded before it returns."""
        plan = self._plan
        response = self._session.request(
            plan.method,
            plan.target + path,
            data=plan.body,
            timeout=plan.timeout_s,
            allow_redirects=False,
        )
        version = SPOKEN.get(response.raw.version, f"{response.raw.version}")
        return Answer(response.status_code, version, response.content)

    def close(self) -> None:
        """Close the pool."""
        self._session.close()


def kinds() -> tuple[tuple[type[BaseException], str], ...]:
    """Kinds of failure for Requests' exceptions, most special first."""
    from requests import exceptions  # noqa: PLC0415 - as above

    from trilane.client.errors import VersionUnavailable  # noqa: PLC0415 - as above

    return (
        (VersionUnavailable, "protocol"),
        (exceptions.SSLError, "tls"),
        (exceptions.Timeout, "timeout"),
        (exceptions.ChunkedEncodingError, "body"),
        (exceptions.ContentDecodingError, "body"),
        (exceptions.ConnectionError, "connect"),
    )


if __name__ == "__main__":
    if find_spec("requests") is None:
        sys.exit(cannot("requests is not installed beside trilane: python -m pip install requests"))
    sys.exit(
        run(
            Library(
                distribution="requests",
                client=Client,
                shared_by_threads=frozenset(ASKED),
                kinds=kinds(),
            )
        )
    )
