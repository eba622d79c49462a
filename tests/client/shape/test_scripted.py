"""HTTP/1.1 over a socket of Python's, byte by byte: as `http.client` did it, or better."""

from __future__ import annotations

import array
import io
from collections.abc import Iterator

import pytest

import trilane.client.http as client
from client.shape.scripted import Broken, Scripted, answer
from trilane.client import errors


def connected(*answers: bytes) -> tuple[client.HTTPConnection, Scripted]:
    connection = client.HTTPConnection("example.com")
    sock = Scripted(b"".join(answers))
    connection.sock = sock
    return connection, sock


def fields(sent: bytes) -> list[bytes]:
    return sent.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]


@pytest.mark.parametrize("name", ["Content-length", "Host", "Accept-encoding"])
@pytest.mark.parametrize("given", [True, False])
def test_a_field_that_is_given_is_not_added(name: str, given: bool) -> None:
    connection, sock = connected()
    body = "spamspamspam"
    connection.request("POST", "/", body, {name: str(len(body))} if given else {})
    names = [one.split(b":")[0].lower() for one in fields(sock.sent)]
    assert names.count(name.lower().encode()) == 1


@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD", "OPTIONS", "TRACE"])
def test_only_methods_that_expect_content_say_that_there_is_none(method: str) -> None:
    connection, sock = connected()
    connection.request(method, "/")
    assert b"ontent-" not in sock.sent
    for expecting in ("PUT", "POST", "PATCH"):
        connection, sock = connected()
        connection.request(expecting, "/")
        assert b"Content-Length: 0" in fields(sock.sent)
    for empty in ("", b""):
        connection, sock = connected()
        connection.request(method, "/", empty)
        assert b"Content-Length: 0" in fields(sock.sent)


def test_folds_and_several_values_become_one_line() -> None:
    connection, sock = connected()
    connection.putrequest("GET", "/")
    connection.putheader("Content-Type", "multipart/mixed;\r\n\tboundary=x")
    connection.putheader("Many", "one", b"two", 3)
    connection.putheader("Latin", b"\xff")
    connection.endheaders()
    assert fields(sock.sent)[2:] == [
        b"Content-Type: multipart/mixed; boundary=x",
        b"Many: one two 3",
        b"Latin: \xff",
    ]


def test_request_takes_what_putheader_takes() -> None:
    connection, sock = connected()
    connection.request("GET", "/", headers={"A": " b\r\n c ", b"D": b"e", "F": 1})
    assert fields(sock.sent)[2:] == [b"A: b c", b"D: e", b"F: 1"]


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\rb", "a\0b"])
def test_a_value_cannot_become_a_second_field(value: str) -> None:
    connection, sock = connected()
    with pytest.raises(ValueError, match="value"):
        connection.request("GET", "/", headers={"A": value})
    assert sock.sent == b""
    connection.request("GET", "/")
    assert sock.sent.startswith(b"GET / HTTP/1.1\r\n")


def test_a_wrong_content_length_is_refused() -> None:
    connection, sock = connected()
    with pytest.raises(errors.InvalidRequest):
        connection.request("PUT", "/", b"body", {"Content-Length": "42"})
    assert sock.sent == b""


def test_a_second_request_waits_until_the_first_response_has_been_read() -> None:
    connection, sock = connected(answer(b"one"), answer(b"two"))
    first = connection.request("GET", "/1")
    second = connection.request("GET", "/2")
    assert (first, second) == (1, 2)
    assert sock.sent.count(b"HTTP/1.1\r\n") == 1
    response = connection.getresponse()
    assert response.read(2) == b"on"
    assert b"/2" not in sock.sent
    assert response.read() == b"e"
    assert b"GET /2 " in sock.sent
    assert connection.get_response(second).read() == b"two"


def test_responses_are_taken_in_any_order_when_they_are_short() -> None:
    connection, _ = connected(answer(b"one"), answer(b"two"), answer(b"three"))
    ids = [connection.request("GET", f"/{number}") for number in (1, 2, 3)]
    responses = [connection.get_response(ident) for ident in reversed(ids)]
    assert [response.read() for response in responses] == [b"three", b"two", b"one"]


def test_a_long_response_in_the_way_is_said_to_be_so() -> None:
    connection, _ = connected(answer(bytes(1 << 20)), answer(b"two"))
    connection.request("GET", "/1")
    second = connection.request("GET", "/2")
    with pytest.raises(client.ResponseNotReady, match="read or closed first"):
        connection.get_response(second)
    assert len(connection.getresponse().read()) == 1 << 20
    assert connection.getresponse().read() == b"two"


def test_a_waiting_request_is_forgotten_by_cancel() -> None:
    connection, sock = connected(answer(b"one"), answer(b"three"))
    ids = [connection.request("GET", f"/{number}") for number in (1, 2, 3)]
    connection.cancel(ids[1])
    assert connection.getresponse().read() == b"one"
    assert connection.getresponse().read() == b"three"
    assert b"/2" not in sock.sent
    with pytest.raises(client.ResponseNotReady):
        connection.cancel(ids[1])


def test_states_are_those_of_http_client() -> None:
    connection, _ = connected(answer(b""))
    with pytest.raises(client.CannotSendHeader):
        connection.putheader("A", "b")
    with pytest.raises(client.CannotSendHeader):
        connection.endheaders()
    with pytest.raises(client.ResponseNotReady):
        connection.getresponse()
    connection.putrequest("GET", "/")
    with pytest.raises(client.CannotSendRequest):
        connection.putrequest("GET", "/")
    connection.endheaders()
    assert connection.getresponse().status == 200
    with pytest.raises(client.ResponseNotReady):
        connection.getresponse()


def test_without_auto_open_nothing_connects() -> None:
    connection = client.HTTPConnection("example.com")
    connection.auto_open = 0
    with pytest.raises(client.NotConnected):
        connection.request("GET", "/")


def test_content_that_is_cut_short_is_an_error_however_it_is_read() -> None:
    text = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nText"
    connection, _ = connected(text)
    connection.request("GET", "/")
    response = connection.getresponse()
    with pytest.raises(client.IncompleteRead) as caught:
        response.read()
    assert (caught.value.partial, caught.value.expected) == (b"Text", 6)
    assert response.isclosed()

    response = client.HTTPResponse(Scripted(text))
    response.begin()
    assert response.read(3) == b"Tex"
    assert response.read(3) == b"t"
    with pytest.raises(errors.IncompleteBody):
        response.read(3)


def test_chunks_that_are_cut_short_leave_what_has_come() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for rest in (b"", b"foo\r\n"):
        response = client.HTTPResponse(Scripted(head + b"5\r\nhello\r\n" + rest))
        response.begin()
        with pytest.raises(client.HTTPException):
            response.read()


def test_an_early_answer_is_got_though_the_server_reads_no_more() -> None:
    connection = client.HTTPConnection("example.com")
    connection.sock = Broken(answer(b"", status="401 Authorization Required"))
    connection.request("PUT", "/", iter([b"a" * 1000] * 10))
    assert connection.getresponse().status == 401


def test_trailers_and_informational_responses_are_seen() -> None:
    connection, _ = connected(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n"
        b"2\r\nhi\r\n0\r\nSum: 42\r\n\r\n"
    )
    connection.request("GET", "/")
    response = connection.getresponse()
    assert [(status, fields["link"]) for status, fields in response.informational] == [
        (103, "</a>")
    ]
    assert response.trailers.items() == []
    assert response.read() == b"hi"
    assert response.trailers["sum"] == "42"


def test_trailers_of_a_request_follow_its_content() -> None:
    connection, sock = connected()
    connection.request("POST", "/", b"hi", {"Trailer": "Sum"}, trailers={"Sum": "42"})
    assert sock.sent.endswith(b"2\r\nhi\r\n0\r\nSum: 42\r\n\r\n")


def test_content_waits_for_the_word_of_the_server() -> None:
    connection, sock = connected(b"HTTP/1.1 100 Continue\r\n\r\n", answer(b"ok"))
    connection.request("PUT", "/", b"content", {"Expect": "100-continue"})
    assert sock.pieces[-1] == b"content"
    assert connection.getresponse().read() == b"ok"

    connection, sock = connected(answer(b"no", status="417 Expectation Failed"))
    connection.request("PUT", "/", b"content", {"Expect": "100-continue"})
    assert not sock.sent.endswith(b"content")
    assert connection.getresponse().read() == b"no"
    # The rest of the request never comes: nothing can follow it.
    connection.auto_open = 0
    with pytest.raises(client.NotConnected):
        connection.request("GET", "/")


def test_an_error_of_the_callers_iterable_goes_through() -> None:
    def body() -> Iterator[bytes]:
        yield b"one"
        raise KeyError("two")

    connection, sock = connected()
    with pytest.raises(KeyError):
        connection.request("POST", "/", body())
    assert sock.closed
    with pytest.raises(client.ResponseNotReady):
        connection.getresponse()


def test_content_by_send() -> None:
    connection, sock = connected(answer(b"ok"))
    connection.putrequest("POST", "/")
    connection.putheader("Content-Length", "6")
    connection.endheaders()
    for part in (b"ab", array.array("b", b"cd"), io.BytesIO(b"ef")):
        connection.send(part)
    assert sock.sent.endswith(b"\r\n\r\nabcdef")
    assert connection.getresponse().read() == b"ok"


def test_content_by_send_waits_with_its_request() -> None:
    connection, sock = connected(answer(b"one"), answer(b"two"))
    connection.request("GET", "/1")
    connection.putrequest("POST", "/2")
    connection.putheader("Content-Length", "2")
    connection.endheaders()
    connection.send(b"ab")
    assert connection.getresponse().read() == b"one"
    assert connection.getresponse().read() == b"two"
    assert sock.sent.endswith(b"\r\n\r\nab")


def test_no_byte_is_taken_of_what_follows() -> None:
    for text in (
        answer(b"content"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ncontent\r\n0\r\nA: b\r\n\r\n",
    ):
        sock = Scripted(text + b"more")
        response = client.HTTPResponse(sock)
        response.begin()
        assert response.read() == b"content"
        assert sock.file.read() == b"more"


def test_lines() -> None:
    text = b"one\r\ntwo\n\nlast"
    response = client.HTTPResponse(Scripted(answer(text)))
    response.begin()
    assert response.peek(1).startswith(b"o")
    assert list(response) == [b"one\r\n", b"two\n", b"\n", b"last"]
    assert response.isclosed()


def test_debugging_prints_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    connection, _ = connected(answer(b"", "First: val"))
    connection.set_debuglevel(1)
    connection.request("GET", "/path")
    connection.getresponse().read()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("send: 'GET /path")
    assert lines[1:3] == ["reply: 'HTTP/1.1 200 OK\\r\\n'", "header: First: val"]


def test_a_socket_of_ones_own_making_by_connect() -> None:
    class Own(client.HTTPConnection):
        def connect(self) -> None:
            self.sock = Scripted(answer(b"own"))

    connection = Own("example.com")
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"own"


def test_methods_that_a_subclass_overrides_are_called() -> None:
    class Signed(client.HTTPConnection):
        def endheaders(self, *arguments: object, **options: object) -> int:
            self.putheader("Signature", "x")
            return super().endheaders(*arguments, **options)  # type: ignore[arg-type]

    connection = Signed("example.com")
    sock = Scripted(answer(b""))
    connection.sock = sock
    ident = connection.request("POST", "/", "body", {"A": "b"})
    assert fields(sock.sent)[-1] == b"Signature: x"
    assert connection.get_response(ident).status == 200


def test_a_closed_connection_is_opened_again() -> None:
    socks: list[Scripted] = []

    class Counting(client.HTTPConnection):
        def connect(self) -> None:
            socks.append(Scripted(answer(b"ok", "Connection: close")))
            self.sock = socks[-1]

    with Counting("example.com") as connection:
        ids = []
        for _ in range(2):
            ids.append(connection.request("GET", "/"))
            response = connection.getresponse()
            assert connection.sock is None
            assert response.read() == b"ok"
        assert ids == [1, 2]
    assert [sock.closed for sock in socks] == [True, True]


def test_requests_that_waited_go_to_the_next_connection() -> None:
    class Closing(client.HTTPConnection):
        def connect(self) -> None:
            self.sock = Scripted(answer(b"ok", "Connection: close"))

    connection = Closing("example.com")
    ids = [connection.request("GET", "/") for _ in range(3)]
    assert [connection.get_response(ident).read() for ident in ids] == [b"ok"] * 3


def test_an_idempotent_request_is_sent_again_when_its_connection_was_stale() -> None:
    opened: list[Scripted] = []
    answers = [answer(b"one"), answer(b"two")]

    class Stale(client.HTTPConnection):
        def connect(self) -> None:
            opened.append(Scripted(answers[len(opened)]))
            self.sock = opened[-1]

    connection = Stale("example.com")
    connection.request("GET", "/1")
    assert connection.getresponse().read() == b"one"
    connection.request("GET", "/2")
    assert connection.getresponse().read() == b"two"
    assert len(opened) == 2

    opened.clear()
    connection = Stale("example.com")
    connection.request("GET", "/1")
    assert connection.getresponse().read() == b"one"
    connection.request("POST", "/2")
    with pytest.raises(client.RemoteDisconnected):
        connection.getresponse()
