"""The cache of either client, against a server that says what it is told to, and hishel's own."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import pickle
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hishel
import httpx
import pytest
import trio
from hishel.httpx import CacheTransport

from client.face import AnyClient, AnyResponse, LoopResponse, MakeClient
from client.pool.recorder import NO_TLS, QuietHandler, Serving
from client.waits import PATIENCE_S
from peers.running import Peers
from trilane.client import AsyncClient, Client, errors
from trilane.client.cached import Cache

FRESH = "max-age=3600"
PAST = "Mon, 01 Jan 2024 00:00:00 GMT"


class Origin(Serving):
    """A server that answers with the fields in the query of the URL.

    What it sends is new each time, unless the request has an entity tag that the query names.
    """

    def __init__(self) -> None:
        self.got: list[tuple[str, str, dict[str, str]]] = []
        """Method, path and fields of each request."""
        super().__init__(_Handler)

    def url(self, path: str = "/", *fields: tuple[str, str], **named: str) -> str:
        """A URL that is answered with these fields."""
        pairs = [*fields, *((name.replace("_", "-"), value) for name, value in named.items())]
        return f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(pairs)}"


class _Handler(QuietHandler):
    def _any(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        parts = urllib.parse.urlsplit(self.path)
        fields = urllib.parse.parse_qsl(parts.query)
        named = dict(fields)
        asked = {name.lower(): value for name, value in self.headers.items()}
        self.owner.got.append((self.command, parts.path, asked))
        number = len(self.owner.got)
        unchanged = {named.get("etag", "-"), named.get("last-modified", "-")}
        known = {asked.get("if-none-match"), asked.get("if-modified-since")}
        status = int(named.get("status", "200")) if unchanged.isdisjoint(known) else 304
        content = f"{number} ".encode() * int(named.get("times", "1"))
        if named.get("content-encoding") == "gzip":
            content = gzip.compress(content)
        self.send_response_only(status)
        if "date" not in named and "dateless" not in named:
            self.send_header("date", self.date_time_string())
        for name, value in [*fields, ("x-number", str(number))]:
            if name not in {"status", "times", "dateless"}:
                self.send_header(name, value)
        if status not in {204, 304}:
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD" and status not in {204, 304}:
            self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PURGE = _any  # noqa: N815


@pytest.fixture(scope="module")
def _origin() -> Iterator[Origin]:
    with contextlib.closing(Origin()) as made:
        yield made


@pytest.fixture
def origin(_origin: Origin) -> Origin:
    _origin.got.clear()
    return _origin


@pytest.fixture
def client(kind: str, make_client: MakeClient, tmp_path: Path) -> AnyClient:
    """A client of one kind keeps it in memory, that of the other in a file."""
    return make_client(cache=True if kind == "blocking" else tmp_path / "cache.sqlite")


def _said(response: AnyResponse) -> tuple[bytes, bool, bool]:
    return response.content, response.from_cache, response.revalidated


def test_what_is_fresh_is_not_asked_for_again(client: AnyClient, origin: Origin) -> None:
    url = origin.url(cache_control=FRESH, x_own="kept")
    first, second = client.get(url), client.get(url)
    assert _said(first) == (b"1 ", False, False)
    assert _said(second) == (b"1 ", True, False)
    assert len(origin.got) == 1
    assert (first.version, second.version) == ("h1", "cache")
    assert "age" not in first.headers
    assert second.headers["age"].isdigit()
    assert second.headers["x-own"] == "kept"
    assert second.status == 200
    assert second.peer is None
    assert second.is_closed


def test_what_is_stale_is_validated(client: AnyClient, origin: Origin) -> None:
    url = origin.url(cache_control="max-age=0", etag='"a"', content_type="text/plain")
    assert _said(client.get(url)) == (b"1 ", False, False)
    response = client.get(url)
    assert _said(response) == (b"1 ", True, True)
    assert response.status == 200
    # RFC 9111 §3.2: those of the 304, but for what describes the content.
    assert response.headers["x-number"] == "2"
    assert response.headers["content-length"] == "2"
    assert [asked.get("if-none-match") for _, _, asked in origin.got] == [None, '"a"']


def test_a_304_makes_it_fresh(client: AnyClient, origin: Origin) -> None:
    url = origin.url(cache_control="max-age=60", age="100", last_modified=PAST)
    client.get(url)
    # Another cache has kept it for longer than it is fresh (RFC 9111 §4.2.3).
    assert _said(client.get(url)) == (b"1 ", True, True)
    assert origin.got[1][2]["if-modified-since"] == PAST


def test_without_a_date_it_ages_from_when_it_came(client: AnyClient, origin: Origin) -> None:
    fresh = origin.url(cache_control="max-age=3600", age="100", dateless="yes")
    stale = origin.url(cache_control="max-age=60", age="100", dateless="yes")
    for url in (fresh, fresh, stale, stale):
        response = client.get(url)
    assert len(origin.got) == 3
    assert int(client.get(fresh).headers["age"]) >= 100
    assert not response.from_cache


def test_what_the_server_gives_instead_takes_its_place(client: AnyClient, origin: Origin) -> None:
    url, again = origin.url(cache_control=FRESH), {"cache-control": "no-cache"}
    assert _said(client.get(url)) == (b"1 ", False, False)
    assert _said(client.get(url, headers=again)) == (b"2 ", False, False)
    # It is of the same second, perhaps, and yet the one that counts.
    assert _said(client.get(url)) == (b"2 ", True, False)


def test_each_variant_is_kept(client: AnyClient, origin: Origin) -> None:
    url = origin.url(cache_control=FRESH, vary="Accept-Language", last_modified=PAST)
    for language in ("de", "en", "de", "en"):
        client.get(url, headers={"accept-language": language})
    assert _said(client.get(url, headers={"Accept-Language": "de"})) == (b"1 ", True, False)
    assert _said(client.get(url, headers={"Accept-Language": "en"})) == (b"2 ", True, False)
    assert not client.get(url).from_cache
    # By `last-modified` of another variant the server would confirm the wrong content.
    assert [asked.get("if-modified-since") for _, _, asked in origin.got] == [None] * 3


def test_a_star_varies_by_what_nobody_knows(client: AnyClient, origin: Origin) -> None:
    url = origin.url(cache_control=FRESH, vary="*")
    assert [_said(client.get(url))[0] for _ in range(2)] == [b"1 ", b"2 "]


@pytest.mark.parametrize("directives", ["no-store", "no-store, max-age=3600"])
def test_what_must_not_be_stored_is_not(client: AnyClient, origin: Origin, directives: str) -> None:
    url = origin.url(cache_control=directives, etag='"a"')
    assert [_said(client.get(url))[0] for _ in range(2)] == [b"1 ", b"2 "]
    assert "if-none-match" not in origin.got[1][2]


def test_a_request_may_keep_out_of_it(client: AnyClient, origin: Origin) -> None:
    url = origin.url(cache_control=FRESH)
    client.get(url, headers={"Cache-Control": "no-store"})
    assert not client.get(url).from_cache
    assert _said(client.get(url, headers={"cache-control": "no-store"})) == (b"3 ", False, False)
    assert client.get(url).from_cache


@pytest.mark.parametrize(
    ("directives", "fresh"), [("max-age=0", False), ("no-cache", False), ("max-age=60", True)]
)
def test_a_request_says_how_old_it_may_be(
    client: AnyClient, origin: Origin, directives: str, fresh: bool
) -> None:
    url = origin.url(cache_control=FRESH, age="30")
    client.get(url)
    assert client.get(url, headers={"cache-control": directives}).from_cache is fresh
    assert not client.get(url, headers={"cache-control": "max-age=20"}).from_cache


def test_only_if_cached(client: AnyClient, origin: Origin) -> None:
    url, only = origin.url(cache_control=FRESH), {"cache-control": "only-if-cached"}
    response = client.get(url, headers=only)
    assert (response.status, response.content, response.from_cache) == (504, b"", False)
    assert origin.got == []
    client.get(url)
    assert _said(client.get(url, headers=only)) == (b"1 ", True, False)
    stale = origin.url(cache_control="max-age=0", etag='"a"')
    client.get(stale)
    assert client.get(stale, headers=only).status == 504
    assert len(origin.got) == 2


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PURGE"])
def test_an_unsafe_request_makes_it_invalid(client: AnyClient, origin: Origin, method: str) -> None:
    url, other = origin.url("/it", cache_control=FRESH), origin.url("/other", cache_control=FRESH)
    client.get(url)
    client.get(other)
    client.request(method, url)
    assert not client.get(url).from_cache
    assert client.get(other).from_cache


def test_an_unsafe_request_that_fails_changes_nothing(client: AnyClient, origin: Origin) -> None:
    url = origin.url(cache_control=FRESH, status="404")
    assert client.get(url).status == 404
    client.post(url)
    assert _said(client.get(url)) == (b"1 ", True, False)


def test_a_stream_is_stored_when_it_was_read_to_its_end(client: AnyClient, origin: Origin) -> None:
    url = origin.url(cache_control=FRESH, times="200000")
    with client.stream("GET", url) as response:
        assert len(response.read(1000)) == 1000
    with client.stream("GET", url) as response:
        assert not response.from_cache
        content = b"".join(response.iter_bytes())
    assert content == b"2 " * 200_000
    with client.stream("GET", url) as response:
        assert response.from_cache
        assert response.read(7) == content[:7]
        assert response.read1(3) == content[7:10]
        assert b"".join(response.iter_bytes(1000)) == content[10:]
    with client.stream("GET", url) as response:
        assert b"".join(response.iter_bytes()) == content
    with client.stream("GET", url) as response:
        assert response.read(1) == b"2"
    with pytest.raises(errors.LocalError, match="closed before all of its content"):
        response.read()
    assert len(origin.got) == 2


def test_coded_content_is_kept_as_it_was_sent(client: AnyClient, origin: Origin) -> None:
    url = origin.url(cache_control=FRESH, content_encoding="gzip", times="1000")
    assert _said(client.get(url)) == (b"1 " * 1000, False, False)
    assert _said(client.get(url)) == (b"1 " * 1000, True, False)
    with client.stream("GET", url) as response:
        coded = b"".join(response.iter_raw())
    assert gzip.decompress(coded) == b"1 " * 1000


def test_a_head_and_what_has_no_content(client: AnyClient, origin: Origin) -> None:
    url = origin.url(cache_control=FRESH)
    assert [client.head(url).from_cache for _ in range(2)] == [False, True]
    assert not client.get(url).from_cache
    with client.stream("HEAD", origin.url("/stream", cache_control=FRESH)) as response:
        assert response.status == 200
    assert client.head(origin.url("/stream", cache_control=FRESH)).from_cache


def test_whoever_has_a_copy_asks_the_server(client: AnyClient, origin: Origin) -> None:
    url = origin.url(cache_control=FRESH, etag='"a"')
    client.get(url)
    assert client.get(url, headers={"If-None-Match": '"a"'}).status == 304
    assert client.get(url, headers={"Range": "bytes=0-1"}).headers["x-number"] == "3"
    assert client.request("GET", url, content=b"a query").headers["x-number"] == "4"
    assert client.options(url).headers["x-number"] == "5"
    assert client.get(url).from_cache


def test_a_private_response_is_not_for_a_shared_cache(
    make_client: MakeClient, origin: Origin
) -> None:
    url = origin.url(cache_control=f"private, {FRESH}")
    own, shared = make_client(cache=True), make_client(cache=Cache(shared=True))
    assert [own.get(url).from_cache for _ in range(2)] == [False, True]
    assert [shared.get(url).from_cache for _ in range(2)] == [False, False]
    later = origin.url(cache_control="s-maxage=3600, max-age=0")
    assert [own.get(later).from_cache for _ in range(2)] == [False, False]
    assert [shared.get(later).from_cache for _ in range(2)] == [False, True]


def test_nobody_gets_what_somebody_else_was_answered(
    make_client: MakeClient, origin: Origin, tmp_path: Path
) -> None:
    client = make_client(cache=tmp_path / "cache.sqlite")
    url = origin.url(cache_control=FRESH, vary="Cookie")
    for auth in (("me", "secret"), ("you", "secret"), None, ("me", "secret"), None):
        client.get(url, auth=auth, cookies={"session": "a-secret-too"})
    assert len(origin.got) == 3
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert url.encode() in kept
    assert b"a-secret-too" not in kept
    authorization = origin.got[0][2]["authorization"]
    assert authorization.removeprefix("Basic ").encode() not in kept
    assert (tmp_path / "cache.sqlite").stat().st_mode & 0o777 == 0o600


def test_a_cache_of_two_clients_keeps_their_users_apart(
    make_client: MakeClient, origin: Origin
) -> None:
    cache = Cache()
    mine, yours = (make_client(cache=cache, cookies={"session": who}) for who in ("me", "you"))
    nobody = make_client(cache=cache)
    page = origin.url("/page", cache_control=f"private, {FRESH}")
    assert [_said(each.get(page))[0] for each in (mine, yours, nobody)] == [b"1 ", b"2 ", b"3 "]
    assert [_said(each.get(page))[0] for each in (mine, yours, nobody)] == [b"1 ", b"2 ", b"3 "]
    assert _said(nobody.get(page, cookies={"session": "me"}))[0] == b"1 "
    # Their order is none of the server's business.
    both = [{"a": "1", "session": "us"}, {"session": "us", "a": "1"}]
    ours = origin.url("/ours", cache_control=FRESH)
    assert [nobody.get(ours, cookies=each).from_cache for each in both] == [False, True]
    # Nor is it validated for somebody else, whom a 304 would show it to.
    stale = origin.url("/stale", cache_control="max-age=0", etag='"a"')
    assert [each.get(stale).revalidated for each in (mine, yours, mine)] == [False, False, True]
    # A visitor's first page may have what goes with the cookie that it brings.
    first = origin.url("/first", ("set-cookie", "session=new"), cache_control=FRESH)
    other = make_client(cache=cache)
    assert [each.get(first).from_cache for each in (nobody, other)] == [False, False]
    assert nobody.get(first).from_cache
    # Or with those that many have.
    alike = [make_client(cache=cache, cookies={"theme": "dark"}) for _ in range(2)]
    logged_in = origin.url("/in", ("set-cookie", "session=new"), cache_control=FRESH)
    assert [each.get(logged_in).from_cache for each in alike] == [False, False]
    open_ = origin.url("/open", cache_control=f"public, {FRESH}")
    assert [each.get(open_).from_cache for each in (mine, yours)] == [False, True]


def test_a_redirect_is_kept_and_cookies_are_set_once(
    make_client: MakeClient, origin: Origin
) -> None:
    client = make_client(cache=True, follow_redirects=True)
    end = origin.url("/end", ("set-cookie", "a=1"), cache_control=FRESH)
    start = origin.url("/", status="301", location=end, cache_control=FRESH)
    assert [_said(client.get(start))[0] for _ in range(2)] == [b"2 ", b"2 "]
    assert client.get(start).history[0].from_cache
    assert client.cookies["a"] == "1"
    client.cookies.clear()
    assert client.get(end).from_cache
    assert len(client.cookies) == 0


def test_it_outlives_its_client(make_client: MakeClient, origin: Origin, tmp_path: Path) -> None:
    url, path = origin.url(cache_control=FRESH), tmp_path / "cache.sqlite"
    make_client(cache=str(path)).get(url)
    assert make_client(cache=Cache(path)).get(url).from_cache
    assert [each.name for each in tmp_path.glob("*.sqlite")] == ["cache.sqlite"]
    assert not (tmp_path / ".gitignore").exists()


def test_both_kinds_of_client_share_one(origin: Origin) -> None:
    url, cache = origin.url(cache_control=FRESH), Cache()

    async def again() -> bool:
        async with AsyncClient(cache=cache) as client:
            return (await client.get(url)).from_cache

    with cache, Client(cache=cache) as client:
        client.get(url)
        assert asyncio.run(again())
        assert trio.run(again)


def test_a_response_of_the_cache_can_be_pickled(client: AnyClient, origin: Origin) -> None:
    url = origin.url(cache_control=FRESH)
    for _ in range(2):
        response = client.get(url)
        own = response.asynchronous if isinstance(response, LoopResponse) else response
        back = pickle.loads(pickle.dumps(own))  # noqa: S301 - our own
        assert back.content == b"1 "
        assert back.from_cache is response.from_cache
        assert back.headers.pairs == response.headers.pairs


def test_many_at_once_from_one_thread(origin: Origin) -> None:
    urls = [origin.url(f"/{i % 3}", cache_control=FRESH) for i in range(3)]
    with Client(cache=True, timeout=PATIENCE_S) as client:
        first = [each.content for each in client.get_all(urls)]
        again = list(client.get_all([*urls, origin.url("/new"), *urls]))
    assert [each.from_cache for each in again] == [True] * 3 + [False] + [True] * 3
    assert [each.content for each in again[:3]] == first
    assert len(origin.got) == 4


def test_a_storage_of_hishels_own_that_is_awaited(origin: Origin, tmp_path: Path) -> None:
    url = origin.url(cache_control=FRESH, times="100000")

    async def twice() -> list[tuple[bytes, bool]]:
        storage = hishel.AsyncSqliteStorage(database_path=tmp_path / "awaited.sqlite")
        async with AsyncClient(cache=storage, timeout=PATIENCE_S) as client:
            async with client.stream("GET", url) as response:
                await response.read(10)
            got = [await client.get(url) for _ in range(2)]
            head = [(await client.head(url)).from_cache for _ in range(2)]
        await storage.close()
        assert head == [False, True]
        return [(each.content, each.from_cache) for each in got]

    assert asyncio.run(twice()) == [(b"2 " * 100_000, False), (b"2 " * 100_000, True)]
    storage = hishel.AsyncSqliteStorage(database_path=tmp_path / "awaited.sqlite")
    with Client(cache=storage) as client, pytest.raises(TypeError, match="can only be awaited"):
        client.get(url)


def test_what_is_no_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="cache=5 is of type int"):
        Client(cache=5)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Client(cache=tmp_path / "nowhere" / "cache")
    other = tmp_path / "other"
    other.write_bytes(b"something else, and long enough to be read as a header" * 100)
    with pytest.raises(ValueError, match="is no file of SQLite"):
        Client(cache=other)
    with pytest.raises(ValueError, match="max_size=0"):
        Cache(max_size=0)
    assert Client(cache=False).get is not None


@pytest.mark.parametrize(
    ("peer", "listener"),
    [("nginx", "h1"), ("caddy", "h2"), ("caddy", "h3")],
)
def test_files_of_other_servers_are_validated(
    make_client: MakeClient, peers: Peers, peer: str, listener: str
) -> None:
    server = peers[peer]
    client = make_client(versions=(listener[:2],), verify=str(server.ca), cache=True)
    url = server.url(listener, "/bytes/1024")
    first, second = client.get(url), client.get(url, headers={"cache-control": "no-cache"})
    assert (first.status, first.version, first.from_cache) == (200, listener[:2], False)
    assert (second.status, second.from_cache, second.revalidated) == (200, True, True)
    assert len(first.content) == 1024
    assert second.content == first.content


FIELDS: list[dict[str, str]] = [
    {},
    {"cache-control": FRESH},
    {"cache-control": "max-age=0"},
    {"cache-control": "max-age=0", "etag": '"a"'},
    {"cache-control": "no-cache", "etag": 'W/"a"'},
    {"cache-control": "no-cache", "last-modified": PAST},
    {"cache-control": "no-store", "etag": '"a"'},
    {"cache-control": f"private, {FRESH}"},
    {"cache-control": f'private="x-number", {FRESH}'},
    {"cache-control": f'no-cache="x-number", {FRESH}'},
    {"cache-control": f"must-revalidate, {FRESH}"},
    {"cache-control": "public"},
    {"last-modified": PAST},
    {"etag": '"a"'},
    {"expires": "0"},
    {"expires": "Fri, 01 Jan 2100 00:00:00 GMT"},
    {"expires": PAST, "etag": '"a"'},
    {"cache-control": "max-age=0", "expires": "Fri, 01 Jan 2100 00:00:00 GMT"},
    {"cache-control": FRESH, "date": PAST},
    {"cache-control": FRESH, "vary": "accept"},
    {"cache-control": FRESH, "vary": "*"},
    *({"status": str(s)} for s in (203, 204, 404, 410, 500)),
    *({"status": str(s), "cache-control": FRESH} for s in (302, 307, 404, 500, 503)),
    *({"status": str(s), "last-modified": PAST} for s in (203, 302, 404, 410, 500)),
]


def test_it_asks_as_hishels_own_client_does(
    make_client: MakeClient, origin: Origin, tmp_path: Path
) -> None:
    client = make_client(cache=True)

    def seen(ask: Any, url: str) -> list[tuple[int, bool, list[Any]]]:
        found = []
        origin.got.clear()
        for _ in range(3):
            before = len(origin.got)
            response = ask(url)
            conditions = [
                (asked.get("if-none-match"), asked.get("if-modified-since"))
                for _, _, asked in origin.got[before:]
            ]
            found.append((response.status_code, response.content, conditions))
        return found

    options = hishel.CacheOptions(shared=False)
    storage = hishel.SqliteStorage(database_path=tmp_path / "hishels.sqlite")
    plain = httpx.HTTPTransport(verify=NO_TLS)
    transport = CacheTransport(plain, storage=storage, rfc=options)
    with httpx.Client(transport=transport) as other:
        for fields in FIELDS:
            url = origin.url("/", *fields.items())
            assert seen(client.get, url) == seen(other.get, url), fields
