"""`HTTP20Adapter`: a session of Requests over HTTP/2, or HTTP/1.1 where the server has no other."""

from __future__ import annotations

from typing import Any

from trilane.client.requests import TrilaneAdapter

__all__ = ["HTTP20Adapter"]


class HTTP20Adapter(TrilaneAdapter):
    """`TrilaneAdapter` without HTTP/3, by the name that hyper's adapter has.

    Unlike that, it obeys `verify`, `cert`, `timeout` and `proxies` of the session.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Arguments are those of `TrilaneAdapter`.

        Raises:
            ValueError: `window_manager` is given, which is not obeyed.
        """
        if options.pop("window_manager", None) is not None:
            raise ValueError("window_manager cannot be obeyed: windows are managed natively")
        super().__init__(*arguments, **{"versions": ("h2", "h1"), **options})
