"""Requests with hyper's transport adapter, as in the first post. Niquests is its successor."""

from typing import Any

import hyper
import hyper.tls
import hyper_import
import requests
from hyper.common.exceptions import ConnectionResetError as HyperReset
from hyper.common.exceptions import SocketError
from hyper.contrib import HTTP20Adapter
from urllib3.util import SKIP_HEADER

from trilane_contender import Answer, Library, Plan


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


LIBRARY = Library(
    distribution="requests",
    client=Client,
    kinds=((HyperReset, "reset"), (SocketError, "closed")),
)
