"""`Response.raw`: urllib3's response over the content of one of our exchanges."""

from __future__ import annotations

from collections.abc import Callable, Generator
from http.client import HTTPException
from typing import TYPE_CHECKING, Final

from urllib3 import HTTPHeaderDict
from urllib3.response import HTTPResponse

if TYPE_CHECKING:
    from trilane.client._flow.watching import Timings, Traffic
    from trilane.client._pool.response import Response

VERSIONS: Final = {
    "h1.0": (10, "HTTP/1.0"),
    "h1": (11, "HTTP/1.1"),
    "h2": (20, "HTTP/2"),
    "h3": (30, "HTTP/3"),
}
"""What `version` and `version_string` of urllib3 are, by our names."""
BLOCK: Final = 65536
"""Bytes that `stream` gives at a time, where nothing else is asked for: as urllib3 does."""


class Content:
    """The content as it came, undecoded: what an `http.client.HTTPResponse` is to urllib3.

    It closes itself at its end, as that does. `msg` has the fields, for cookie jars.
    """

    def __init__(self, response: Response, headers: HTTPHeaderDict, version: int) -> None:
        self._response = response
        self.closed = False
        """Whether there is nothing more to read: the end was reached, or `close` was called."""
        self.msg = self.headers = headers
        self.status = response.status
        self.reason = response.reason
        self.version = version

    def isclosed(self) -> bool:
        """`closed`, as http.client spells it."""
        return self.closed

    def read(self, amount: int | None = None) -> bytes:
        """Up to `amount` bytes, fewer only at the end; None: all that follows."""
        return self._taken(self._response.read, amount)

    def read1(self, amount: int | None = None) -> bytes:
        """What is there, up to `amount` bytes; waits only for the first; empty at the end."""
        return self._taken(self._response.read1, amount)

    def _taken(self, read: Callable[[int], bytes], amount: int | None) -> bytes:
        if self.closed:
            return b""
        data = read(-1 if amount is None else amount)
        if self._response.is_closed:
            self.close()
        return data

    def close(self) -> None:
        """Cancel what did not arrive yet. Idempotent."""
        self.closed = True
        self._response.close()


class RawResponse(HTTPResponse):
    """urllib3's response, as users of Requests know it, with some attributes more.

    `version` is 10, 11, 20 or 30; `version_string` is `HTTP/2`, for instance.
    """

    stream_id: int
    """Id of the request on its connection; with HTTP/1.1 the how-manyth it was."""

    def __init__(self, response: Response, *, method: str, url: str) -> None:
        headers = HTTPHeaderDict()
        for name, value in response.fields:
            headers.add(name, value)
        version, version_string = VERSIONS[response.version]
        content = Content(response, headers, version)
        super().__init__(
            body=content,  # type: ignore[arg-type] # it has what urllib3 uses of a file
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
        self.stream_id = response.stream_id
        self._content = content
        self._response = response

    @property
    def trailers(self) -> list[tuple[str, str]]:
        """The fields after the content; empty before its end was read."""
        return list(self._response.trailers.pairs)

    @property
    def timings(self) -> Timings | None:
        """Where the time went so far; None unless the adapter was made with `timings=True`."""
        return self._response.timings

    @property
    def traffic(self) -> Traffic | None:
        """The bytes so far; None unless the adapter was made with `timings=True`."""
        return self._response.traffic

    def stream(
        self, amt: int | None = BLOCK, decode_content: bool | None = None
    ) -> Generator[bytes]:
        """The content in pieces of `amt` bytes, the last one shorter; errors are urllib3's.

        Where the length was not announced, a piece is given as soon as something is there, and may
        be shorter: so an endless response is seen while it is made. urllib3 does the same for each
        chunk of HTTP/1.1; HTTP/2 and HTTP/3 have none.
        """  # noqa: DOC501 - what is raised is made urllib3's
        if amt == 0:
            return
        if self.length_remaining is not None:
            if "content-encoding" in self.headers or amt is None or amt < 0:
                yield from super().stream(amt, decode_content)
                return
            read = self._content.read
        elif "content-encoding" in self.headers:
            yield from self._decoded(amt, decode_content)
            return
        else:
            read = self._content.read1
        # What urllib3's `read` comes to where nothing is decoded, in a fifth of the time: Requests
        # asks for 10 KiB at a time.
        while not self._content.closed:
            try:
                data = read(amt)
            except (HTTPException, OSError):
                with self._error_catcher():
                    raise
            if data:
                self._fp_bytes_read += len(data)
                if self.length_remaining is not None:
                    self.length_remaining -= len(data)
                yield data

    def _decoded(self, amt: int | None, decode_content: bool | None) -> Generator[bytes]:
        """Pieces of content of unknown length, as soon as they are there."""
        while (
            not self._content.closed
            or len(self._decoded_buffer)
            or (self._decoder and self._decoder.has_unconsumed_tail)
        ):
            data = self.read1(amt, decode_content)
            if data:
                yield data
