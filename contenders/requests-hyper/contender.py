# /// script
# requires-python = ">=3.11,<3.12"
# dependencies = [
#     "certifi==2026.10.18",
#     "charset-normalizer==3.5.2",
#     "h2==2.6.2",
#     "hdrhistogram==0.10.8",
#     "hpack==3.0.0",
#     "hyper==0.7.0",
#     "hyperframe==3.2.0",
#     "idna==3.20",
#     "pbr==7.1.3",
#     "requests==2.34.2",
#     "setuptools==84.2.1",
#     "urllib3==2.8.0",
# ]
#
# [tool.trilane]
# name = "requests-hyper"
# title = "Requests with hyper's adapter"
# library = "requests"
# versions = ["h2"]
# strategies = ["serial", "threads", "processes", "asyncio_threads"]
# note = "hyper 0.7, archived in 2020, under a Requests of today; one request at a time"
# ///
"""Requests with hyper's transport adapter, as in the first post. Niquests is its successor."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import hyper_import

hyper_import.prepare()

import hyper
import hyper.tls
import requests
from hyper.common.exceptions import ConnectionResetError as HyperReset
from hyper.common.exceptions import SocketError
from hyper.contrib import HTTP20Adapter
from urllib3.util import SKIP_HEADER

from trilane_contender import Answer, Library, Plan, run


class Adapter(HTTP20Adapter):
    """The adapter, with the port in the authority, where it belongs."""

    def __init__(self, authority: str) -> None:
        super().__init__()
        self._authority = authority

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send it over the connection to its host."""
        # Here, as Requests lets no such name through; and here it may leave one out.
        request.headers[":authority"] = self._authority
        request.body = hyper_import.whole(request.body)
        if request.headers.get("user-agent") == SKIP_HEADER:
            del request.headers["user-agent"]
        return super().send(request, **options)

    def close(self) -> None:
        """Close the connections; it has inherited a method for a pool that it does not have."""
        for connection in self.connections.values():
            # Its own `close` fails where there is no connection yet.
            if connection._sock is not None:  # noqa: SLF001
                connection.close()
        self.connections.clear()


class Client:
    """One `Session` with the adapter mounted."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        hyper_import.limit(plan.timeout_s)
        # The adapter does not look at `verify`; it takes the context of the module.
        hyper.tls._context = hyper_import.trust(plan)  # noqa: SLF001
        self._adapter = Adapter(f"{plan.host}:{plan.port}")
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers.clear()
        self._session.headers.update({"user-agent": SKIP_HEADER, **dict(plan.headers)})
        self._session.mount(plan.target, self._adapter)

    def fetch(self, path: str) -> Answer:
        """`session.request`; the body is read and decoded before it returns."""
        plan = self._plan
        try:
            response = self._session.request(
                plan.method, plan.target + path, data=plan.body, allow_redirects=False
            )
        except BaseException:
            # Its state is unknown.
            self._adapter.close()
            raise
        spoken = "h2" if isinstance(response.raw, hyper.HTTP20Response) else "h1"
        return Answer(response.status_code, spoken, response.content)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()


if __name__ == "__main__":
    sys.exit(
        run(
            Library(
                distribution="requests",
                client=Client,
                kinds=((HyperReset, "reset"), (SocketError, "closed")),
            )
        )
    )
