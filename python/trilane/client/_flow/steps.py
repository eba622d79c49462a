"""What is to be done for one call, step by step: what a face sends, reads or waits for next.

A `Flow` is a generator that yields a step and is sent what came of it, or is thrown an `Error`; it
returns the response. No I/O and no clock of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from trilane.client._flow.content import Content, Upload
from trilane.client._flow.origins import Address
from trilane.client._flow.preparing import Options, Prepared, Settings
from trilane.client._flow.redirects import (
    STATUSES,
    fields_after,
    is_trusted,
    method_after,
    target,
)
from trilane.client._flow.repeating import Retries
from trilane.client._flow.request import Field, with_defaults
from trilane.client._flow.timeouts import Timeouts, Until, total_timeout
from trilane.client.errors import Error, RedirectError, Timeout, TooManyRedirects

if TYPE_CHECKING:
    from trilane.client._flow.cookies import Cookies
    from trilane.client._flow.response import BaseResponse
    from trilane.client.auth import Auth, RequestInfo
    from trilane.client.cached import Cache

_LONGEST_DRAINED: Final = 256 * 1024
"""Bytes of a redirect's content that are read, so that its connection can be used again."""
_COOKIE: Final = "cookie"
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


class CacheStep:
    """Something that a cache wants done; `caching` has what there is."""

    __slots__ = ("cache",)

    def __init__(self, cache: Cache) -> None:
        self.cache = cache


Step: TypeAlias = Prepared | Load | Drain | CacheStep | float
"""Send this; or do that; or wait so many seconds."""
Flow: TypeAlias = Generator[Step, Any, Any]


class Call:
    """One call of a client's method, and what has become of it."""

    __slots__ = (
        "address",
        "auth",
        "believes",
        "cache",
        "content",
        "cookies",
        "fields",
        "follows",
        "limits",
        "method",
        "options",
        "progress",
        "retries",
        "sends",
        "trusted",
        "websocket",
        "whole",
    )

    address: Address
    method: str
    fields: list[Field]
    content: Content | Upload
    options: Options
    limits: Timeouts
    auth: Auth | None
    believes: bool
    """Whether some of the fields may say how to send."""
    cache: Cache | None
    cookies: Cookies | None
    follows: bool
    retries: Retries
    progress: Any
    sends: int
    """How often a request was sent for it."""
    websocket: bool
    """Whether it opens a WebSocket."""
    whole: bool
    trusted: bool
    """Whether the URL may be told what was meant for the first one."""


class Asked(Protocol):
    """What a flow has to know of its client's session."""

    settings: Settings

    @property
    def jar(self) -> Cookies | None:
        """The cookies, where there were any."""

    @property
    def max_redirects(self) -> int:
        """How many redirects are followed for one call."""

    @property
    def name(self) -> str:
        """A name that no other session has, in any process."""

    def notice(self, response: BaseResponse) -> None:
        """Keep the cookies that a response sets."""


def prepare(settings: Settings, call: Call, fields: list[Field]) -> Prepared:
    """The request of a call, with these fields."""
    believes = call.believes or call.auth is not None
    prepared = settings.complete(
        call.method, call.address, fields, call.content, call.options, believes=believes
    )
    if call.progress is not None:
        prepared.request.tell(call.progress)
    return prepared


def flow(session: Asked, call: Call) -> Flow:
    """All that is done for a call."""
    settings = session.settings
    history: list[BaseResponse] = []
    redirects = 0
    while True:
        fields = _with_cookies(session.jar, call)
        outgoing = None
        if call.auth is not None and call.trusted:
            outgoing = _outgoing(call, fields)
            call.auth.apply(outgoing)
            fields = list(outgoing.headers.pairs)
        prepared = prepare(settings, call, fields)
        response = yield from _answered(session, call, prepared)
        if outgoing is not None and call.auth is not None and response.status == _UNAUTHORIZED:
            challenges = response.headers.get_all("www-authenticate")
            again = challenges and prepared.request.replayable
            if again and call.auth.answer(challenges, outgoing):
                yield Drain(response)
                history.append(response)
                call.content = _again(prepared)
                prepared = prepare(settings, call, list(outgoing.headers.pairs))
                response = yield from _answered(session, call, prepared)
        if not call.follows or response.status not in STATUSES:
            break
        location = response.headers.get("location")
        if location is None:
            break
        yield Drain(response)
        most = session.max_redirects
        if redirects >= most:
            response.history = history
            raise TooManyRedirects(
                f"{response.url} redirects to {location!r}, after max_redirects={most} others:"
                " allow more, or look at response.history of this error",
                response=response,
            )
        redirects += 1
        _redirect(call, prepared, response, location)
        history.append(response)
    if history:
        response.history = history
    return response


def _redirect(call: Call, prepared: Prepared, response: BaseResponse, location: str) -> None:
    """Let the call go where the response sends it."""
    there = target(response, location, websocket=call.websocket)
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


def _answered(  # noqa: C901, PLR0912 - one attempt after another
    session: Asked, call: Call, prepared: Prepared
) -> Generator[Step, Any, BaseResponse]:
    """The response to one request, which may be sent several times for it."""
    request, limits, retries = prepared.request, call.limits, call.retries
    done = 0
    while True:
        pause: float | None
        if call.sends and prepared.how.watch is not None:
            prepared = prepared._replace(how=prepared.how._replace(resends=call.sends))
        call.sends += 1
        try:
            if call.cache is None:
                response: BaseResponse = yield prepared
                session.notice(response)
            else:
                response = yield from _cached(call.cache, prepared, session)
                if response.from_cache and not response.revalidated:
                    call.sends -= 1
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


def _cached(cache: Cache, prepared: Prepared, session: Asked) -> Generator[Step, Any, BaseResponse]:
    from trilane.client._flow.caching import ask  # noqa: PLC0415 - only with cache=

    return (yield from ask(cache, prepared, session.notice, session.name))


def _with_cookies(jar: Cookies | None, call: Call) -> list[Field]:
    """The fields of the call, and `cookie` where one is to be sent."""
    own = call.cookies if call.trusted else None
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


def _outgoing(call: Call, fields: list[Field]) -> RequestInfo:
    from trilane.client.auth import RequestInfo  # noqa: PLC0415 - only with auth=
    from trilane.client.fields import MutableHeaders  # noqa: PLC0415

    address = call.address
    return RequestInfo(call.method, address.url, address.target, MutableHeaders(fields))
