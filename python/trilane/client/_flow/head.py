"""The head of a response, and what is known of its way here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from trilane.client._flow.redirects import is_redirect
from trilane.client._flow.request import SECRETS
from trilane.client.errors import StatusError
from trilane.client.fields import Headers, MutableHeaders

if TYPE_CHECKING:
    from datetime import timedelta

    from trilane._core import Exchange, Facts
    from trilane.client._early import Early
    from trilane.client._flow.cookies import Cookies
    from trilane.client._flow.origins import Address
    from trilane.client._flow.request import Request
    from trilane.client._flow.watching import Timings, Traffic, Watched
    from trilane.client.auth import RequestInfo


class Ends(NamedTuple):
    """What a response that was pickled keeps of `Facts`."""

    peer: tuple[str, int] | None
    local: tuple[str, int] | None
    tls_info: dict[str, Any] | None


class Told(Protocol):
    """What the head of a response is asked of: `_core.Exchange`, `_core.Sections`, or `Past`."""

    @property
    def reason(self) -> str:
        """The reason phrase of HTTP/1.1."""

    @property
    def informational(self) -> list[tuple[int, list[tuple[str, str]]]]:
        """Status and fields of each 1xx response."""

    def has(self, name: str, /) -> bool:
        """Whether the head has a field of that name."""

    def fields(self) -> list[tuple[str, str]]:
        """The fields of the head."""

    def trailers(self) -> list[tuple[str, str]]:
        """The fields after the content."""


class Past:
    """What is told of a response whose exchange is out of reach: as it was pickled, or nothing."""

    def __init__(
        self,
        fields: list[tuple[str, str]] | None = None,
        reason: str = "",
        informational: list[tuple[int, list[tuple[str, str]]]] | None = None,
        trailers: list[tuple[str, str]] | None = None,
        request: RequestInfo | None = None,
    ) -> None:
        self.request = request
        """The request, where its response was pickled."""
        self._fields = fields or []
        self.reason = reason
        self.informational = informational or []
        self._trailers = trailers or []

    def has(self, name: str) -> bool:
        """Whether the head has a field of that name."""
        return any(given.lower() == name for given, _ in self._fields)

    def fields(self) -> list[tuple[str, str]]:
        """The fields of the head."""
        return self._fields

    def trailers(self) -> list[tuple[str, str]]:
        """The fields after the content."""
        return self._trailers


class Head(ABC):
    """Status, fields and circumstances of a response. What reads its content is a subclass."""

    __slots__ = (
        "_address",
        "_facts",
        "_fields",
        "_headers",
        "_told",
        "_watched",
        "history",
        "status",
        "took",
    )

    status: int
    """The status code."""
    history: list[Any]
    """The responses that led to this one, redirects and challenges, in their order."""
    took: float
    """Seconds from the begin of the last request to the head of this response."""
    _address: Address
    _facts: Facts | Ends | None
    _fields: list[tuple[str, str]] | None
    """As they were told, where they were asked for."""
    _headers: Headers | None
    _told: Told
    _watched: Watched | None

    @property
    @abstractmethod
    def method(self) -> str:
        """The method of the request."""

    @property
    @abstractmethod
    def version(self) -> str:
        """`h1`, `h2`, `h3`, or `h1.0` where the server answered in HTTP/1.0."""

    @property
    @abstractmethod
    def stream_id(self) -> int:
        """Id of the stream, or the number of the request on its HTTP/1.1 connection."""

    @property
    def url(self) -> str:
        """The URL asked for, without userinfo and fragment."""
        return self._address.url

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The fields as they came, in their order."""
        fields = self._fields
        if fields is None:
            fields = self._fields = self._told.fields()
        return fields

    def has_field(self, name: str) -> bool:
        """Whether it has a field of that name, which is in lower case; at no cost of `fields`."""
        return self._told.has(name)

    @property
    def headers(self) -> Headers:
        """The fields by name."""
        if self._headers is None:
            self._headers = Headers(self.fields)
        return self._headers

    @property
    def peer(self) -> tuple[str, int] | None:
        """Address and port of the server, or of the proxy; None over a Unix socket."""
        return None if self._facts is None else self._facts.peer

    @property
    def local(self) -> tuple[str, int] | None:
        """Our own address and port."""
        return None if self._facts is None else self._facts.local

    @property
    def tls_info(self) -> dict[str, Any] | None:
        """What TLS agreed on; None without it.

        `version`, `cipher`, `group`, `alpn`, whether it was `resumed`, `ech`, whether the hello was
        encrypted, and `certificates`, the server's chain in DER, its own first.
        """
        return None if self._facts is None else self._facts.tls_info

    @property
    def timings(self) -> Timings | None:
        """Where the time went so far; None unless the client was made with `timings=True`."""
        watched = self._watched
        return None if watched is None else watched.timings(self._measured)

    @property
    def traffic(self) -> Traffic | None:
        """The bytes so far; None unless the client was made with `timings=True`."""
        watched = self._watched
        return None if watched is None else watched.traffic(self._measured, self.fields)

    @property
    @abstractmethod
    def _measured(self) -> Exchange | Early | None:
        """What has times, until they are taken from it."""

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def status_code(self) -> int:
        """`status`, by the name that Requests and HTTPX have for it."""
        return self.status

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status < 400

    @property
    def is_redirect(self) -> bool:
        """Whether it sends its client elsewhere, which `follow_redirects` follows."""
        return is_redirect(self.status, self.headers.get("location"))

    @property
    def elapsed(self) -> timedelta:
        """The time from the begin of the request to the head of this response, without content.

        That of the last request where several led to it; `history` has the others.
        """
        from datetime import timedelta  # noqa: PLC0415 - few ask

        return timedelta(seconds=self.took)

    @property
    def request(self) -> RequestInfo:
        """The request as it was sent: its `method`, `url` and `headers`.

        Where the response was pickled it is without the fields that have secrets.
        """
        told = self._told
        if isinstance(told, Past) and told.request is not None:
            return told.request
        from trilane.client.auth import RequestInfo  # noqa: PLC0415 - few ask

        sent, address = self._request_sent(), self._address
        headers = MutableHeaders(sent.fields)
        return RequestInfo(sent.method, address.url, address.target, headers)

    @property
    def cookies(self) -> Cookies:
        """The cookies that this response sets; those of the client are `client.cookies`."""
        from trilane.client._flow.cookies import of_response  # noqa: PLC0415 - few ask

        return of_response(self, self._address)

    @property
    def links(self) -> dict[str, dict[str, str]]:
        """The links of the field `link` (RFC 8288) by their relation: `links["next"]["url"]`."""
        from trilane.client._flow.links import links  # noqa: PLC0415 - few ask

        return links(self.headers.get("link", ""))

    def raise_for_status(self) -> Self:
        """This response, unless its status is 400 or more.

        Raises:
            StatusError: it is; the error has the `response`.
        """
        status = self.status
        if status < 400:
            return self
        whose = "the client's" if status < 500 else "the server's"
        reason = f" {self.reason}" if self.reason else ""
        raise StatusError(
            f"{self.method} {self.url} was answered with {status}{reason}, {whose} error",
            response=self,
        )

    @property
    def reason(self) -> str:
        """The reason phrase of HTTP/1.1; empty in the others."""
        return self._told.reason

    @property
    def informational(self) -> list[tuple[int, list[tuple[str, str]]]]:
        """Status and fields of each 1xx response before this one."""
        return self._told.informational

    def request_to_keep(self) -> RequestInfo:
        """`request` for pickle, without the fields that have secrets."""
        request = self.request
        fields = request.headers.pairs
        headers = MutableHeaders(field for field in fields if field[0].lower() not in SECRETS)
        return type(request)(request.method, request.url, request.target, headers)

    @abstractmethod
    def _request_sent(self) -> Request:
        """The request."""
