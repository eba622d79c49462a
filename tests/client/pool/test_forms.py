"""Parameters, forms and files by either client, read by other people's parsers."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

import httpx
import multipart  # type: ignore[import-untyped]
import pytest
import requests
from urllib3.fields import RequestField
from urllib3.filepost import encode_multipart_formdata

from client.face import AnyClient, Each, MakeClient
from trilane.client._flow.multipart import Multipart
from trilane.client.errors import InvalidRequest

from .recorder import NO_TLS, Recorder

BLOCK = bytes(range(256)) * 4096


@pytest.fixture
def client(make_client: MakeClient) -> AnyClient:
    return make_client()


PARAMS: list[Any] = [
    {"a": "1", "b": "ü &=+/?#"},
    {"a": ["1", "2"], "b": 3},
    [("a", "1"), ("a", "2")],
    {"none": None, "a": "1"},
    {},
    "a=1&b=%20",
    {"a": b"\xff"},
]


@pytest.mark.parametrize("params", PARAMS, ids=repr)
@pytest.mark.parametrize("path", ["/", "/x?y=z", "/x#part"])
def test_params_are_as_requests_has_them(
    client: AnyClient, recorder: Recorder, path: str, params: Any
) -> None:
    url = recorder.base + path
    prepared = requests.Request("GET", url, params=params).prepare()
    client.get(url, params=params)
    [got] = recorder.forget()
    assert got.path == prepared.path_url


def test_params_and_base_url_of_the_client(make_client: MakeClient, recorder: Recorder) -> None:
    client = make_client(base_url=f"{recorder.base}/api/", params={"key": "k"})
    with httpx.Client(base_url=f"{recorder.base}/api/", trust_env=False, verify=NO_TLS) as other:
        for url in ("users", "/users", "", "a/b", f"{recorder.other}/x", "?q=1", "a?u=http://b/"):
            other.get(url)
            client.get(url)
            theirs, ours = recorder.forget()
            assert ours.path.replace("&key=k", "").replace("?key=k", "") == theirs.path
    client.get("users", params={"key": "more"})
    assert recorder.forget()[0].path == "/api/users?key=k&key=more"
    with pytest.raises(InvalidRequest, match="base"):
        make_client(base_url="base")


FORMS: list[Any] = [
    {"a": "1", "b": "ü &=+\r\n"},
    {"a": ["1", "2"]},
    [("a", "1"), ("a", "2")],
    {"a": 5, "b": 1.5},
]


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_forms_are_as_requests_has_them(client: AnyClient, recorder: Recorder, form: Any) -> None:
    prepared = requests.Request("POST", recorder.base, data=form).prepare()
    client.post(f"{recorder.base}/", data=form)
    [got] = recorder.forget()
    assert got.body.decode() == prepared.body
    assert got.field("content-type") == prepared.headers["content-type"]


def _parsed(content_type: str, body: bytes) -> list[tuple[str, str | None, str | None, bytes]]:
    """What the package `multipart` reads: name, file name, type and content of each part."""
    _, options = multipart.parse_options_header(content_type)
    parser = multipart.MultipartParser(io.BytesIO(body), options["boundary"], strict=True)
    parts = parser.parts()
    found = [(part.name, part.filename, part.content_type, part.raw) for part in parts]
    for part in parts:
        part.close()
    return found


def test_files_arrive(client: AnyClient, recorder: Recorder, tmp_path: Path) -> None:
    path = tmp_path / "grüße.txt"
    path.write_bytes(BLOCK)
    with path.open("rb") as file:
        files = {
            "plain": b"content",
            "file": file,
            "named": ("a.json", '{"ü": 1}'),
            "typed": ("a.bin", io.BytesIO(b"x"), "image/png"),
            "nameless": (None, b"field"),
        }
        client.post(f"{recorder.base}/", data={"text": "ü", "many": ["1", "2"]}, files=files)
    [got] = recorder.forget()
    assert got.field("content-length") == str(len(got.body))
    parts = _parsed(str(got.field("content-type")), got.body)
    assert [(name, filename, raw) for name, filename, _, raw in parts] == [
        ("text", None, "ü".encode()),
        ("many", None, b"1"),
        ("many", None, b"2"),
        ("plain", "plain", b"content"),
        ("file", "grüße.txt", BLOCK),
        ("named", "a.json", '{"ü": 1}'.encode()),
        ("typed", "a.bin", b"x"),
        ("nameless", None, b"field"),
    ]
    assert [kind for _, filename, kind, _ in parts if filename is not None] == [
        "application/octet-stream",
        "text/plain",
        "application/json",
        "image/png",
    ]


NAMES = ["plain", "ü", 'quo"te', "line\r\nend", "back\\slash", "semi;colon", "per%22cent", "a=b"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_written_as_browsers_and_urllib3_do(name: str) -> None:
    made = Multipart([("field", "value")], {name: (name, b"content", "text/x")})
    written = b"".join(made.blocks())
    boundary = made.content_type.partition("boundary=")[2]
    theirs = [RequestField.from_tuples("field", "value")]
    theirs.append(RequestField.from_tuples(name, (name, b"content", "text/x")))
    assert written == encode_multipart_formdata(theirs, boundary)[0]
    if "\\" not in name:  # HTTPX doubles it.
        files, fields = {name: (name, b"content", "text/x")}, {"content-type": made.content_type}
        request = httpx.Request(
            "POST", "http://x/", data={"field": "value"}, files=files, headers=fields
        )
        assert written == request.read()
    # What WHATWG wants, and no line that is ended by a name.
    head = written.split(b"\r\n\r\n")[1]
    assert re.search(rb'filename="[^"\r\n]*"\r\n', head)


def test_a_field_with_a_line_end_is_refused(client: AnyClient, recorder: Recorder) -> None:
    with pytest.raises(InvalidRequest, match="line end"):
        client.post(recorder.base, files={"a": ("b", b"c", "text/x\r\nx-evil: 1")})
    assert recorder.got == []


def test_the_length_is_told_only_where_it_is_known(recorder: Recorder, client: AnyClient) -> None:
    class Pipe(io.RawIOBase):
        left = b"content"

        def read(self, amount: int = -1) -> bytes:
            taken, self.left = self.left[:amount], self.left[amount:]
            return taken

    client.post(f"{recorder.base}/", files={"a": Pipe()})
    [got] = recorder.forget()
    assert got.field("transfer-encoding") == "chunked"
    assert _parsed(str(got.field("content-type")), got.body)[0][3] == b"content"


def test_files_are_sent_again(make_client: MakeClient, recorder: Recorder) -> None:
    client = make_client(follow_redirects=True)
    file = io.BytesIO(b"skipped" + BLOCK)
    file.seek(7)
    client.post(recorder.redirect(307, "/end"), files={"a": ("b", file)})
    first, second = recorder.forget()
    assert first.body == second.body
    assert _parsed(str(second.field("content-type")), second.body)[0][3] == BLOCK


@pytest.mark.parametrize("kind", [{"data": b"raw"}, {"data": "a=1"}, {"files": b"x"}, {"data": 5}])
def test_what_is_no_form(client: AnyClient, recorder: Recorder, kind: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="content="):
        client.post(recorder.base, **kind)


@pytest.mark.parametrize("given", [{"json": 1, "data": {}}, {"content": b"x", "json": 1}])
def test_one_content_at_a_time(client: AnyClient, recorder: Recorder, given: Any) -> None:
    with pytest.raises(TypeError, match="given together"):
        client.request("POST", recorder.base, **given)


@pytest.mark.parametrize("path", [Path("a"), 5, None, object()])
def test_what_is_no_file(client: AnyClient, recorder: Recorder, path: Any) -> None:
    with pytest.raises(TypeError, match="an open file, bytes or text"):
        client.post(recorder.base, files={"a": path})


def test_files_arrive_over_every_version(each: Each) -> None:
    client, _, base = each
    content = BLOCK * 3  # More than the window of a stream.
    response = client.post(f"{base}/echo", data={"a": "b"}, files={"f": io.BytesIO(content)})
    sent = str(response.request.headers["content-type"])
    assert [raw for *_, raw in _parsed(sent, response.content)] == [b"b", content]


def test_progress_of_anything_that_is_sent(each: Each) -> None:
    client, _, base = each
    whole = len(BLOCK) * 3
    contents: list[tuple[dict[str, Any], int | None]] = [
        ({"content": BLOCK * 3}, whole),
        ({"content": io.BytesIO(BLOCK * 3)}, whole),
        ({"content": iter([BLOCK] * 3)}, None),
        ({"content": b"short"}, 5),
        ({"files": {"a": ("b", io.BytesIO(BLOCK), "x/y")}}, -1),
    ]
    for options, total in contents:
        told: list[tuple[int, int | None]] = []

        def tell(sent: int, all_: int | None, told: list[Any] = told) -> None:
            told.append((sent, all_))

        response = client.post(f"{base}/echo", **options, progress=tell)
        sent = [each for each, _ in told]
        assert sent == sorted(sent)
        assert sent[0] == 0
        assert sent[-1] == len(response.content)
        assert {each for _, each in told} == {len(response.content) if total == -1 else total}


def test_progress_begins_again_with_the_content(
    make_client: MakeClient, recorder: Recorder
) -> None:
    client = make_client(follow_redirects=True)
    told: list[int] = []
    client.put(
        recorder.redirect(307, "/end"), b"content", progress=lambda sent, _: told.append(sent)
    )
    assert told == [0, 7, 0, 7]


def test_what_progress_raises_passes_through(client: AnyClient, recorder: Recorder) -> None:
    def stop(sent: int, total: int | None) -> None:
        raise LookupError(sent)

    with pytest.raises(LookupError):
        client.post(f"{recorder.base}/", b"content", progress=stop)


@pytest.mark.parametrize("value", [float("nan"), {"a": [float("-inf")]}])
def test_numbers_that_json_does_not_have(client: AnyClient, value: Any) -> None:
    with pytest.raises(ValueError, match="json= has a number that JSON does not have"):
        client.post("http://localhost/", json=value)


def test_json_and_echo(client: AnyClient, recorder: Recorder) -> None:
    response = client.post(f"{recorder.base}/", json={"a": [1]})
    assert base64.b64decode(response.json()["body"]) == b'{"a":[1]}'
