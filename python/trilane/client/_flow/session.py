"""What a client's requests have in common, and what is to be done for each.

`Session.begin` gives either a request that is all there is to do, or a `Flow` of steps: redirects,
cookies, authentication, retries. Both faces drive it, each in its own way of waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from os import urandom
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from trilane.client._flow.content import Content, Upload
from trilane.client._flow.origins import Address, parse
from trilane.client._flow.preparing import NO_OPTIONS, Prepared, Settings, as_meant
from trilane.client._flow.repeating import Retries
from trilane.client._flow.request import pairs, with_defaults
from trilane.client._flow.steps import Call, Flow, flow, prepare
from trilane.client._flow.timeouts import Until, timeouts

if TYPE_CHECKING:
    from trilane.client._flow.cookies import Cookies, CookiesGiven
    from trilane.client._flow.forms import Params
    from trilane.client._flow.response import BaseResponse
    from trilane.client.auth import Auth, AuthGiven
    from trilane.client.cached import Cache, CacheGiven

_OF_FLOW: Final = frozenset({"auth", "cookies", "follow_redirects", "retries", "timeout"})
"""Options for which more than one request may have to be sent, or a clock to run."""
_CONTENT: Final = frozenset({"content", "data", "files", "json"})
_NONE_IS_NOTHING: Final = _CONTENT | {
    "cookies",
    "headers",
    "on_informational",
    "params",
    "progress",
}
"""Options for which None says no more than to leave them out."""
Sendable: TypeAlias = Callable[[Any], Content | Upload]


class Session:
    """What a client's requests have in common beyond the fields that are sent with each."""

    def __init__(  # noqa: PLR0913 - each is a setting of its own, by name
        self,
        settings: Settings,
        *,
        base_url: str,
        auth: AuthGiven,
        cookies: CookiesGiven,
        params: Params | None,
        follow_redirects: bool,
        max_redirects: int,
        retries: Retries | int | None,
        cache: CacheGiven = None,
        sendable: Sendable,
    ) -> None:
        """The arguments are explained by `Client`; `sendable` makes content of what it takes."""
        self.settings = settings
        self._sendable = sendable
        self._auth: Auth | None = None
        self._base = ""
        self._cookies: Cookies | None = None
        self._params = ""
        self._given_params = params
        self._follows = follow_redirects
        self._most = max_redirects
        self._retries = Retries.of(retries)
        self._cache = None if cache is None else _cache_of(cache)
        self._plain = False
        if max_redirects < 0:
            raise ValueError(f"max_redirects={max_redirects}: give 0 or more")
        if base_url:
            self.base_url = base_url
        if auth is not None:
            self.auth = auth
        if cookies is not None:
            self.cookies = cookies
        if params is not None:
            self.params = params
        self._look()

    def _look(self) -> None:
        """Whether a request without options is all there is to do for a call."""
        self._plain = not (
            self._base
            or self._params
            or self._auth is not None
            or self._cookies is not None
            or self._follows
            or self._retries.total
            or self._cache is not None
            or self.settings.limits.total is not None
        )

    @property
    def base_url(self) -> str:
        """What stands before a URL that has no host."""
        return self._base

    @base_url.setter
    def base_url(self, url: str) -> None:
        url = str(url)
        if url:
            parse(url)
            url = url.rstrip("/") + "/"
        self._base = url
        self._look()

    @property
    def auth(self) -> Auth | None:
        """Authentication of each request."""
        return self._auth

    @auth.setter
    def auth(self, given: AuthGiven) -> None:
        self._auth = _auth_of(given)
        self._look()

    @property
    def cookies(self) -> Cookies:
        """The cookies, which every response may add to."""
        if self._cookies is None:
            self._cookies = _cookies_of(None)
            self._look()
        return self._cookies

    @cookies.setter
    def cookies(self, given: CookiesGiven) -> None:
        self._cookies = _cookies_of(given)
        self._look()

    @property
    def params(self) -> Params | None:
        """Parameters of each URL."""
        return self._given_params

    @params.setter
    def params(self, given: Params | None) -> None:
        self._given_params = given
        self._params = _query(given)
        self._look()

    @property
    def follow_redirects(self) -> bool:
        """Whether redirects are followed."""
        return self._follows

    @follow_redirects.setter
    def follow_redirects(self, follows: bool) -> None:
        self._follows = follows
        self._look()

    @property
    def max_redirects(self) -> int:
        """How many redirects are followed for one call."""
        return self._most

    @max_redirects.setter
    def max_redirects(self, most: int) -> None:
        self._most = most

    @property
    def retries(self) -> Retries:
        """What is sent again."""
        return self._retries

    @retries.setter
    def retries(self, given: Retries | int | None) -> None:
        self._retries = Retries.of(given)
        self._look()

    def begin(
        self,
        method: str,
        url: str,
        options: Mapping[str, Any],
        *,
        whole: bool,
    ) -> Prepared | Flow:
        """A request that is all there is to do, or a flow.

        `options` are those of `RequestOptions`; `whole` tells whether the content of the response
        is wanted at once.

        Raises:
            InvalidRequest, TypeError, ValueError: an argument is none.
        """
        if options:
            # Programs hand on what they were given, and most were given nothing.
            options = {
                name: value
                for name, value in options.items()
                if value is not None or name not in _NONE_IS_NOTHING
            }
        if self._plain and not options and isinstance(url, str):
            return self.settings.plain(method, url)
        call = self._call(method, url, options, whole=whole)
        if self._plain and _OF_FLOW.isdisjoint(options):
            return prepare(self.settings, call, call.fields)
        return flow(self, call)

    @cached_property
    def name(self) -> str:
        """A name that no other session has, in any process: of those that share a cache."""
        return urandom(16).hex()

    @property
    def jar(self) -> Cookies | None:
        """The cookies, where there were any."""
        return self._cookies

    def notice(self, response: BaseResponse) -> None:
        """Keep the cookies that a response sets."""
        if response.has_field("set-cookie"):
            self.cookies.keep(parse(response.url), response.fields)

    def _call(self, method: str, url: str, options: Mapping[str, Any], *, whole: bool) -> Call:
        get = options.get
        call = Call()
        call.method = as_meant(method)
        call.address = self._address(url, get("params"))
        call.whole = whole
        call.trusted = True
        call.sends = 0
        given = pairs(get("headers"))
        call.content = None
        if not _CONTENT.isdisjoint(options):
            call.content, content_type = _content(options, self._sendable)
            if content_type is not None:
                given = with_defaults([("content-type", content_type)], given)
        authorization = call.address.authorization
        if authorization is not None:
            given = with_defaults([("authorization", authorization)], given)
        fields = self.settings.fields
        call.fields = with_defaults(fields, given) if given else list(fields)
        call.believes = bool(given) or self.settings.believes
        limits = timeouts(get("timeout", ...), self.settings.limits)
        if limits.total is not None and not isinstance(limits, Until):
            limits = Until.begin(limits, time.monotonic)
        call.limits = limits
        call.options = (
            limits,
            get("trailers", ()),
            get("expect_continue", False),
            get("on_informational"),
            get("decode", True),
        )
        if limits is self.settings.limits and call.options[1:] == NO_OPTIONS[1:]:
            call.options = NO_OPTIONS
        call.progress = get("progress")
        call.auth = _auth_of(options["auth"]) if "auth" in options else self._auth
        # What opens a WebSocket looks like a GET here, and says so.
        call.websocket = get("websocket", False)
        call.cache = None if call.websocket else self._cache
        cookies = get("cookies")
        call.cookies = None if cookies is None else _cookies_of(cookies)
        call.follows = get("follow_redirects", self._follows)
        call.retries = Retries.of(options["retries"]) if "retries" in options else self._retries
        return call

    def _address(self, given: Any, params: Params | None) -> Address:
        if isinstance(given, bytes):
            given = given.decode()
        elif not isinstance(given, str) and hasattr(given, "scheme"):
            # Objects of other libraries, which tell the URL as text.
            given = str(given)
        if not isinstance(given, str):
            return parse(given)  # It raises.
        url = given
        if self._base and (url[:1] in {"/", "?"} or "://" not in url.partition("?")[0]):
            url = self._base + url.lstrip("/")
        if self._params:
            url = _with_query(url, self._params)
        if params is not None:
            url = _with_query(url, _query(params))
        return parse(url)


def _content(options: Mapping[str, Any], sendable: Sendable) -> tuple[Content | Upload, str | None]:
    """The content that the options give, and its `content-type` where they tell it."""
    given = [name for name in sorted(_CONTENT) if options.get(name) is not None]
    if len(given) > 1 and given != ["data", "files"]:
        raise TypeError(
            f"{'=, '.join(given)}= are given together: content is one of content=, json=, and data="
            " with files="
        )
    if not given:
        return None, None
    if given == ["content"]:
        return sendable(options["content"]), None
    if given == ["json"]:
        return _json(options["json"]), "application/json"
    from trilane.client._flow.forms import encoded  # noqa: PLC0415 - as above

    return encoded(options.get("data"), options.get("files"))


def _json(value: Any) -> str:
    import json  # noqa: PLC0415 - most requests have none

    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        if "not JSON compliant" not in str(error):
            raise
        raise ValueError(
            "json= has a number that JSON does not have, NaN or an infinity (RFC 8259 §6): give"
            " None or text in its place"
        ) from None


def _auth_of(given: AuthGiven) -> Auth | None:
    if given is None:
        return None
    from trilane.client.auth import auth_of  # noqa: PLC0415 - only with auth=

    return auth_of(given)


def _cache_of(given: CacheGiven) -> Cache | None:
    from trilane.client.cached import Cache  # noqa: PLC0415 - only with cache=, an extra

    return Cache.of(given)


def _cookies_of(given: CookiesGiven) -> Cookies:
    from trilane.client._flow.cookies import Cookies  # noqa: PLC0415 - imports what few need

    return given if isinstance(given, Cookies) else Cookies(given)


def _query(given: Params | None) -> str:
    from trilane.client._flow.forms import query  # noqa: PLC0415 - only with params=

    return query(given)


def _with_query(url: str, added: str) -> str:
    from trilane.client._flow.forms import with_query  # noqa: PLC0415 - only with params=

    return with_query(url, added)
