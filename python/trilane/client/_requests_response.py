"""`Response.raw`: urllib3's response over the content of one of our exchanges."""

from __future__ import annotations

import io
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Final

from urllib3 import HTTPHeaderDict
from urllib3.response import HTTPResponse

if TYPE_CHECKING:
    from .pool import Response

VERSIONS: Final = {
    "h1.0": (10, "HTTP/1.0"),
    "h1": (11, "HTTP/1.1"),
    "h2": (20, "HTTP/2"),
    "h3": (30, "HTTP/3"),
}
"""What `version` and `version_string` of urllib3 are, by our names."""


class Content:
    """The content as it came, undecoded: what an `http.client.HTTPResponse` is to urllib3.

    It closes itself at its end, as that does. `msg` are the fields, for cookie jars.
    """

    def __init__(self, response: Response, headers: HTTPHeaderDict) -> None:
        self._response = response
        self._closed = False
        self.msg = self.headers = headers
        self.status = response.status
        self.reason = response.reason
        self.version, _ = VERSIONS[response.version]

    @property
    def closed(self) -> bool:
        """Whether there is nothing more to read: the end was reached, or `close` was called."""
        return self._closed

    def isclosed(self) -> bool:
        """`closed`, as http.client spells it."""
        return self._closed

    def read(self, amount: int | None = None) -> bytes:
        """Up to `amount` bytes, fewer only at the end; None: all that follows."""
        if self._closed:
            return b""
        data = self._response.read(-1 if amount is None else amount)
        self._close_at_end()
        return data

    def read1(self, amount: int | None = None) -> bytes:
        """What is there, up to `amount` bytes; waits only for the first; empty at the end."""
        if self._closed:
            return b""
        data = self._response.read1(-1 if amount is None else amount)
        self._close_at_end()
        return data

    def close(self) -> None:
        """Cancel what did not arrive yet. Idempotent."""
        self._closed = True
        self._response.close()

    def _close_at_end(self) -> None:
        if self._response.at_end:
            self.close()


class RawResponse(HTTPResponse):
    """What a user of Requests sees as `Response.raw`, with two attributes more.

    `version` is 10, 11, 20 or 30; `version_string` is `HTTP/2`, for instance.
    """

    _fp: Content

    def __init__(self, response: Response, *, method: str, url: str) -> None:
        headers = HTTPHeaderDict()
        for name, value in response.fields:
            headers.add(name, value)
        content = Content(response, headers)
        version, version_string = VERSIONS[response.version]
        super().__init__(
            body=content,  # type: ignore[arg-type] # it has what urllib3 uses of one
            headers=headers,
            status=response.status,
            version=version,
            version_string=version_string,
            reason=response.reason,
            preload_content=False,
            decode_content=False,
            original_response=content,  # type: ignore[arg-type]
            request_method=method,
            request_url=url,
        )
        self.stream_id: int = response.stream_id
        """Id of the request on its connection."""
        self._response = response

    @property
    def trailers(self) -> list[tuple[str, str]]:
        """The fields after the content; empty until its end was read."""
        return self._response.trailers
