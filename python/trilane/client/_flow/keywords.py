"""Keywords that a method does not have: an error that names each of them, and what to write.

Python's own error names the keyword alone, and those who come from another library look for what it
is called here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Never

_ADAPTERS: Final = "on the adapters trilane.client.requests and trilane.client.httpx"
_CONTENT: Final = (
    "bytes, text, files and iterables are content=, what becomes JSON is json=, a form is"
    " content=urllib.parse.urlencode(form) with its content-type in headers="
)
_FILES: Final = f"a file is content=file; Requests and HTTPX make forms of several, {_ADAPTERS}"
_REDIRECTS: Final = f"no redirect is followed here; Requests and HTTPX do it, {_ADAPTERS}"
_STREAM: Final = "content is left unread by the method stream()"
_TLS: Final = "an ssl.SSLContext, or a file of authorities, is {client}(verify=...)"
_VERSIONS: Final = 'versions of HTTP are {client}(versions=("h3", "h2", "h1"))'

_ELSEWHERE: Final = {
    "allow_redirects": _REDIRECTS,
    "auth": (
        "user and password go into the URL, https://user:password@host/, or into the field"
        " authorization in headers="
    ),
    "base_url": "each request has its whole URL",
    "body": _CONTENT,
    "ca": _TLS,
    "context": _TLS,
    "cookies": (
        f"the field cookie goes into headers=; Requests and HTTPX keep cookies, {_ADAPTERS}"
    ),
    "data": _CONTENT,
    "decode_content": "use decode=",
    "files": _FILES,
    "follow_redirects": _REDIRECTS,
    "hooks": 'use {client}(event_hooks={{"response": [...]}})',
    "http1": _VERSIONS,
    "http2": _VERSIONS,
    "http3": _VERSIONS,
    "limits": "use {client}(max_connections=..., max_per_origin=..., idle_timeout=...)",
    "local_address": "use {client}(source=(address, 0))",
    "params": 'they are part of the URL: url + "?" + urllib.parse.urlencode(params)',
    "preload_content": _STREAM,
    "proxy": "use {client}(proxies=...)",
    "redirect": _REDIRECTS,
    "ssl_context": _TLS,
    "stream": _STREAM,
    "trust_env": "with {client}(proxies=None) no proxy is read from the environment",
    "uds": "use {client}(unix=...)",
}
"""What others have by these names, and how it is had here; `{client}` is the class."""
_OF_ANY_METHOD: Final = frozenset({"stream", "send", "get_all"})
"""What is not the name of a method of HTTP."""


def refuse(client: type, method: str, unknown: Iterable[str]) -> Never:
    """Raise TypeError for keywords that this method of the client was given and does not have."""
    where = client.__name__ if method == "__init__" else f"{client.__name__}.{method}"
    ways = (f"no {keyword}=: {_way_out(client, method, keyword)}" for keyword in unknown)
    raise TypeError(f"{where}() takes {'; '.join(ways)}")


def _way_out(client: Any, method: str, keyword: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only for errors

    if keyword in _ELSEWHERE:
        return _ELSEWHERE[keyword].format(client=client.__name__)
    if keyword in _optional(client.__init__):
        return f"it is a setting of the client, {client.__name__}({keyword}=...)"
    if keyword in _optional(client.request):
        if method == "__init__":
            return "it is an option of each request"
        name = "method" if method in _OF_ANY_METHOD else f'"{method.upper()}"'
        return f"use request({name}, url, {keyword}=...)"
    own = _optional(getattr(client, method))
    similar = get_close_matches(keyword, own, 1)
    return f"use {similar[0]}=" if similar else f"there are {'=, '.join(own)}="


def _optional(function: Callable[..., object]) -> list[str]:
    from inspect import Parameter, signature  # noqa: PLC0415 - only for errors

    given = signature(function).parameters.values()
    return [each.name for each in given if each.default is not Parameter.empty]
