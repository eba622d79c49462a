"""What an open WebSocket tells of itself, whoever drives it. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilane.client._flow.response import BaseResponse
    from trilane.client._flow.websocket import Talk
    from trilane.client.fields import Headers


class BaseSocket:
    """An open WebSocket, made of the response to its handshake."""

    def __init__(self, response: BaseResponse, talk: Talk) -> None:
        self._answer = response
        self._talk = talk

    @property
    def url(self) -> str:
        """The URL that it was opened at."""
        return self._talk.url

    @property
    def version(self) -> str:
        """`h1`, `h2` or `h3`."""
        return self._answer.version

    @property
    def headers(self) -> Headers:
        """The fields of the server's answer to the handshake."""
        return self._answer.headers

    @property
    def subprotocol(self) -> str | None:
        """What the server chose of the subprotocols; None where it chose none."""
        return self._talk.subprotocol

    @property
    def extensions(self) -> list[str]:
        """Names of the extensions that are in use, such as `permessage-deflate`."""
        return self._talk.extensions

    @property
    def close_code(self) -> int | None:
        """The code with which it ended (RFC 6455 §7.4); None before."""
        return self._talk.code

    @property
    def close_reason(self) -> str:
        """The server's reason for the end; empty where it gave none."""
        return self._talk.reason

    def __repr__(self) -> str:
        state = "open" if self._talk.is_open else f"closed {self.close_code or ''}".rstrip()
        return f"<{type(self).__name__} {state} {self.version} {self.url}>"
