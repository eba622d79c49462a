"""What holds of our transports under HTTPX and under HTTPX2 alike.

`library` is `httpx` or `httpx2`, `ours` the module of ours for it. No test framework here: under
HTTPX2 these run in an environment that has none.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from peers import chaos

_GZIPPED = gzip.compress(b"hello " * 1000)
_GZIP = (
    b"HTTP/1.1 200 Fine\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(_GZIPPED)
) + _GZIPPED
_TRAILERS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 5d4\r\n\r\n"
)
_REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
_NAMES = {"h1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3"}


@contextlib.contextmanager
def raises(kind: type[BaseException]) -> Iterator[None]:
    """The block raises exactly that, and says so in words."""
    caught: BaseException | None = None
    try:
        yield
    except kind as error:
        caught = error
    assert type(caught) is kind, repr(caught)
    assert str(caught) or kind is asyncio.CancelledError


def blocking(library: Any, ours: Any, base: str, ca: str, version: str) -> None:
    """A client of the library over one version."""
    transport = ours.Transport(ca, versions=(version,), alternatives="off")
    assert isinstance(transport, library.BaseTransport)
    with library.Client(transport=transport, timeout=120.0) as client:
        for number in range(3):
            response = client.get(f"{base}/hello")
            assert response.text == "hello world"
            assert response.http_version == _NAMES[version]
            assert response.reason_phrase == "OK"
            if version == "h1":
                assert "stream_id" not in response.extensions
            else:
                assert response.extensions["stream_id"] == (
                    2 * number + 1 if version == "h2" else 4 * number
                )
        echo = f"{base}/echo"
        assert client.post(echo, json={"a": [1]}).json() == {"a": [1]}
        assert client.post(echo, content=b"x" * 1_000_000).content == b"x" * 1_000_000
        pieces = (b"%06d" % number for number in range(5_000))
        assert len(client.post(echo, content=pieces).content) == 30_000
        form = client.post(echo, data={"q": "ä"}, files={"f": ("n", b"content")})
        assert b"content" in form.content
        assert "ä".encode() in form.content
        with client.stream("GET", f"{base}/bytes/2000000") as streamed:
            assert sum(map(len, streamed.iter_raw())) == 2_000_000
        with client.stream("GET", f"{base}/bytes/20000000") as left:
            next(left.iter_raw())
        assert client.head(f"{base}/hello").headers["content-length"] == "11"
        assert client.get(f"{base}/status/404").status_code == 404
        with raises(library.ReadTimeout):
            client.get(f"{base}/delay/30s", timeout=0.3)
        assert client.get(f"{base}/hello").text == "hello world"
    with raises(RuntimeError):
        client.get(f"{base}/hello")


async def asynchronous(library: Any, ours: Any, base: str, ca: str, version: str) -> None:
    """An asynchronous client of the library over one version."""

    async def pieces() -> AsyncIterator[bytes]:
        for number in range(5_000):
            yield b"%06d" % number

    limits = library.Limits(max_connections=20, keepalive_expiry=None)
    transport = ours.AsyncTransport(ca, versions=(version,), alternatives="off", limits=limits)
    assert isinstance(transport, library.AsyncBaseTransport)
    async with library.AsyncClient(transport=transport, timeout=120.0) as client:
        response = await client.get(f"{base}/hello")
        assert response.text == "hello world"
        assert response.http_version == _NAMES[version]
        stream = response.extensions["network_stream"]
        assert stream.get_extra_info("server_addr")[1] == int(base.rpartition(":")[2])
        assert stream.get_extra_info("ssl_object") is None
        many = await asyncio.gather(*(client.get(f"{base}/hello") for _ in range(300)))
        assert {response.text for response in many} == {"hello world"}
        echo = f"{base}/echo"
        assert (await client.post(echo, json={"a": [1]})).json() == {"a": [1]}
        assert len((await client.post(echo, content=pieces())).content) == 30_000
        form = await client.post(echo, data={"q": "ä"}, files={"f": ("n", b"content")})
        assert b"content" in form.content
        async with client.stream("GET", f"{base}/bytes/2000000") as streamed:
            assert sum([len(piece) async for piece in streamed.aiter_raw()]) == 2_000_000
        async with client.stream("GET", f"{base}/bytes/20000000") as left:
            async for _ in left.aiter_raw():
                break
        with raises(library.ReadTimeout):
            await client.get(f"{base}/delay/30s", timeout=0.3)
        task = asyncio.create_task(client.get(f"{base}/delay/300s"))
        for _ in range(20):
            # It is on its way then: the connection is there.
            await asyncio.sleep(0)
        task.cancel()
        with raises(asyncio.CancelledError):
            await task
        assert (await client.get(f"{base}/hello")).text == "hello world"


def details(library: Any, ours: Any) -> None:
    """What only HTTP/1.1 shows, and what the library does on top."""
    with (
        chaos.serve(chaos.answer(_GZIP, then="on")) as server,
        library.Client(transport=ours.Transport()) as client,
    ):
        response = client.get(server.base)
        assert response.reason_phrase == "Fine"
        assert response.content == b"hello " * 1000
        assert response.headers["content-encoding"] == "gzip"
    with (
        chaos.serve(chaos.answer(_TRAILERS, then="on")) as server,
        library.Client(transport=ours.Transport()) as client,
    ):
        response = client.get(server.base)
        assert response.extensions["trailing_headers"] == [(b"X-Sum", b"5d4")]
    with (
        chaos.serve(chaos.answer(_REDIRECT, then="on")) as server,
        library.Client(transport=ours.Transport(), follow_redirects=True) as client,
    ):
        with raises(library.TooManyRedirects):
            client.get(server.base)
        assert server.connections == 1


def failures(library: Any, ours: Any, base: str, ca: str) -> None:
    """Exceptions are the library's."""
    unused = "http://127.0.0.1:1"
    for wanted, url, options in (
        (library.ConnectError, unused, {"retries": 2}),
        (library.ConnectError, base, {}),  # signed by a stranger
        (library.ConnectError, "http://nowhere.invalid/", {}),
        (library.UnsupportedProtocol, "ftp://example.org/", {}),
        (library.ProxyError, base, {"proxy": base.replace("https", "http")}),
        (library.ConnectError, base, {"proxy": unused}),
    ):
        with (
            library.Client(transport=ours.Transport(**options), timeout=120.0) as client,
            raises(wanted),
        ):
            client.get(url)
    with raises(ValueError):
        ours.Transport(proxy="socks4://localhost")
    with raises(ValueError):
        ours.Transport(retries=-1)
    for script, wanted in (
        (chaos.close_at_accept, library.RemoteProtocolError),
        (chaos.answer(b"garbage\r\n\r\n"), library.RemoteProtocolError),
        (
            chaos.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", then="close"),
            library.RemoteProtocolError,
        ),
        (chaos.silent, library.ReadTimeout),
    ):
        with (
            chaos.serve(script) as server,
            library.Client(transport=ours.Transport(ca), timeout=0.5) as client,
            raises(wanted),
        ):
            client.get(server.base)


def proxied(library: Any, ours: Any, base: str, ca: str) -> None:
    """Through a proxy by CONNECT, which wants to know who asks."""
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head)
        host, port = head.split()[1].decode().rsplit(":", 1)
        onward = await asyncio.open_connection("127.0.0.1", int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while piece := await source.read(65_536):
                    target.write(piece)
                    await target.drain()
            target.close()

        try:
            await asyncio.gather(pump(reader, onward[1]), pump(onward[0], writer))
        finally:
            onward[1].transport.abort()
            assert host == "localhost"

    with chaos.serve(proxy) as server:
        place = server.base.replace("http://", "http://user:secret@")
        for given in (place, library.Proxy(server.base, auth=("user", "secret"))):
            transport = ours.Transport(ca, proxy=given)
            mounts = {"https://": transport}
            with library.Client(mounts=mounts, timeout=120.0) as client:
                response = client.get(f"{base}/hello")
                assert response.http_version == "HTTP/2"
                assert response.text == "hello world"
    assert len(asked) == 2
    assert all(b"proxy-authorization: Basic dXNlcjpzZWNyZXQ=" in head for head in asked), asked


def long_calls(library: Any, ours: Any, url: Callable[[int], str], ca: str, calls: int) -> None:
    """Calls of which none is answered before all are under way, from threads and from tasks."""
    place = url(calls)
    with (
        library.Client(transport=ours.Transport(ca, versions=("h2",)), timeout=120.0) as client,
        ThreadPoolExecutor(calls) as threads,
    ):
        texts = list(threads.map(lambda _: client.get(place).text, range(calls)))
    assert texts == ["ok"] * calls

    async def tasks() -> None:
        transport = ours.AsyncTransport(ca, versions=("h2",))
        place = url(calls)
        async with library.AsyncClient(transport=transport, timeout=120.0) as client:
            found = await asyncio.gather(*(client.get(place) for _ in range(calls)))
        assert [response.text for response in found] == ["ok"] * calls

    asyncio.run(tasks())


def names(library: Any, ours: Any, base: str, ca: str) -> None:
    """`sni_hostname` is what the certificate has to cover, and what connections are shared by."""
    address = base.replace("localhost", "127.0.0.1")
    with library.Client(transport=ours.Transport(ca), timeout=120.0) as client:
        for url, given in ((address, "localhost"), (base, "localhost"), (base, "127.0.0.1")):
            extensions = {"sni_hostname": given}
            assert client.get(f"{url}/hello", extensions=extensions).text == "hello world"
        # The connection that is there was made for another name.
        with raises(library.ConnectError):
            client.get(f"{base}/hello", extensions={"sni_hostname": "other.example"})


def settings(library: Any, ours: Any, base: str, ca: str) -> None:
    """Those of `trilane.client.Client` that HTTPX has no words for."""
    resolver = {"shop.example": "127.0.0.1"}
    elsewhere = base.replace("localhost", "shop.example")
    transport = ours.Transport(False, resolver=resolver)
    with library.Client(transport=transport, timeout=120.0) as client:
        response = client.get(f"{elsewhere}/hello")
        assert response.text == "hello world"
        assert "timings" not in response.extensions
    pins = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    transport = ours.Transport(ca, pins=pins)
    with (
        library.Client(transport=transport, timeout=120.0) as client,
        raises(library.ConnectError),
    ):
        client.get(f"{base}/hello")
    transport = ours.Transport(ca, minimum_tls="TLSv1.3", timings=True)
    with library.Client(transport=transport, timeout=120.0) as client:
        response = client.get(f"{base}/hello")
        timings = response.extensions["timings"]()
        assert timings.tls > 0
        assert timings.body is not None
        assert response.extensions["traffic"]().response_content == len(response.content)
    for wrong in ({"pins": "sha1//abc"}, {"minimum_tls": "TLSv1"}):
        with raises(ValueError):
            ours.Transport(**wrong)


_PLAIN = "connection.connect_tcp"
_TRACED = ("send_request_headers", "send_request_body", "receive_response_headers")
_READ = ("receive_response_body", "response_closed")


def _expected(version: str, *, new: bool) -> list[str]:
    """The events of one request, in order."""
    connecting = {
        "h1": (_PLAIN, "connection.start_tls"),
        "h2": (_PLAIN, "connection.start_tls"),
        "h3": ("connection.connect_quic",),
    }[version]
    prefix = {"h1": "http11", "h2": "http2", "h3": "http3"}[version]
    steps = [*(connecting if new else ()), *(f"{prefix}.{name}" for name in (*_TRACED, *_READ))]
    return [f"{name}.{how}" for name in steps for how in ("started", "complete")]


def traced(library: Any, ours: Any, base: str, ca: str, version: str) -> None:
    """The extension `trace`, in its blocking and its asynchronous form."""
    seen: list[tuple[str, Any]] = []
    transport = ours.Transport(ca, versions=(version,), alternatives="off")
    with library.Client(transport=transport, timeout=120.0) as client:
        trace = {"trace": lambda name, info: seen.append((name, info))}
        for new in (True, False):
            client.post(f"{base}/echo", content=b"content", extensions=trace)
            assert [name for name, _ in seen] == _expected(version, new=new)
            found = dict(seen)
            if new:
                how = "quic" if version == "h3" else "tcp"
                began = found[f"connection.connect_{how}.started"]
                assert began["host"] == "localhost"
                assert began["timeout"] == 120.0
                stream = found[f"connection.connect_{how}.complete"]["return_value"]
                assert stream.get_extra_info("server_addr")[1] == began["port"]
            seen.clear()
        with raises(library.ReadTimeout):
            client.get(f"{base}/delay/30s", timeout=0.2, extensions=trace)
        assert seen[-1][0].endswith(".receive_response_headers.failed")
        assert "exception" in seen[-1][1]
        seen.clear()
        with raises(library.ConnectError):
            client.get("http://127.0.0.1:1", extensions=trace)
        if version != "h3":
            assert seen[-1][0] == f"{_PLAIN}.failed"

        async def wrong(name: str, info: Any) -> None:
            raise AssertionError

        with raises(TypeError):
            client.get(f"{base}/hello", extensions={"trace": wrong})
        assert client.get(f"{base}/hello").text == "hello world"

    async def tasks() -> None:
        seen.clear()

        async def note(name: str, info: Any) -> None:
            await asyncio.sleep(0)
            seen.append((name, info))

        transport = ours.AsyncTransport(ca, versions=(version,), alternatives="off")
        async with library.AsyncClient(transport=transport, timeout=120.0) as client:
            await client.post(f"{base}/echo", content=b"content", extensions={"trace": note})
            assert [name for name, _ in seen] == _expected(version, new=True)
            with raises(TypeError):
                await client.get(f"{base}/hello", extensions={"trace": lambda *_: None})
            assert (await client.get(f"{base}/hello")).text == "hello world"

    asyncio.run(tasks())


def beside(library: Any, ours: Any, base: str, ca: str) -> None:
    """Mock, ASGI and WSGI transports of the library work beside ours, by its mounts."""

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"from ASGI"})

    def wsgi(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("content-type", "text/plain")])
        return [b"from WSGI"]

    def mock(request: Any) -> Any:
        return library.Response(200, text="from a mock")

    mounts = {
        "all://app.example": library.WSGITransport(app=wsgi),
        "all://mock.example": library.MockTransport(mock),
    }
    with library.Client(transport=ours.Transport(ca), mounts=mounts, timeout=120.0) as client:
        assert client.get("http://app.example/").text == "from WSGI"
        assert client.get("https://mock.example/").text == "from a mock"
        assert client.get(f"{base}/hello").http_version == "HTTP/2"

    async def tasks() -> None:
        mounts = {
            "all://app.example": library.ASGITransport(app=asgi),
            "all://mock.example": library.MockTransport(mock),
        }
        transport = ours.AsyncTransport(ca)
        async with library.AsyncClient(transport=transport, mounts=mounts, timeout=120.0) as client:
            assert (await client.get("http://app.example/")).text == "from ASGI"
            assert (await client.get("https://mock.example/")).text == "from a mock"
            assert (await client.get(f"{base}/hello")).http_version == "HTTP/2"

    asyncio.run(tasks())


def everything(library: Any, ours: Any, base: str, ca: str) -> None:
    """All of it, over HTTP/2."""
    names(library, ours, base, ca)
    settings(library, ours, base, ca)
    beside(library, ours, base, ca)
    blocking(library, ours, base, ca, "h2")
    asyncio.run(asynchronous(library, ours, base, ca, "h2"))
    traced(library, ours, base, ca, "h2")
    details(library, ours)
    failures(library, ours, base, ca)
    proxied(library, ours, base, ca)
