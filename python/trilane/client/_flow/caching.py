"""What is asked of a cache, and what is answered from it (RFC 9111). No I/O.

What may be stored, reused and validated is decided by hishel's states, which this walks through. A
face calls the storage, sends what is not there, and makes the responses that a cache gives.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator, Iterator
from email.utils import formatdate, parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hishel import (
    CacheMiss,
    CouldNotBeStored,
    FromCache,
    Headers,
    IdleClient,
    InvalidateEntries,
    NeedRevalidation,
    NeedToBeUpdated,
    StoreAndUse,
)
from hishel import Request as Asked
from hishel import Response as Answer

from trilane.client._flow.request import SECRETS, Request, lower, with_defaults
from trilane.client._flow.steps import CacheStep, Drain, Step

if TYPE_CHECKING:
    from hishel import AnyState, Entry

    from trilane.client._flow.preparing import Prepared
    from trilane.client._flow.response import BaseResponse
    from trilane.client.cached import Cache

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_STORED: Final = frozenset({"GET", "HEAD"})
_OWN_CONDITIONS: Final = frozenset(
    {"if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range"}
)
"""Fields of a caller who has a copy of its own: Fetch lets such requests pass by the cache too."""
_CONDITIONS: Final = ("if-none-match", "if-modified-since")
"""What validates a stored response."""
_USEFUL: Final = frozenset({"etag", "expires", "last-modified"})
"""Fields of a response that tell how long it is fresh, or let it be validated."""
_WHOSE: Final = "authorization"
_COOKIE: Final = "cookie"
_CLIENT: Final = "x-trilane-client"
"""Of a stored request that had no cookies, or brought some: the client that sent it."""
_NOT_MODIFIED: Final = 304
_GATEWAY_TIMEOUT: Final = 504

Notice = Callable[["BaseResponse"], object]


class StorageCall(CacheStep):
    """Call this method of the cache's storage; what it gives is sent back."""

    __slots__ = ("arguments", "method")

    def __init__(self, cache: Cache, method: str, *arguments: Any) -> None:
        super().__init__(cache)
        self.method = method
        self.arguments = arguments


class Answered(CacheStep):
    """Make a response of what is stored."""

    __slots__ = ("kept",)

    def __init__(self, cache: Cache, kept: Kept) -> None:
        super().__init__(cache)
        self.kept = kept


class Save(CacheStep):
    """Store a response while its content is read: make one of it that does so."""

    __slots__ = ("answer", "asked", "key", "response")

    def __init__(self, cache: Cache, response: Any, asked: Asked, answer: Answer, key: str) -> None:
        super().__init__(cache)
        self.response = response
        self.asked = asked
        self.answer = answer
        self.key = key


class Kept(NamedTuple):
    """A response that does not come from a connection."""

    prepared: Prepared
    status: int
    fields: list[tuple[str, str]]
    stream: Any
    """The storage's: an iterator of the content as it was sent, of its kind."""
    from_cache: bool = True
    revalidated: bool = False
    """Whether the server said that it is still valid."""

    @property
    def state(self) -> dict[str, Any]:
        """What a response keeps that has no connection."""
        return {
            "method": self.prepared.request.method,
            "version": "cache",
            "stream_id": 0,
            "cached": (self.from_cache, self.revalidated),
        }


class Feed:
    """An iterable of pieces, each of which is there when it is asked for; the last one is empty."""

    def __init__(self) -> None:
        self.piece = b""

    def __iter__(self) -> Iterator[bytes]:
        while piece := self.piece:
            yield piece


def ask(
    cache: Cache, prepared: Prepared, notice: Notice, client: str
) -> Generator[Step, Any, BaseResponse]:
    """The response to a request, from the cache where it has one that may be used.

    `notice` is told of each response of the server; `client` is a name of its own for who asks.
    """
    request = prepared.request
    directives = _directives(request)
    names = {lower(name) for name, _ in request.fields}
    passes_by = "no-store" in directives or not _OWN_CONDITIONS.isdisjoint(names)
    if request.method in _SAFE:
        passes_by = passes_by or request.method not in _STORED
        # RFC 9110 §9.3.1: content of a GET has no defined meaning, and is not in the key.
        passes_by = passes_by or request.body is not None or request.is_streaming
    elif passes_by or request.method not in _SAFE:
        return (yield from _unsafe(cache, prepared, notice))
    if passes_by:
        response: BaseResponse = yield prepared
        notice(response)
        return response
    return (yield from _stored(cache, prepared, directives, notice, client))


def _unsafe(cache: Cache, prepared: Prepared, notice: Notice) -> Generator[Step, Any, BaseResponse]:
    """The server's response; what it makes invalid is removed (RFC 9111 §4.4)."""
    response: BaseResponse = yield prepared
    notice(response)
    key, asked = _key(prepared), _asked(prepared)
    entries = yield StorageCall(cache, "get_entries", key)
    state: AnyState = IdleClient(options=cache.options).next(asked, entries)
    if isinstance(state, CacheMiss):
        state = state.next(_answer(response))
    if isinstance(state, InvalidateEntries):
        for entry in state.entry_ids:
            yield StorageCall(cache, "remove_entry", entry)
    return response


def _stored(  # noqa: C901, PLR0912 - one state after another
    cache: Cache, prepared: Prepared, directives: dict[str, str], notice: Notice, client: str
) -> Generator[Step, Any, BaseResponse]:
    key, asked = _key(prepared), _asked(prepared)
    found = yield StorageCall(cache, "get_entries", key)
    entries = [entry for entry in found if _is_for(entry, asked)]
    if not cache.options.get("shared"):
        entries = _of_user(entries, asked, client)
    idle = IdleClient(options=cache.options)
    state: AnyState = idle.next(asked, entries)
    if isinstance(state, FromCache) and _is_too_old(state.entry, directives):
        state = idle.next(_revalidating(asked), entries)
    if "only-if-cached" in directives and not isinstance(state, FromCache):
        # RFC 9111 §5.2.1.7.
        kept = Kept(prepared, _GATEWAY_TIMEOUT, [("content-length", "0")], iter(()), False)
        response: BaseResponse = yield Answered(cache, kept)
        return response
    revalidated, validated = False, list[Any]()
    while True:
        if isinstance(state, NeedRevalidation | CacheMiss):
            validates = isinstance(state, NeedRevalidation)
            sent = _conditional(prepared, state.request) if validates else prepared
            response = yield sent
            notice(response)
            revalidated = validates and response.status == _NOT_MODIFIED
            validated = entries if validates and response.is_success else []
            state = state.next(_answer(response))
            if revalidated:
                yield Drain(response)
        elif isinstance(state, InvalidateEntries):
            for entry in state.entry_ids:
                yield StorageCall(cache, "remove_entry", entry)
            state = state.next()
        elif isinstance(state, NeedToBeUpdated):
            for updated in state.updating_entries:
                headers = updated.response.headers
                yield StorageCall(cache, "update_headers", updated.id, headers)
            state = state.next()
        elif isinstance(state, FromCache):
            answer = state.entry.response
            fields = _pairs(answer.headers)
            kept = Kept(
                prepared, answer.status_code, fields, answer.stream, revalidated=revalidated
            )
            response = yield Answered(cache, kept)
            return response
        elif isinstance(state, StoreAndUse) and _is_of_use(cache, state.response):
            for entry in validated:
                # What the server gave takes their place: it may be of the same second.
                yield StorageCall(cache, "remove_entry", entry.id)
            stored = _to_be_stored(asked, state.response, client)
            response = yield Save(cache, response, stored, state.response, key)
            return response
        else:
            assert isinstance(state, CouldNotBeStored | StoreAndUse)  # noqa: S101 - what is left
            return response


def _key(prepared: Prepared) -> str:
    """What hishel's own clients store the URL under, so that they can share a file with ours."""
    return hashlib.sha256(f"RFC {prepared.address.url}".encode()).hexdigest()


def _asked(prepared: Prepared) -> Asked:
    """The request as hishel knows it; of secrets there are digests."""
    fields: dict[str, list[str]] = {}
    for name, value in prepared.request.fields:
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        known = lower(name)
        if known == _COOKIE:
            # A jar has them in the order in which they came.
            text = "; ".join(sorted(text.split("; ")))
        if known in SECRETS:
            text = hashlib.sha256(text.encode()).hexdigest()
        fields.setdefault(known, []).append(text)
    return Asked(prepared.request.method, prepared.address.url, Headers(fields))


def _to_be_stored(asked: Asked, answer: Answer, client: str) -> Asked:
    """The request with the fields alone that decide whether another one is answered alike."""
    names = {*_varying(answer), _WHOSE, _COOKIE}
    kept = {name: asked.headers.get_list(name) or [] for name in names}
    if not kept[_COOKIE] or "set-cookie" in answer.headers:
        kept[_CLIENT] = [client]
    return Asked(asked.method, asked.url, Headers({n: v for n, v in kept.items() if v}))


def _varying(answer: Answer) -> list[str]:
    """The names in `vary`."""
    names = (name.strip().lower() for name in answer.headers.get("vary", "").split(","))
    return [name for name in names if name]


def _of_user(entries: list[Entry], asked: Asked, client: str) -> list[Entry]:
    """Those of a private cache that are not what another user was answered.

    Clients that share one may be of several users, and one client may be given another user's
    cookies for a request. So what was asked for with cookies is for the same cookies, and what
    was asked for without is for requests without. What brought cookies is for the client that
    asked; so is, for requests that have got cookies since, what was asked for without. What is
    `public` is for all.
    """
    ours = asked.headers.get_list(_COOKIE) or []
    alike: list[Entry] = []
    others: list[Entry] = []
    for entry in entries:
        there, answer = entry.request.headers, entry.response
        theirs = there.get_list(_COOKIE) or []
        directives = answer.headers.get("cache-control", "").lower().split(",")
        if "public" in map(str.strip, directives):
            others.append(entry)
        elif theirs == ours and (
            there.get(_CLIENT) == client or "set-cookie" not in answer.headers
        ):
            alike.append(entry)
        elif not theirs and there.get(_CLIENT) == client:
            others.append(entry)
    return alike or others


def _is_for(entry: Entry, asked: Asked) -> bool:
    """Whether an entry is for such a request, fresh or not.

    Those that `vary` keeps from it are not validated either: by `last-modified` a server would
    confirm what another request was answered. Nor is what somebody else was answered, although a
    private cache might: a client may have several users.
    """
    there = entry.request
    if there.url != asked.url or there.method != asked.method:
        return False
    names = _varying(entry.response)
    return "*" not in names and all(
        there.headers.get_list(name) == asked.headers.get_list(name) for name in (*names, _WHOSE)
    )


def _answer(response: BaseResponse) -> Answer:
    """The response as hishel knows it."""
    fields: dict[str, list[str]] = {}
    for name, value in response.fields:
        fields.setdefault(name.lower(), []).append(value)
    now = time.time()
    date = _seconds(fields.get("date"))
    # RFC 9111 §4.2.3, RFC 9110 §6.6.1: its age is counted from here, and hishel counts from `date`.
    # What other caches have kept it for is in `age`, and clocks differ.
    told = fields.get("age", [""])[0].strip()
    age = min(int(told[:10]), 1 << 31) if told.isascii() and told.isdigit() else 0
    if date is None or now - date < age:
        fields["date"] = [formatdate(now - age, usegmt=True)]
    return Answer(response.status, Headers(fields))


def _is_of_use(cache: Cache, answer: Answer) -> bool:
    """Whether it can ever be fresh, or be validated: hishel may store what is neither."""
    if cache.options.get("allow_stale") or not _USEFUL.isdisjoint(answer.headers):
        return True
    directives = answer.headers.get("cache-control", "").lower()
    return "max-age" in directives or "s-maxage" in directives


def _seconds(dates: list[str] | None) -> float | None:
    if not dates:
        return None
    try:
        return parsedate_to_datetime(dates[0]).timestamp()
    except (ValueError, OverflowError):
        return None


def _pairs(headers: Headers) -> list[tuple[str, str]]:
    return [(name, value) for name in headers for value in headers.get_list(name) or []]


def _directives(request: Request) -> dict[str, str]:
    """The directives of the request's own `cache-control`, by name."""
    found: dict[str, str] = {}
    for name, value in request.fields:
        if lower(name) == "cache-control":
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            for directive in text.split(","):
                key, _, argument = directive.strip().partition("=")
                found[key.lower()] = argument.strip('"')
    return found


def _is_too_old(entry: Entry, directives: dict[str, str]) -> bool:
    """Whether the request's own `max-age` wants a younger response (RFC 9111 §5.2.1.1)."""
    most = directives.get("max-age", "")
    # Of several digits so many that it is no limit any more.
    if not (most.isascii() and most.isdigit()):
        return False
    age, limit = int(entry.response.headers["age"]), int(most[:10])
    return age > limit or not limit


def _revalidating(asked: Asked) -> Asked:
    """The same request, for which nothing is fresh enough."""
    fields = {name: asked.headers.get_list(name) or [] for name in asked.headers}
    return Asked(asked.method, asked.url, Headers({**fields, "cache-control": "no-cache"}))


def _conditional(prepared: Prepared, asked: Asked) -> Prepared:
    """The request with what validates the stored response (RFC 9111 §4.3.1)."""
    given = [(name, asked.headers[name]) for name in _CONDITIONS if name in asked.headers]
    if not given:
        return prepared
    plain = prepared.request
    fields = with_defaults(given, list(plain.fields))
    request = Request(plain.method, plain.target, plain.authority, fields)
    return prepared._replace(request=request)
