"""Keywords that a method does not have: an error that names each of them, and what to write.

Python's own error names the keyword alone, and those who come from another library look for what it
is called here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Never

_CONTENT: Final = (
    "bytes, text, files and iterables are content=, what becomes JSON is json=, a form is data=,"
    " and files of a form are files="
)
_REDIRECTS: Final = "use follow_redirects="
_STREAM: Final = "content is left unread by the method stream()"
_TLS: Final = "an ssl.SSLContext, or a file of authorities, is {client}(verify=...)"
_VERSIONS: Final = 'versions of HTTP are {client}(versions=("h3", "h2", "h1"))'
_BASE: Final = "each request has its whole URL, or {client}(base_url=...) stands before it"

_ELSEWHERE: Final = {
    "allow_redirects": _REDIRECTS,
    "body": _CONTENT,
    "ca": _TLS,
    "context": _TLS,
    "decode_content": "use decode=",
    "fields": "use params= for the query, data= or files= for a form",
    "hooks": 'use {client}(event_hooks={{"response": [...]}})',
    "http1": _VERSIONS,
    "http2": _VERSIONS,
    "http3": _VERSIONS,
    "limits": "use {client}(max_connections=..., max_per_origin=..., idle_timeout=...)",
    "local_address": "use {client}(source=(address, 0))",
    "max_retries": "use retries=",
    "mounts": "proxies are {client}(proxies=...), and there are no transports to mount",
    "preload_content": _STREAM,
    "proxy": "use {client}(proxies=...)",
    "redirect": _REDIRECTS,
    "ssl_context": _TLS,
    "stream": _STREAM,
    "transport": "put this client under HTTPX with trilane.client.httpx.Transport instead",
    "trust_env": (
        "with {client}(proxies=None) no proxy is read from the environment, and .netrc only with"
        " auth=NetRCAuth()"
    ),
    "uds": "use {client}(unix=...)",
}
"""What others have by these names, and how it is had here; `{client}` is the class."""
_OF_ANY_METHOD: Final = frozenset({"stream", "send", "get_all"})
"""What is not the name of a method of HTTP."""

_ATTRIBUTES: Final = {
    "aiter_text": "use aiter_lines(), or text",
    "aiter_content": "use aiter_bytes(size)",
    "apparent_encoding": "use encoding, which can be set, or Client(default_encoding=...)",
    "build_request": "use request(), or send() for exactly the fields that are given",
    "cert": "use {client}(cert=...)",
    "event_hooks": _ELSEWHERE["hooks"],
    "extensions": "version, stream_id, peer and tls_info are attributes",
    "has_redirect_location": "use is_redirect",
    "get_all": "use asyncio.gather() over get(), or a TaskGroup",
    "hooks": _ELSEWHERE["hooks"],
    "http_version": 'use version, which is "h1", "h2", "h3" or "h1.0"',
    "is_client_error": "compare status, or use raise_for_status()",
    "is_error": "use ok, which is false from 400 on",
    "is_informational": "compare status",
    "is_permanent_redirect": "compare status with 301 and 308",
    "is_server_error": "compare status, or use raise_for_status()",
    "is_stream_consumed": "use is_closed",
    "iter_content": "use iter_bytes(size)",
    "iter_text": "use iter_lines(), or text",
    "mount": _ELSEWHERE["mounts"],
    "next": "follow_redirects= follows it; where it leads is headers['location']",
    "next_request": "follow_redirects= follows it; where it leads is headers['location']",
    "num_bytes_downloaded": "count what iter_raw() gives",
    "proxies": "use {client}(proxies=...)",
    "raw": "use read(), or iter_raw() for content as it was sent",
    "reason_phrase": "use reason",
    "stream": "use stream() of the client, and iter_bytes()",
    "timeout": "use {client}(timeout=...), or timeout= of a request",
    "trust_env": "with {client}(proxies=None) no proxy is read from the environment",
    "verify": "use {client}(verify=...)",
}
"""What others have by these names on clients and responses, and how it is had here."""


def refuse(client: type, method: str, unknown: Iterable[str]) -> Never:
    """Raise TypeError for keywords that this method of the client was given and does not have."""
    where = client.__name__ if method == "__init__" else f"{client.__name__}.{method}"
    ways = (f"no {keyword}=: {_way_out(client, method, keyword)}" for keyword in sorted(unknown))
    raise TypeError(f"{where}() takes {'; '.join(ways)}")


def refuse_positional(client: type, method: str, more: tuple[object, ...]) -> Never:
    """Raise TypeError for arguments by position that this method of the client does not have."""
    own = _optional(getattr(client, method))
    names = [name for name in ("params", "json", "data", "headers", "timeout") if name in own]
    firsts = {"request": "method and URL", "stream": "method and URL"}
    has = firsts.get(method) or ("URL and content" if "json" in own else "the URL")
    raise TypeError(
        f"{client.__name__}.{method}() takes {has} by position, and then {more[0]!r:.40} was given:"
        f" give it by name, as {'=, '.join(names)}= or another"
    )


def refuse_attribute(owner: object, name: str) -> Never:
    """Raise AttributeError for what a client or a response does not have."""
    kind = type(owner).__name__
    message = f"{kind!r} object has no attribute {name!r}"
    if name in _ATTRIBUTES:
        message += f": {_ATTRIBUTES[name].format(client=kind)}"
    else:
        # asyncio's classes have names of their own for what is awaited.
        twin = name[1:] if name.startswith("a") else f"a{name}"
        if callable(getattr(type(owner), twin, None)):
            message += f": use {twin}()"
    raise AttributeError(message, name=name, obj=owner)


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

    given = signature(function).parameters.values()  # The options one by one, by `shown`.
    return [each.name for each in given if each.default is not Parameter.empty]
