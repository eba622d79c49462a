"""Wrong use of `trilane load --grpc`: one line that says what to type, and exit code 2."""

from __future__ import annotations

import subprocess

import pytest

from repository import native

from .grpc_calls import PROTO_FLAGS, UNARY
from .loading import load_text

URL = "http://127.0.0.1:9/"
CALL = ["--grpc", UNARY.name, *PROTO_FLAGS]
WRONG: list[tuple[list[str], list[str]]] = [
    ([URL, *CALL, "--h1"], ["--h2c"]),
    (["https://127.0.0.1:9/", *CALL, "--h1"], ["--h2"]),
    ([URL, *CALL, "--h2"], ["--h2c"]),
    ([URL, *CALL, "--grpc-mode", "quick"], ["wire", "codec"]),
    ([URL, *CALL, "--deadline", "0"], ["--deadline"]),
    ([URL, *CALL, "--deadline", "soon"], ["--deadline"]),
    ([URL, *CALL, "--messages", "0"], ["--messages"]),
    ([URL, *CALL, "--messages", "2"], ["--messages", "unary"]),
    ([URL, *CALL, "-X", "PUT"], ["--method"]),
    ([URL, *CALL, "-H", "content-type: text/plain"], ["content-type"]),
    ([URL, *CALL, "-H", "te: gzip"], ["te"]),
    ([URL, *CALL, "-H", "grpc-timeout: 1S"], ["grpc-timeout"]),
    ([URL, *CALL, "-H", "grpc-encoding: gzip"], ["grpc-encoding"]),
    ([URL, *CALL, "-H", "blob-bin: not base 64!"], ["blob-bin"]),
    ([URL, *CALL, "--descriptor-set", "x.pb"], ["--descriptor-set"]),
    ([URL, "--proto", "x.proto"], ["--grpc"]),
    ([URL, "--descriptor-set", "x.pb"], ["--grpc"]),
    ([URL, "--deadline", "1s"], ["--grpc"]),
    ([URL, "--grpc-mode", "codec"], ["--grpc"]),
    ([URL, "--messages", "2"], ["--grpc"]),
    ([URL, "--gzip"], ["--grpc"]),
    ([URL, "--keepalive", "1s"], ["--keepalive", "--h2c"]),
    ([URL, "--h2c", "--keepalive", "1ms"], ["--keepalive 10s"]),
    ([URL, "--grpc", UNARY.name, "--proto-path", "proto"], ["--proto"]),
]


@pytest.mark.parametrize(
    ("arguments", "hints"),
    WRONG,
    ids=[" ".join(a[1:]).replace(" ".join(CALL), "…") for a, _ in WRONG],
)
def test_one_line_says_what_to_type(arguments: list[str], hints: list[str]) -> None:
    run = load_text(*arguments)
    assert run.code == 2, run
    assert run.out == ""
    for hint in hints:
        assert hint in run.message, run


def test_http_means_h2c() -> None:
    # No version was given, and the port is refused: the arguments were accepted.
    run = load_text(URL, *CALL)
    assert run.code == 1, run
    assert "refused" in run.message


def test_help_names_every_flag_of_the_contract() -> None:
    done = subprocess.run([native(), "load", "--help"], capture_output=True, text=True, check=True)
    for flag in (
        *("--grpc", "--proto", "--proto-path", "--descriptor-set", "--messages", "--grpc-mode"),
        *("--deadline", "--gzip"),
    ):
        assert flag in done.stdout, flag
