"""What a client does between a call and its response: redirects, cookies, authentication, retries.

No I/O and no clock of its own. `Session.begin` gives either a request that is all there is to do,
or a `Flow`: a generator that yields what is to be done next and is sent what came of it. Both faces
drive it, each in its own way of waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from trilane.client._flow.content import Content, Upload
from trilane.client._flow.origins import Address, parse
from trilane.client._flow.preparing import NO_OPTIONS, Options, Prepared, Settings, as_meant
from trilane.client._flow.redirects import (
    STATUSES,
    fields_after,
    is_trusted,
    method_after,
    target,
)
from trilane.client._flow.repeating import Retries
from trilane.client._flow.request import Field, pairs, with_defaults
from trilane.client._flow.timeouts import Timeouts, Until, timeouts, total_timeout
from trilane.client.errors import Error, RedirectError, Timeout, TooManyRedirects

if TYPE_CHECKING:
    from trilane.client._flow.cookies import Cookies, CookiesGiven
    from trilane.client._flow.forms import Params
    from trilane.client._flow.response import BaseResponse
    from trilane.client.auth import Auth, AuthGiven, RequestInfo

_NEVER: Final = Retries(0)
_LONGEST_DRAINED: Final = 256 * 1024
"""Bytes of a redirect's content that are read, so that its connection can be used again."""
_OF_FLOW: Final = frozenset({"auth", "cookies", "follow_redirects", "retries", "timeout"})
"""Options for which more than one request may have to be sent, or a clock to run."""
_CONTENT: Final = frozenset({"content", "data", "files", "json"})
_COOKIE: Final = "cookie"
_SET_COOKIE: Final = "set-cookie"
_SET_COOKIE_LENGTH: Final = len(_SET_COOKIE)
_UNAUTHORIZED: Final = 401
# Instead of a number for a test that is to know the pause.
_chance: Callable[[], float] | None = None


class Load(NamedTuple):
    """Read all of the content of a response, whose request may be sent again where that fails."""

    response: Any


class Drain(NamedTuple):
    """Read up to `most` bytes of content that nobody asked for, and close the response."""

    response: Any
    most: int = _LONGEST_DRAINED


Step: TypeAlias = Prepared | Load | Drain | float
"""Send this; or do that; or wait so many seconds."""
Flow: TypeAlias = Generator[Step, Any, Any]
Sendable: TypeAlias = Callable[[Any], Content | Upload]


class _Call:
    """One call of a client's method, and what has become of it."""

    __slots__ = (
        "address",
        "auth",
        "content",
        "cookies",
        "fields",
        "follows",
        "limits",
        "method",
        "options",
        "progress",
        "retries",
        "trusted",
        "whole",
    )

    address: Address
    method: str
    fields: list[Field]
    content: Content | Upload
    options: Options
    limits: Timeouts
    auth: Auth | None
    cookies: Cookies | None
    follows: bool
    retries: Retries
    progress: Any
    whole: bool
    trusted: bool
    """Whether the URL may be told what was meant for the first one."""


class Session:
    """What a client's requests have in common beyond the fields that are sent with each."""

    def __init__(
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
    ) -> None:
        """The arguments are explained by `Client`."""
        self.settings = settings
        self._auth: Auth | None = None
        self._base = ""
        self._cookies: Cookies | None = None
        self._params = ""
        self._given_params = params
        self._follows = follow_redirects
        self._most = max_redirects
        self._retries = Retries.of(retries)
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
        sendable: Sendable,
        *,
        whole: bool,
    ) -> Prepared | Flow:
        """A request that is all there is to do, or a flow.

        `options` are those of `RequestOptions`, `sendable` makes content of what the face takes;
        `whole` tells whether the content of the response is wanted at once.

        Raises:
            InvalidRequest, TypeError, ValueError: an argument is none.
        """
        if self._plain and not options and isinstance(url, str):
            return self.settings.plain(method, url)
        call = self._call(method, url, options, sendable, whole=whole)
        if self._plain and _OF_FLOW.isdisjoint(options):
            return self._prepared(call, call.fields)
        return self._flow(call)

    def notice(self, response: BaseResponse) -> None:
        """Keep the cookies that a response sets."""
        for name, _ in response.fields:
            if len(name) == _SET_COOKIE_LENGTH and name.lower() == _SET_COOKIE:
                self.cookies.keep(parse(response.url), response.fields)
                return

    def _call(
        self,
        method: str,
        url: str,
        options: Mapping[str, Any],
        sendable: Sendable,
        *,
        whole: bool,
    ) -> _Call:
        get = options.get
        call = _Call()
        call.method = as_meant(method)
        call.address = self._address(url, get("params"))
        call.whole = whole
        call.trusted = True
        given = pairs(get("headers"))
        call.content = None
        if not _CONTENT.isdisjoint(options):
            call.content, content_type = _content(options, sendable)
            if content_type is not None:
                given = with_defaults([("content-type", content_type)], given)
        authorization = call.address.authorization
        if authorization is not None:
            given = with_defaults([("authorization", authorization)], given)
        fields = self.settings.fields
        call.fields = with_defaults(fields, given) if given else list(fields)
        limits = timeouts(get("timeout", ...), self.settings.limits)
        if limits.total is not None:
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

    def _prepared(self, call: _Call, fields: list[Field]) -> Prepared:
        prepared = self.settings.complete(
            call.method, call.address, fields, call.content, call.options
        )
        if call.progress is not None:
            prepared.request.tell(call.progress)
        return prepared

    def _flow(self, call: _Call) -> Flow:
        history: list[BaseResponse] = []
        redirects = 0
        while True:
            fields = self._with_cookies(call)
            outgoing = None
            if call.auth is not None and call.trusted:
                outgoing = _outgoing(call, fields)
                call.auth.apply(outgoing)
                fields = list(outgoing.headers.pairs)
            prepared = self._prepared(call, fields)
            response = yield from self._answered(call, prepared)
            self.notice(response)
            if outgoing is not None and call.auth is not None and response.status == _UNAUTHORIZED:
                challenges = response.headers.get_all("www-authenticate")
                again = challenges and prepared.request.replayable
                if again and call.auth.answer(challenges, outgoing):
                    yield Drain(response)
                    history.append(response)
                    call.content = _again(prepared)
                    prepared = self._prepared(call, list(outgoing.headers.pairs))
                    response = yield from self._answered(call, prepared)
                    self.notice(response)
            if not call.follows or response.status not in STATUSES:
                break
            location = response.headers.get("location")
            if location is None:
                break
            yield Drain(response)
            if redirects >= self._most:
                response.history = history
                raise TooManyRedirects(
                    f"{response.url} redirects to {location!r}, after max_redirects={self._most}"
                    " others: allow more, or look at response.history of this error",
                    response=response,
                )
            redirects += 1
            self._redirect(call, prepared, response, location)
            history.append(response)
        if history:
            response.history = history
        return response

    def _redirect(
        self, call: _Call, prepared: Prepared, response: BaseResponse, location: str
    ) -> None:
        """Let the call go where the response sends it."""
        there = target(response, location)
        method = method_after(response.status, call.method)
        same = method == call.method
        if same and not prepared.request.replayable:
            raise RedirectError(
                f"{response.url} redirects {method} with {response.status} to {there.url}, and its"
                " content cannot be read again: give bytes or a file that can seek",
                response=response,
            )
        trusted = is_trusted(call.address.origin, there.origin)
        call.trusted = call.trusted and trusted
        fields = list(call.fields)
        call.fields = fields_after(fields, same_content=same, trusted=trusted)
        if there.authorization is not None:
            added: list[Field] = [("authorization", there.authorization)]
            call.fields = with_defaults(call.fields, added)
        call.content = _again(prepared) if same else None
        if not same:
            timeout, _, _, informational, decode = call.options
            call.options = timeout, (), False, informational, decode
        call.method = method
        call.address = there

    def _answered(self, call: _Call, prepared: Prepared) -> Generator[Step, Any, BaseResponse]:
        """The response to one request, which may be sent several times for it."""
        request, limits, retries = prepared.request, call.limits, call.retries
        done = 0
        while True:
            pause: float | None
            try:
                response: BaseResponse = yield prepared
                if call.whole and retries.total:
                    yield Load(response)
            except Error as error:
                if isinstance(error, Timeout) and limits.is_over():
                    raise total_timeout(call.address.url, limits.total) from error
                pause = retries.after_error(error, request, done, _drawn(retries))
                if pause is None or not _has_time(limits, pause):
                    raise
            else:
                if response.status not in retries.statuses or done >= retries.total:
                    return response
                pause = retries.after_status(
                    response.status,
                    response.headers.get("retry-after"),
                    request,
                    done,
                    chance=_drawn(retries),
                    now=time.time(),
                )
                if pause is None or not _has_time(limits, pause):
                    return response
                yield Drain(response)
            done += 1
            if pause:
                yield pause

    def _with_cookies(self, call: _Call) -> list[Field]:
        """The fields of the call, and `cookie` where one is to be sent."""
        jar, own = self._cookies, call.cookies if call.trusted else None
        if jar is None and own is None:
            return call.fields
        if any(_is_cookie(name) for name, _ in call.fields):
            return call.fields  # The caller's own field is what is sent.
        value = None if jar is None else jar.header(call.address)
        if own is not None:
            mine = own.header(call.address)
            if mine and value:
                names = {each.partition("=")[0] for each in mine.split("; ")}
                kept = [each for each in value.split("; ") if each.partition("=")[0] not in names]
                value = "; ".join([*kept, mine])
            else:
                value = mine or value
        return [*call.fields, (_COOKIE, value)] if value else call.fields


def _is_cookie(name: str | bytes) -> bool:
    return len(name) == len(_COOKIE) and name.lower() in {"cookie", b"cookie"}


def _has_time(limits: Timeouts, pause: float) -> bool:
    """Whether a pause ends before the time for the whole request does."""
    return not isinstance(limits, Until) or pause < limits.left()


def _again(prepared: Prepared) -> Content | Upload:
    """The content of a request, to be sent once more."""
    request = prepared.request
    return request.body if request.upload is None else request.upload


def _drawn(retries: Retries) -> float:
    if not retries.total:
        return 0.0
    if _chance is not None:
        return _chance()
    from random import random  # noqa: PLC0415 - only where something went wrong

    return random()  # noqa: S311 - not a secret


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
        import json  # noqa: PLC0415 - most requests have none

        return json.dumps(options["json"], separators=(",", ":")), "application/json"
    from trilane.client._flow.forms import encoded  # noqa: PLC0415 - as above

    return encoded(options.get("data"), options.get("files"))


def _outgoing(call: _Call, fields: list[Field]) -> RequestInfo:
    from trilane.client.auth import RequestInfo  # noqa: PLC0415 - only with auth=
    from trilane.client.fields import MutableHeaders  # noqa: PLC0415

    address = call.address
    return RequestInfo(call.method, address.url, address.target, MutableHeaders(fields))


def _auth_of(given: AuthGiven) -> Auth | None:
    if given is None:
        return None
    from trilane.client.auth import auth_of  # noqa: PLC0415 - only with auth=

    return auth_of(given)


def _cookies_of(given: CookiesGiven) -> Cookies:
    from trilane.client._flow.cookies import Cookies  # noqa: PLC0415 - imports what few need

    return given if isinstance(given, Cookies) else Cookies(given)


def _query(given: Params | None) -> str:
    from trilane.client._flow.forms import query  # noqa: PLC0415 - only with params=

    return query(given)


def _with_query(url: str, added: str) -> str:
    from trilane.client._flow.forms import with_query  # noqa: PLC0415 - only with params=

    return with_query(url, added)
