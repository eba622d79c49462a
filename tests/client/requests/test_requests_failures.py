"""Exceptions: those of `requests.exceptions` that HTTPAdapter raises, and sessions that go on."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from requests import exceptions
from urllib3 import Retry
from urllib3.exceptions import InsecureRequestWarning

from client.waits import PATIENCE_S

from .conftest import Server

MakeSession = Callable[..., requests.Session]


def test_another_urllib3_is_named() -> None:
    """As where niquests is installed, whose urllib3-future has these promises."""
    code = "import urllib3; urllib3.ResponsePromise = object; import trilane.client.requests"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "ImportError: the module urllib3 is of urllib3-future" in done.stderr


@contextlib.contextmanager
def answering(*answers: bytes, hold: bool = False) -> Iterator[str]:
    """A server that gives each connection the next answer, and closes it unless `hold`."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.settimeout(PATIENCE_S)

        def serve() -> None:
            for answer in answers:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.settimeout(PATIENCE_S)
                with contextlib.suppress(OSError):
                    head = b""
                    while b"\r\n\r\n" not in head:
                        piece = connection.recv(65536)
                        if not piece:
                            break
                        head += piece
                    connection.sendall(answer)
                if hold:
                    stack.callback(connection.close)
                else:
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_S)


def test_a_server_that_is_not_trusted(
    make_session: MakeSession, server: Server, stranger: Server, version: str
) -> None:
    with pytest.raises(exceptions.SSLError, match=r"(?i)certificate|issuer"):
        make_session(version).get(f"{stranger.https}/hello", timeout=PATIENCE_S)
    with pytest.raises(exceptions.SSLError):
        make_session(version).get(f"{server.https}/hello", verify=stranger.cacert)
    session = make_session(version)
    with pytest.warns(InsecureRequestWarning, match="Unverified HTTPS request"):
        assert session.get(f"{stranger.https}/hello", verify=False).ok
    # What was allowed once is not allowed for ever.
    with pytest.raises(exceptions.SSLError):
        session.get(f"{stranger.https}/hello")


def test_authorities_that_are_not_there(make_session: MakeSession, server: Server) -> None:
    with pytest.raises(OSError, match="invalid path: /nowhere"):
        make_session().get(f"{server.https}/hello", verify="/nowhere")
    with pytest.raises(OSError, match="invalid path: /nobody"):
        make_session().get(f"{server.https}/hello", cert="/nobody")


def test_authorities_in_a_folder(
    make_session: MakeSession, server: Server, version: str, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_bytes(Path(server.cacert).read_bytes())
    assert make_session(version).get(f"{server.https}/hello", verify=str(tmp_path)).ok


def test_nobody_listens(make_session: MakeSession, version: str) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{holder.getsockname()[1]}/"
        with pytest.raises(exceptions.ConnectionError) as caught:
            make_session(version).get(url, timeout=(2, PATIENCE_S))
    assert not isinstance(caught.value, exceptions.SSLError | exceptions.ReadTimeout)


def test_a_name_that_does_not_exist(make_session: MakeSession) -> None:
    with pytest.raises(exceptions.ConnectionError, match=r"nowhere\.invalid"):
        make_session().get("http://nowhere.invalid/", timeout=PATIENCE_S)


def test_an_answer_that_does_not_come(
    session: requests.Session, server: Server, version: str
) -> None:
    with pytest.raises(exceptions.ReadTimeout, match=r"read timeout=0\.2"):
        session.get(f"{server.https}/delay/5s", timeout=(PATIENCE_S, 0.2))
    assert session.get(f"{server.https}/hello").ok


def test_content_that_stops_coming(session: requests.Session, server: Server) -> None:
    url = f"{server.https}/drip?bytes=10&duration=10s"
    answer = session.get(url, stream=True, timeout=(PATIENCE_S, 0.3))
    # As with HTTPAdapter: ReadTimeout is for the head.
    with answer, pytest.raises(exceptions.ConnectionError, match="timed out"):
        assert answer.content
    assert session.get(f"{server.https}/hello").ok


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 2",
        b"SSH-2.0-none\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
)
def test_urllib3_is_asked_what_a_failure_is(
    make_session: MakeSession, caplog: pytest.LogCaptureFixture, answer: bytes
) -> None:
    """With the records of urllib3's logger all goes through its own function, and else not."""
    raised = []
    for level in (logging.WARNING, logging.DEBUG):
        with caplog.at_level(level, "urllib3.connectionpool"), answering(answer) as url:
            with pytest.raises(exceptions.RequestException) as caught:
                make_session().get(f"{url}/a?b=c", timeout=PATIENCE_S)
            port = url.rpartition(":")[2]
            raised.append((caught.type, str(caught.value).replace(port, "PORT")))
    assert raised[0] == raised[1]


def test_a_request_that_failed_is_not_sent_again(make_session: MakeSession) -> None:
    good = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    with answering(b"HTTP/1.1 2", good) as url:
        with pytest.raises(exceptions.ConnectionError):
            make_session().post(f"{url}/", data=b"once", timeout=PATIENCE_S)
        # So the answer is there for the next.
        assert make_session().post(f"{url}/", data=b"twice", timeout=PATIENCE_S).text == "ok"


def test_urllib3_logs_and_retries_as_it_does(
    make_session: MakeSession, caplog: pytest.LogCaptureFixture
) -> None:
    busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
    good = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    retries = [
        Retry(1, status_forcelist=[503]),
        Retry(total=None, status=1, status_forcelist=[503]),
        Retry(total=None, connect=0, read=1, allowed_methods=None),
    ]
    for retry, first in zip(retries, (busy, busy, b"HTTP/1.1 5"), strict=True):
        with answering(first, good) as url:
            session = make_session(max_retries=retry)
            assert session.get(f"{url}/", timeout=PATIENCE_S).text == "ok"
    with caplog.at_level(logging.DEBUG, "urllib3.connectionpool"), answering(good) as url:
        assert make_session().get(f"{url}/a", timeout=PATIENCE_S).ok
    assert f'{url} "GET /a HTTP/1.1" 200 2' in caplog.text


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", exceptions.ConnectionError),
        (b"nonsense\r\n\r\n", exceptions.ConnectionError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfive", exceptions.ChunkedEncodingError),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfive",
            exceptions.ChunkedEncodingError,
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n",
            exceptions.ChunkedEncodingError,
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nfive",
            exceptions.ContentDecodingError,
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nfive",
            exceptions.ContentDecodingError,
        ),
    ],
)
def test_answers_that_are_broken(
    make_session: MakeSession, answer: bytes, expected: type[Exception]
) -> None:
    with answering(answer) as url, pytest.raises(expected):
        make_session().get(url, timeout=PATIENCE_S)


def test_an_endless_answer_is_seen_while_it_is_made(make_session: MakeSession) -> None:
    begun = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\nfirst\n\r\n"
    with answering(begun, hold=True) as url:
        answer = make_session().get(url, stream=True, timeout=PATIENCE_S)
        assert next(answer.iter_lines()) == b"first"
        answer.close()
    packed = b"HTTP/1.1 200 OK\r\n\r\n" + bytes.fromhex(
        "1f8b08000000000000034acb2c2a2e01000000ffff"
    )
    with answering(packed[:17] + b"content-encoding: gzip\r\n" + packed[17:], hold=True) as url:
        answer = make_session().get(url, stream=True, timeout=PATIENCE_S)
        assert next(answer.iter_content(1000)) == b"first"
        answer.close()


def test_an_answer_before_the_content_was_sent(make_session: MakeSession) -> None:
    refused = b"HTTP/1.1 413 Too large\r\ncontent-length: 2\r\n\r\nno"
    # The server reads none of it, and would not for ever.
    with answering(refused, hold=True) as url:
        answer = make_session().post(url, data=iter([bytes(1000)] * 50_000), timeout=PATIENCE_S)
    assert (answer.status_code, answer.content) == (413, b"no")


def test_hints_and_trailers(make_session: MakeSession) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
    chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nsum: 7\r\n\r\n"
    with answering(hints + chunks) as url:
        answer = make_session().get(url, timeout=PATIENCE_S)
    assert (answer.status_code, answer.content) == (200, b"ok")
    assert answer.raw.trailers == [("sum", "7")]
    assert answer.raw.stream_id == 1


def test_retries_follow_urllib3_s_policy(make_session: MakeSession) -> None:
    busy = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    good = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    policy = Retry(total=3, status_forcelist=[503], backoff_factor=0)
    with answering(busy, busy, good) as url:
        answer = make_session(max_retries=policy).put(url, data=b"again", timeout=PATIENCE_S)
    assert answer.content == b"ok"
    assert [entry.status for entry in answer.raw.retries.history] == [503, 503]
    body = io.BytesIO(b"skipped, sent again")
    body.seek(9)
    with answering(busy, good) as url:
        answer = make_session(max_retries=policy).put(url, data=body, timeout=PATIENCE_S)
    assert (answer.content, body.tell()) == (b"ok", 19)
    with answering(busy, busy, busy, busy) as url, pytest.raises(exceptions.RetryError):
        make_session(max_retries=policy).get(url, timeout=PATIENCE_S)
    # A number counts connections that cannot be made, not answers nor what breaks while waiting.
    with answering(b"", good) as url, pytest.raises(exceptions.ConnectionError):
        make_session(max_retries=3).post(url, data=b"once", timeout=PATIENCE_S)


def test_requests_that_cannot_be_sent(
    make_session: MakeSession, server: Server, version: str
) -> None:
    session = make_session(version)
    with pytest.raises(exceptions.InvalidHeader):
        session.get(f"{server.https}/hello", headers={"X-Split": "a\r\nb: c"})
    with pytest.raises(ValueError, match=r"method|GET IT"):
        session.request("GET IT", f"{server.https}/hello")
    with pytest.raises(exceptions.InvalidURL):
        session.get("https://")
    assert session.get(f"{server.https}/hello").ok


def test_options_of_urllib3_that_would_be_ignored_are_refused(make_session: MakeSession) -> None:
    session = make_session()
    adapter = session.get_adapter("https://")
    assert isinstance(adapter, requests.adapters.HTTPAdapter)
    adapter.init_poolmanager(10, 10, assert_fingerprint="00")
    with pytest.raises(ValueError, match="assert_fingerprint"):
        session.get("https://127.0.0.1:1/")
