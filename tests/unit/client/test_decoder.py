"""Content codings against Python's own gzip and zlib."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable

import pytest

from trilane._core import Decoder
from trilane.client.errors import DecodingError, InvalidRequest

TEXT = b"".join(b"line %d of a text that repeats itself\n" % number for number in range(5000))
NOISE = random.Random(0).randbytes(300_000)


def raw_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-15)
    return encoder.compress(data) + encoder.flush()


def with_name(data: bytes) -> bytes:
    coded = gzip.compress(data)
    flags = 0x08 | 0x10 | 0x04
    return (
        coded[:3]
        + bytes([flags])
        + coded[4:10]
        + b"\x02\x00ab"
        + b"name\0"
        + b"note\0"
        + coded[10:]
    )


def compressed(data: bytes, wbits: int) -> bytes:
    encoder = zlib.compressobj(wbits=wbits)
    return encoder.compress(data) + encoder.flush()


ENCODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip with a name": ("x-gzip", with_name),
    "stored gzip": ("GZIP", lambda data: gzip.compress(data, 0)),
    "zlib": ("deflate", zlib.compress),
    "small zlib window": ("deflate", lambda data: compressed(data, 9)),
    "raw deflate": ("deflate", raw_deflate),
}


@pytest.fixture(params=list(ENCODERS))
def coding(request: pytest.FixtureRequest) -> tuple[str, Callable[[bytes], bytes]]:
    return ENCODERS[request.param]


@pytest.mark.parametrize("content", [b"", b"x", TEXT, NOISE], ids=["empty", "one", "text", "noise"])
@pytest.mark.parametrize("piece", [1, 1000, 10**9])
def test_what_python_compresses(
    coding: tuple[str, Callable[[bytes], bytes]], content: bytes, piece: int
) -> None:
    name, encode = coding
    if piece == 1:
        content = content[:3000]
    coded = encode(content)
    decoder = Decoder([name])
    parts = [decoder.decode(coded[at : at + piece]) for at in range(0, len(coded), piece)]
    assert b"".join(parts) + decoder.finish() == content


def test_in_portions(coding: tuple[str, Callable[[bytes], bytes]]) -> None:
    name, encode = coding
    decoder = Decoder([name])
    parts = [decoder.decode(encode(TEXT), 1000)]
    while parts[-1]:
        assert len(parts[-1]) <= 1000
        parts.append(decoder.decode(b"", 1000))
    assert b"".join(parts) + decoder.finish() == TEXT


def test_any_buffer() -> None:
    coded = gzip.compress(TEXT)
    spread = bytearray(2 * len(coded))
    spread[::2] = coded
    for data in (bytearray(coded), memoryview(coded), memoryview(spread)[::2]):
        assert Decoder(["gzip"]).decode(data) == TEXT


def test_codings_one_over_another() -> None:
    decoder = Decoder(["deflate", "gzip"])
    assert decoder.decode(gzip.compress(zlib.compress(TEXT))) == TEXT
    assert decoder.finish() == b""


def test_cut_off_and_damaged(coding: tuple[str, Callable[[bytes], bytes]]) -> None:
    name, encode = coding
    coded = encode(TEXT)
    decoder = Decoder([name])
    decoder.decode(coded[:-1])
    with pytest.raises(DecodingError, match="cut off"):
        decoder.finish()
    # Which browsers, Requests and HTTPX pass over too.
    assert Decoder([name]).decode(coded + b"garbage") == TEXT
    with pytest.raises(ValueError, match="not valid"):
        Decoder([name]).decode(b"\xff\xff\xff\xff" + coded)


def test_a_wrong_checksum() -> None:
    coded = bytearray(gzip.compress(TEXT))
    coded[-5] ^= 1
    with pytest.raises(DecodingError, match="incorrect data check"):
        Decoder(["gzip"]).decode(coded)


def test_limits() -> None:
    coded = gzip.compress(TEXT)
    assert Decoder(["gzip"], limit=len(TEXT)).decode(coded) == TEXT
    with pytest.raises(DecodingError, match=f"limit of {len(TEXT) - 1} bytes"):
        Decoder(["gzip"], limit=len(TEXT) - 1).decode(coded)
    with pytest.raises(OverflowError):
        Decoder(["gzip"], limit=-1)


def test_a_bomb() -> None:
    coded = gzip.compress(bytes(50 << 20), 9)
    with pytest.raises(DecodingError, match="decompression bomb"):
        Decoder(["gzip"]).decode(coded)
    # In portions the guard counts what was asked for.
    decoder = Decoder(["gzip"])
    taken = len(decoder.decode(coded, 1000))
    assert taken == 1000


def test_names() -> None:
    for codings in (["compress"], ["gzip", ""], ["gzip"] * 6):
        with pytest.raises(InvalidRequest) as caught:
            Decoder(codings)
        assert isinstance(caught.value, ValueError)
    with pytest.raises(TypeError):
        Decoder("gzip")
    assert Decoder([]).decode(b"as it is") == b"as it is"


def test_a_decoder_shows_its_codings() -> None:
    assert repr(Decoder(["gzip", "br"], limit=10)) == (
        "<trilane._core.Decoder gzip, br, at most 10 bytes>"
    )
    assert repr(Decoder([])) == "<trilane._core.Decoder identity>"
