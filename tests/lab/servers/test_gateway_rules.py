"""Rules from service configuration files, and query parameters that nobody knows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from peers import embedded
from peers.grpc_described import Described, echoing
from peers.peer import Peer
from repository import native

from .gateways import said
from .test_embedded_rest import refusal
from .web import JSON, Web

Own = Callable[[Callable[[Path], Peer]], Peer]

LINES = """
syntax = "proto3";
package demo.v1;
import "google/api/annotations.proto";
message Line { string text = 1; Line next = 2; }
service Lines {
  rpc Say(Line) returns (Line) { option (google.api.http) = { get: "/say/{text}" }; }
  rpc Sing(Line) returns (Line) { option (google.api.http) = { get: "/sing/{text}" }; }
}
"""
# As in "gRPC API configuration" of grpc-gateway's documentation, and ESPv2's.
RULES = """
type: google.api.Service
config_version: 3
name: lines.example.com
title: Lines
apis:
- name: demo.v1.Lines
http:
  fully_decode_reserved_expansion: true
  rules:
  - selector: demo.v1.Lines.Say
    post: "/lines/{text=**}"
    body: next
    additional_bindings:
    - get: "/lines/{text=*/*}:say"
      response_body: text
"""
NOT_FOUND, NOT_FOUND_CODE = 404, 5
BAD_REQUEST, INVALID_CODE = 400, 3


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Described:
    folder = tmp_path_factory.mktemp("lines")
    file = folder / "lines.proto"
    file.write_text(LINES)
    return Described(folder, file)


@pytest.fixture
def upstream() -> Iterator[str]:
    with echoing() as url:
        yield url


def flags(described: Described, *more: object) -> tuple[str, ...]:
    return ("--descriptor-set", str(described.set), *map(str, more))


def check(web: Web) -> None:
    content = b'{"text":"b"}'
    answer = web.ask("POST", "/lines/a%2Fb/c", content, content_type=JSON)
    assert json.loads(answer.content) == {"text": "a/b/c", "next": {"text": "b"}}
    assert json.loads(web.ask("GET", "/lines/a/b%2Fc:say").content) == "a/b%2Fc"
    # The rule of the option is no more; that of the other method is.
    assert web.ask("GET", "/say/a").status == NOT_FOUND
    assert json.loads(web.ask("GET", "/sing/a").content) == {"text": "a"}
    answer = web.ask("POST", "/demo.v1.Lines/Say", content, content_type=JSON)
    assert json.loads(answer.content) == {"text": "b"}


def test_rules_of_a_file_override_those_of_options(
    own: Own, described: Described, upstream: str, tmp_path: Path
) -> None:
    rules = tmp_path / "lines.yaml"
    rules.write_text(RULES)
    more = flags(described, "--service-config", rules)
    peer = own(lambda folder: embedded.start(native(), folder, gateway_to=[upstream], flags=more))
    with Web.open(peer, "h2c") as web:
        check(web)
        assert json.loads(web.ask("GET", "/openapi.json").content)["info"]["title"] == "Lines"
    more = ("--upstream", upstream, *more)
    peer = own(lambda folder: embedded.start(native(), folder, flags=more))
    with Web.open(peer, "h1") as web:
        check(web)
        assert web.ask("GET", "/hello").content == b"hello world"


def test_the_last_file_wins(own: Own, described: Described, upstream: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.json"
    one.write_text(RULES)
    rule = {"selector": "demo.v1.*, demo.v1.Lines.Say", "get": "/all/{text}"}
    two.write_text(json.dumps({"http": {"rules": [rule | {"selector": "demo.v1.Lines.Say"}]}}))
    more = flags(described, "--service-config", one, "--service-config", two)
    peer = own(lambda folder: embedded.start(native(), folder, gateway_to=[upstream], flags=more))
    with Web.open(peer, "h1") as web:
        assert json.loads(web.ask("GET", "/all/a").content) == {"text": "a"}
        refusal(web.ask("POST", "/lines/a"), NOT_FOUND, NOT_FOUND_CODE)
    # One path for two methods is none.
    two.write_text(json.dumps({"http": {"rules": [rule]}}))
    line = said("--upstream", upstream, *more, code=1)
    assert "demo.v1.Lines.Say" in line
    assert "demo.v1.Lines.Sing" in line


def test_what_is_no_service_configuration(
    described: Described, upstream: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.yaml"
    asked = ("--upstream", upstream, *flags(described, "--service-config", file))
    assert "--service-config: cannot read" in said(*asked, code=1)
    for text, words in (
        ("http: [", "this is no service configuration"),
        ("apis: []", 'it has no "http"'),
        (RULES.replace("Lines.Say", "Lines.Shout"), 'the selector "demo.v1.Lines.Shout"'),
        (RULES.replace("post:", "push:"), "push"),
        (RULES.replace("body: next", "body: nest"), "nest"),
    ):
        file.write_text(text)
        line = said(*asked, code=1 if words == "nest" else 2)
        assert words in line
        assert "a.yaml" in line


def test_parameters_that_nobody_knows(own: Own, described: Described, upstream: str) -> None:
    path = "/say/a?utm_source=mail&next.text=b"
    more = flags(described)
    peer = own(lambda folder: embedded.start(native(), folder, gateway_to=[upstream], flags=more))
    with Web.open(peer, "h1") as web:
        assert "utm_source" in refusal(web.ask("GET", path), BAD_REQUEST, INVALID_CODE)
    more = flags(described, "--ignore-unknown-query")
    peer = own(lambda folder: embedded.start(native(), folder, gateway_to=[upstream], flags=more))
    with Web.open(peer, "h1") as web:
        assert json.loads(web.ask("GET", path).content) == {"text": "a", "next": {"text": "b"}}
