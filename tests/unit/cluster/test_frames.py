"""Frames: what was written is read, however it comes in; what is none is refused."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilane.cluster import frames
from trilane.cluster.frames import BadFrame, Frame, Splitter

FRAMES = st.lists(
    st.builds(Frame, st.sampled_from([b"S", b"W", b"R", b"E"]), st.binary(max_size=300)),
    max_size=8,
)


def written(frame: Frame) -> bytes:
    """As a share writes it."""
    return struct.pack("<I", 1 + len(frame.content)) + frame.kind + frame.content


@given(FRAMES, st.lists(st.integers(0, 3000), max_size=12))
def test_frames_are_read_wherever_the_stream_is_cut(sent: list[Frame], cuts: list[int]) -> None:
    stream = b"".join(map(written, sent))
    ends = sorted({min(cut, len(stream)) for cut in cuts} | {len(stream)})
    splitter = Splitter()
    read: list[Frame] = []
    begin = 0
    for end in ends:
        read += splitter.feed(stream[begin:end])
        begin = end
    assert read == sent


@pytest.mark.parametrize("length", [0, frames.LIMIT + 1, 2**32 - 1])
def test_a_length_that_no_frame_has_is_refused(length: int) -> None:
    with pytest.raises(BadFrame, match=f"writes a frame of {length} bytes"):
        Splitter().feed(struct.pack("<I", length))


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(BadFrame):
        Splitter().feed(b"thread 'main' panicked")


def test_a_relayed_frame_has_the_workers_index_before_its_kind() -> None:
    length, worker, kind = struct.unpack("<IHc", frames.relayed(513, Frame(b"W", b"xyz"))[:7])
    assert (length, worker, kind) == (6, 513, b"W")
    assert frames.relayed(513, Frame(b"W", b"xyz"))[7:] == b"xyz"


def test_reports_and_errors_are_last() -> None:
    assert [kind for kind in b"SWREBL" if Frame(bytes([kind]), b"").is_last] == list(b"RE")


def test_what_went_wrong_is_told_in_a_bounded_frame() -> None:
    told = frames.failed("x" * 1_000_000, 2)
    assert told.kind == b"E"
    assert json.loads(told.content)["exit_code"] == 2
    assert len(told.content) < 5000
    assert json.loads(frames.lost("it left").content) == {"reason": "it left"}
