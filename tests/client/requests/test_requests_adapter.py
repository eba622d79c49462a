"""What a session does over each version: content both ways, versions, decoding, reuse."""

from __future__ import annotations

import copy
import gzip
import io
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from trilane.client.requests import TrilaneAdapter

from .conftest import Server

MakeSession = Callable[..., requests.Session]
NUMBERS = {"h1": 11, "h2": 20, "h3": 30}


def test_the_version_is_visible(session: requests.Session, server: Server, version: str) -> None:
    answer = session.get(f"{server.https}/hello")
    assert (answer.status_code, answer.content) == (200, b"hello world")
    assert answer.raw.version == NUMBERS[version]
    assert answer.raw.version_string == f"HTTP/{version[1:]}" + ".1" * (version == "h1")
    assert answer.reason == ("OK" if version == "h1" else "")
    assert answer.headers["Content-Type"] == "text/plain;charset=utf-8"
    assert answer.raw.closed


@pytest.mark.parametrize(("versions", "number"), [(("h1",), 11), (("h2", "h1"), 11), (("h2",), 20)])
def test_without_tls_it_is_h1_or_prior_knowledge(
    make_session: MakeSession, server: Server, versions: tuple[str, ...], number: int
) -> None:
    assert make_session(*versions).get(f"{server.http}/hello").raw.version == number


@pytest.mark.filterwarnings("ignore:Unverified HTTPS")
def test_settings_of_our_client(server: Server, version: str) -> None:
    url = server.https.replace("localhost", "shop.example").replace("127.0.0.1", "shop.example")
    adapter = TrilaneAdapter(
        versions=(version,),
        resolver={"shop.example": "127.0.0.1"},
        minimum_tls="TLSv1.3",
        timings=True,
    )
    with requests.Session() as session:
        session.mount("https://", pickle.loads(pickle.dumps(adapter)))  # noqa: S301 - our own
        answer = session.get(f"{url}/hello", verify=False)
        assert answer.raw.version == NUMBERS[version]
        assert answer.raw.timings.body is not None
        assert answer.raw.traffic.response_content == len(answer.content)
    with requests.Session() as session:
        pins = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
        session.mount("https://", TrilaneAdapter(versions=(version,), pins=pins))
        with pytest.raises(requests.exceptions.SSLError):
            session.get(f"{server.https}/hello", verify=False)
    with pytest.raises(ValueError, match="minimum_tls"):
        TrilaneAdapter(minimum_tls="TLSv1")


def test_h3_is_used_once_it_was_announced(make_session: MakeSession, server: Server) -> None:
    session = make_session()
    seen = [session.get(f"{server.https}/hello").raw.version for _ in range(4)]
    assert (seen[0], seen[-1]) == (20, 30)


def test_fields_arrive_as_requests_wrote_them(
    session: requests.Session, server: Server, version: str
) -> None:
    given: dict[str, Any] = {"X-Given": "a", "X-Bytes": b"b", "User-Agent": None}
    arrived = session.get(f"{server.https}/headers", headers=given).json()
    assert arrived["version"] == version
    fields = {name: value for name, value in arrived["fields"] if name != "host"}
    # RFC 9113 §8.2.2: `connection` is not for HTTP/2 and HTTP/3.
    own = {"connection": "keep-alive"} if version == "h1" else {}
    assert fields == own | {
        "accept-encoding": requests.utils.default_headers()["Accept-Encoding"],
        "accept": "*/*",
        "x-given": "a",
        "x-bytes": "b",
    }
    asked = session.get(f"{server.https}/headers", headers={"Host": "else.example"}).json()
    assert asked["authority"] == "else.example"


def test_bytes_files_and_generators_arrive(
    session: requests.Session, server: Server, file: Path
) -> None:
    wanted = file.read_bytes()

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(wanted), 10_000):
            yield wanted[start : start + 10_000]
        yield b""

    assert session.post(f"{server.https}/echo", data=wanted).content == wanted
    with file.open("rb") as opened:
        assert session.put(f"{server.https}/echo", data=opened).content == wanted
    assert session.post(f"{server.https}/echo", data=io.BytesIO(wanted)).content == wanted
    assert session.post(f"{server.https}/echo", data=pieces()).content == wanted
    assert (
        session.post(f"{server.https}/echo", data=iter(["text", "ü"])).content == "textü".encode()
    )


def test_what_can_only_be_read_arrives(session: requests.Session, server: Server) -> None:
    class Encoder:
        """Like the multipart encoder of requests-toolbelt: a length and `read`."""

        def __init__(self) -> None:
            self.len = 100_000
            self._left = io.BytesIO(bytes(self.len))

        def read(self, amount: int = -1) -> bytes:
            return self._left.read(amount)

    answer = session.post(f"{server.https}/echo", data=Encoder())
    assert answer.request.headers["Content-Length"] == "100000"
    assert answer.content == bytes(100_000)


def test_forms_json_and_multipart_arrive(
    session: requests.Session, server: Server, file: Path
) -> None:
    assert session.post(f"{server.https}/echo", data={"a": "1", "b": "ü"}).text == "a=1&b=%C3%BC"
    assert session.post(f"{server.https}/echo", json={"a": [1]}).json() == {"a": [1]}
    with file.open("rb") as opened:
        sent = session.post(f"{server.https}/echo", files={"file": ("name", opened)})
    assert sent.content == sent.request.body
    assert file.read_bytes() in sent.content
    assert session.post(f"{server.https}/echo").content == b""


def test_an_exception_of_a_generator_passes_through(
    session: requests.Session, server: Server
) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"some"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        session.post(f"{server.https}/echo", data=pieces())
    assert session.get(f"{server.https}/hello").ok


def test_content_comes_in_pieces_of_the_wanted_size(
    session: requests.Session, server: Server
) -> None:
    with session.get(f"{server.https}/bytes/1m", stream=True) as answer:
        assert not answer.raw.closed
        sizes = [len(piece) for piece in answer.iter_content(100_000)]
        assert sizes == [100_000] * 10 + [1024 * 1024 - 1_000_000]
        assert answer.raw.tell() == 1024 * 1024
        assert answer.raw.closed


def test_content_is_decoded_or_not(session: requests.Session, server: Server) -> None:
    plain = session.get(f"{server.https}/bytes/100k").content
    url = f"{server.https}/bytes/100k?gzip=1"
    decoded = session.get(url)
    assert decoded.headers["Content-Encoding"] == "gzip"
    assert decoded.content == plain
    with session.get(url, stream=True) as answer:
        assert b"".join(answer.raw.stream(1000, decode_content=True)) == plain
    with session.get(url, stream=True) as answer:
        assert gzip.decompress(answer.raw.read()) == plain
    with session.get(url, stream=True) as answer:
        answer.raw.decode_content = True
        assert answer.raw.read(10) + answer.raw.read() == plain


def test_raw_is_a_file(session: requests.Session, server: Server) -> None:
    plain = session.get(f"{server.https}/bytes/100k").content
    with session.get(f"{server.https}/bytes/100k", stream=True) as answer:
        raw = answer.raw
        assert raw.readable()
        buffer = bytearray(10)
        assert raw.readinto(buffer) == 10
        assert buffer == plain[:10]
        assert raw.read1(5) == plain[10:15]
        assert io.BufferedReader(raw).read() == plain[15:]
        assert raw.isclosed()
        assert raw.read() == b""
        assert raw.headers.getlist("content-length") == ["102400"]
        assert raw.geturl() == "/bytes/100k"
        assert raw.retries.total == 0


def test_a_response_left_unread_does_not_hold_up_the_session(
    session: requests.Session, server: Server
) -> None:
    for _ in range(3):
        answer = session.get(f"{server.https}/bytes/100m", stream=True)
        assert len(next(answer.iter_content(1000))) == 1000
        answer.close()
        assert answer.raw.closed
        assert session.get(f"{server.https}/hello").content == b"hello world"


def test_content_can_be_read_after_its_session_was_closed(
    make_session: MakeSession, server: Server, version: str
) -> None:
    session = make_session(version)
    with session:
        answer = session.get(f"{server.https}/bytes/4m", stream=True)
        first = answer.raw.read(1000)
    assert len(first + answer.content) == 4 * 1024 * 1024
    # Requests allows this as well.
    assert session.get(f"{server.https}/hello").ok


def test_head_and_empty_answers_have_no_content(session: requests.Session, server: Server) -> None:
    answer = session.head(f"{server.https}/bytes/1m")
    assert (answer.headers["content-length"], answer.content) == (str(1024 * 1024), b"")
    assert session.get(f"{server.https}/status/204").content == b""
    assert session.get(f"{server.https}/status/304").content == b""
    assert session.options(f"{server.https}/hello").ok


def test_lines_and_hooks(session: requests.Session, server: Server) -> None:
    seen = []
    answer = session.post(
        f"{server.https}/echo",
        data=b"one\ntwo\r\nthree",
        stream=True,
        hooks={"response": lambda response, **_: seen.append(response.status_code)},
    )
    assert list(answer.iter_lines()) == [b"one", b"two", b"three"]
    assert seen == [200]


def test_an_adapter_can_be_copied_and_pickled(make_session: MakeSession, server: Server) -> None:
    session = make_session("h2", max_retries=3, pool_maxsize=7)
    assert session.get(f"{server.https}/hello").ok
    for again in (pickle.loads(pickle.dumps(session)), copy.deepcopy(session)):  # noqa: S301
        adapter = again.get_adapter(server.https)
        assert isinstance(adapter, TrilaneAdapter)
        assert (adapter.versions, adapter.max_retries.total) == (("h2",), 3)
        with again:
            assert again.get(f"{server.https}/hello").raw.version == 20


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(ValueError, match="h4"):
        TrilaneAdapter(versions=("h4",))


def test_json_of_a_bookstore(session: requests.Session, server: Server) -> None:
    books = session.get(f"{server.https}/books").json()
    ids = books["ids"] if isinstance(books, dict) else books
    book = session.get(f"{server.https}/book", params={"id": ids[0]})
    assert book.ok
    assert json.loads(book.text)
