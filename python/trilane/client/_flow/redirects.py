"""Where a redirect leads, and what is sent there (RFC 9110 §15.4, Fetch §4.4). No I/O.

Where RFC and Fetch leave the method to the client, it is as Requests and HTTPX have it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from trilane.client._flow.origins import DEFAULT_PORTS, Address, Origin, http_url, parse
from trilane.client._flow.request import Field, lower
from trilane.client.errors import InvalidRequest, RedirectError

if TYPE_CHECKING:
    from trilane.client._flow.response import BaseResponse

STATUSES: Final = frozenset({301, 302, 303, 307, 308})
MOST: Final = 20
"""How many are followed by default, as in HTTPX and Fetch."""
_OF_CONTENT: Final = frozenset(
    {
        "content-encoding",
        "content-language",
        "content-length",
        "content-location",
        "content-type",
        "expect",
        "transfer-encoding",
    }
)
"""Fields that go with the content when the method becomes GET (Fetch §4.4, step 12)."""
_OF_ORIGIN: Final = frozenset({"authorization", "host"})
"""Fields that were meant for one origin."""


def is_redirect(status: int, location: str | None) -> bool:
    """Whether a response sends its client elsewhere."""
    return status in STATUSES and location is not None


def method_after(status: int, method: str) -> str:
    """The method of the request that follows."""
    if status in {302, 303} and method != "HEAD":
        return "GET"
    return "GET" if status == 301 and method == "POST" else method


def target(response: BaseResponse, location: str, *, websocket: bool = False) -> Address:
    """The URL that `location` names, seen from that of the response.

    websocket: whether it may also be one of `ws` or `wss`.

    Raises:
        RedirectError: it names none of http or https.
    """
    with suppress(UnicodeError):
        # Fields are handed on as ISO-8859-1; what is not ASCII in URLs is UTF-8.
        location = location.encode("latin-1").decode("utf-8")
    from urllib.parse import urljoin  # noqa: PLC0415 - it takes long to import

    try:
        url = urljoin(response.url, location.strip())
        return parse(http_url(url) if websocket else url)
    except (InvalidRequest, ValueError) as error:
        raise RedirectError(
            f"{response.url} redirects with {response.status} to {location!r}, which cannot be"
            f" followed: {error}",
            response=response,
        ) from None


def is_trusted(origin: Origin, next_: Origin) -> bool:
    """Whether credentials for an origin may go to the next one: to itself, or from http to https.

    That is HTTPX's rule; the latter is the same host on the usual ports.
    """
    if origin == next_:
        return True
    return (
        origin.host == next_.host
        and (origin.scheme, origin.port) == ("http", DEFAULT_PORTS["http"])
        and (next_.scheme, next_.port) == ("https", DEFAULT_PORTS["https"])
    )


def fields_after(fields: list[Field], *, same_content: bool, trusted: bool) -> list[Field]:
    """The fields of the request that follows. `cookie` is computed anew for each URL."""
    gone = {"cookie"}
    if not same_content:
        gone |= _OF_CONTENT
    if not trusted:
        gone |= _OF_ORIGIN
    return [field for field in fields if lower(field[0]) not in gone]
