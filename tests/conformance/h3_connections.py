"""Cases of HTTP/3: control, QPACK and other streams of the server's; how requests are given up."""

from __future__ import annotations

from dataclasses import replace

from client.wire.h3_chaos import DATA, GOAWAY, HEADERS, OK, PUSH_PROMISE, SETTINGS, frame, length

from .cases import BEYOND, CLOSED, REQUEST, SILENT, Close, Reset, Say, Seen, Stop, Taken
from .h3 import (
    ANSWER,
    BIDIRECTIONAL,
    CONTROL,
    DECODER,
    ENCODER,
    GREETING,
    OF_CLIENT,
    OTHER,
    RESET,
    Case,
    Code,
    begins,
    breaks,
    goes,
)

CANCEL_PUSH, MAX_PUSH_ID = 3, 0x0D
STREAM_LIMIT_ERROR = 4
"""An error code of QUIC (RFC 9000 §20.1)."""
BODY = b"hello world"
# 2^62 - 4: the last id that a request can have.
LAST = b"\xff\xff\xff\xff\xff\xff\xff\xfc"
DUPLICATES = (
    "RFC 9114 §7.2.4: a receiver MAY treat the presence of duplicate setting identifiers as a"
    " connection error of type H3_SETTINGS_ERROR"
)
LIMIT = (
    "RFC 9114 §6.1: clients MUST treat receipt of a server-initiated bidirectional stream as a"
    " connection error of type H3_STREAM_CREATION_ERROR unless such an extension has been"
    " negotiated; RFC 9000 §4.6: an endpoint that receives a frame with a stream ID exceeding the"
    " limit it has sent MUST treat this as a connection error of type STREAM_LIMIT_ERROR"
)
LOAD = (
    "RFC 9114 §10.5: an endpoint MAY treat activity that is suspicious as a connection error of"
    " type H3_EXCESSIVE_LOAD"
)


def settings(payload: bytes) -> Say:
    """A control stream with SETTINGS of this payload."""
    return Say(CONTROL, b"\0" + frame(SETTINGS, payload))


def control(data: bytes) -> Say:
    """More of the control stream."""
    return Say(CONTROL, data)


CONTROL_STREAM = (
    goes("an empty SETTINGS frame", "RFC 9114 §7.2.4"),
    Case("no control stream", "RFC 9114 §6.2.1", opening=()),
    Case(
        "a control stream that says nothing yet", "RFC 9114 §6.2.1", opening=(Say(CONTROL, b"\0"),)
    ),
    Case(
        "a control stream in pieces",
        "RFC 9114 §6.2",
        opening=tuple(Say(CONTROL, bytes([b])) for b in b"\0\4\3\6\x44\0"),
    ),
    Case(
        "types and lengths as long as they go",
        "RFC 9114 §7.1",
        opening=(Say(CONTROL, b"\x40\0" + b"\x80\0\0\4" + b"\xc0" + bytes(7)),),
    ),
    Case(
        "every setting there is",
        "RFC 9114 §7.2.4",
        opening=(settings(b"\1\x50\0\6\x80\1\0\0\7\x10\x08\1\x33\1"),),
    ),
    Case(
        "settings that nobody knows",
        "RFC 9114 §7.2.4",
        opening=(settings(b"\x21\7\x40\x40\x3f\x52\x41\0"),),
    ),
    begins(
        "a setting twice",
        "RFC 9114 §7.2.4",
        Code.H3_SETTINGS_ERROR,
        settings(b"\6\x10\6\x10"),
        deviation=DUPLICATES,
    ),
    begins(
        "an unknown setting twice",
        "RFC 9114 §7.2.4",
        Code.H3_SETTINGS_ERROR,
        settings(b"\x21\0\x21\1"),
        deviation=DUPLICATES,
    ),
    *(
        begins(
            f"the setting 0x{number:02x} of HTTP/2",
            "RFC 9114 §7.2.4.1",
            Code.H3_SETTINGS_ERROR,
            settings(bytes([number, 1])),
        )
        for number in range(2, 6)
    ),
    begins("a setting without a value", "RFC 9114 §7.1", Code.H3_FRAME_ERROR, settings(b"\6")),
    begins(
        "a setting whose value is cut", "RFC 9114 §7.1", Code.H3_FRAME_ERROR, settings(b"\6\x80\0")
    ),
    replace(
        begins(
            "SETTINGS of 5,000 bytes",
            "RFC 9114 §10.5",
            Code.H3_EXCESSIVE_LOAD,
            settings(b"\x21\0" * 2500),
            deviation=LOAD,
        ),
        expected=BEYOND,
    ),
    *(
        begins(
            f"{name} before SETTINGS",
            "RFC 9114 §6.2.1",
            Code.H3_MISSING_SETTINGS,
            Say(CONTROL, b"\0" + frame(kind, payload)),
        )
        for name, kind, payload in (
            ("DATA", DATA, b"x"),
            ("HEADERS", HEADERS, OK),
            ("GOAWAY", GOAWAY, b"\0"),
            ("an unknown frame", 0x21, b""),
        )
    ),
    *(
        breaks(
            f"{name} on the control stream",
            section,
            Code.H3_FRAME_UNEXPECTED,
            control(frame(kind, payload)),
        )
        for name, section, kind, payload in (
            ("a second SETTINGS", "RFC 9114 §7.2.4", SETTINGS, b""),
            ("DATA", "RFC 9114 §7.2.1", DATA, b"x"),
            ("HEADERS", "RFC 9114 §7.2.2", HEADERS, OK),
            ("PUSH_PROMISE", "RFC 9114 §7.2.5", PUSH_PROMISE, b"\0" + OK),
            ("MAX_PUSH_ID", "RFC 9114 §7.2.7", MAX_PUSH_ID, b"\0"),
            ("PRIORITY of HTTP/2", "RFC 9114 §7.2.8", 2, bytes(5)),
            ("PING of HTTP/2", "RFC 9114 §7.2.8", 6, bytes(8)),
            ("WINDOW_UPDATE of HTTP/2", "RFC 9114 §7.2.8", 8, b"\0\0\0\1"),
            ("CONTINUATION of HTTP/2", "RFC 9114 §7.2.8", 9, OK),
        )
    ),
    breaks(
        "CANCEL_PUSH of a push that was not permitted",
        "RFC 9114 §7.2.3",
        Code.H3_ID_ERROR,
        control(frame(CANCEL_PUSH, b"\0")),
    ),
    breaks(
        "CANCEL_PUSH without an id",
        "RFC 9114 §7.1",
        Code.H3_FRAME_ERROR,
        control(frame(CANCEL_PUSH)),
    ),
    breaks(
        "CANCEL_PUSH with more than an id",
        "RFC 9114 §7.1",
        Code.H3_FRAME_ERROR,
        control(frame(CANCEL_PUSH, b"\0\0")),
    ),
    goes(
        "unknown frames on the control stream",
        "RFC 9114 §9",
        control(frame(0x21, b"grease") + frame(0x40) + frame(0x1F * 1000 + 0x21, bytes(70_000))),
    ),
    goes(
        "an unknown frame without end on the control stream",
        "RFC 9114 §9",
        control(b"\x21\xc0\0\1\0\0\0\0\0" + bytes(1000)),
    ),
    breaks(
        "the end of the control stream",
        "RFC 9114 §6.2.1",
        Code.H3_CLOSED_CRITICAL_STREAM,
        Say(CONTROL, b"", end=True),
    ),
    begins(
        "the end of the control stream behind SETTINGS",
        "RFC 9114 §6.2.1",
        Code.H3_CLOSED_CRITICAL_STREAM,
        Say(CONTROL, b"\0\4\0", end=True),
    ),
    begins(
        "the end of the control stream behind its type",
        "RFC 9114 §6.2.1",
        Code.H3_CLOSED_CRITICAL_STREAM,
        Say(CONTROL, b"\0", end=True),
    ),
    breaks(
        "a reset of the control stream",
        "RFC 9114 §6.2.1",
        Code.H3_CLOSED_CRITICAL_STREAM,
        Reset(CONTROL, Code.H3_NO_ERROR),
    ),
    breaks(
        "STOP_SENDING of our control stream",
        "RFC 9114 §6.2.1",
        Code.H3_CLOSED_CRITICAL_STREAM,
        Stop(OF_CLIENT, Code.H3_NO_ERROR),
    ),
    breaks(
        "a second control stream",
        "RFC 9114 §6.2.1",
        Code.H3_STREAM_CREATION_ERROR,
        Say(OTHER, b"\0" + frame(SETTINGS)),
    ),
)

GOING_AWAY = (
    Case(
        "GOAWAY that rejects the request",
        "RFC 9114 §5.2",
        Taken(kept=False),
        opening=(*GREETING, control(frame(GOAWAY, b"\0"))),
        answer=(),
        once=True,
    ),
    Case(
        "GOAWAY that accepts the request",
        "RFC 9114 §5.2",
        Taken(kept=False),
        opening=(*GREETING, control(frame(GOAWAY, LAST))),
    ),
    Case(
        "GOAWAY twice, the second of fewer requests",
        "RFC 9114 §5.2",
        Taken(kept=False),
        opening=(*GREETING, control(frame(GOAWAY, LAST) + frame(GOAWAY, b"\4"))),
    ),
    Case(
        "GOAWAY twice, the same",
        "RFC 9114 §5.2",
        Taken(kept=False),
        opening=(*GREETING, control(frame(GOAWAY, b"\4") * 2)),
    ),
    breaks(
        "GOAWAY twice, the second of more requests",
        "RFC 9114 §5.2",
        Code.H3_ID_ERROR,
        control(frame(GOAWAY, b"\4") + frame(GOAWAY, b"\x08")),
    ),
    *(
        breaks(
            f"GOAWAY of stream {stream}, {whose}",
            "RFC 9114 §7.2.6",
            Code.H3_ID_ERROR,
            control(frame(GOAWAY, bytes([stream]))),
        )
        for stream, whose in (
            (1, "bidirectional of the server's"),
            (2, "unidirectional of the client's"),
            (3, "unidirectional of the server's"),
        )
    ),
    breaks("GOAWAY without an id", "RFC 9114 §7.1", Code.H3_FRAME_ERROR, control(frame(GOAWAY))),
    breaks(
        "GOAWAY with half an id",
        "RFC 9114 §7.1",
        Code.H3_FRAME_ERROR,
        control(frame(GOAWAY, b"\x80\0")),
    ),
    breaks(
        "GOAWAY with more than an id",
        "RFC 9114 §7.1",
        Code.H3_FRAME_ERROR,
        control(frame(GOAWAY, b"\4\0")),
    ),
    breaks(
        "GOAWAY with more than the longest id",
        "RFC 9114 §7.1",
        Code.H3_FRAME_ERROR,
        control(frame(GOAWAY, LAST + b"\0")),
    ),
)

QPACK_STREAMS = (
    goes(
        "QPACK streams that say nothing", "RFC 9204 §4.2", Say(ENCODER, b"\2"), Say(DECODER, b"\3")
    ),
    goes("a capacity of 0", "RFC 9204 §4.3.1", Say(ENCODER, b"\2\x20\x20")),
    *(
        breaks(name, section, Code.QPACK_ENCODER_STREAM_ERROR, Say(ENCODER, b"\2" + data))
        for name, section, data in (
            ("a capacity of 1", "RFC 9204 §4.3.1", b"\x21"),
            ("a capacity of 4,096", "RFC 9204 §4.3.1", b"\x3f\xe1\x1f"),
            ("an insertion with a name of the static table", "RFC 9204 §4.3.2", b"\xc4\1x"),
            ("an insertion with a name of the dynamic table", "RFC 9204 §4.3.2", b"\x80\1x"),
            ("an insertion with a literal name", "RFC 9204 §4.3.3", b"\x41a\1x"),
            ("a duplicate", "RFC 9204 §4.3.4", b"\0"),
        )
    ),
    goes("a stream cancellation", "RFC 9204 §4.4.2", Say(DECODER, b"\3\x44\x7f\x81\1")),
    *(
        breaks(name, section, Code.QPACK_DECODER_STREAM_ERROR, Say(DECODER, b"\3" + data))
        for name, section, data in (
            ("an acknowledgement of a section", "RFC 9204 §4.4.1", b"\x80"),
            ("an insert count increment of 0", "RFC 9204 §4.4.3", b"\0"),
            ("an insert count increment of 1", "RFC 9204 §4.4.3", b"\1"),
            ("a stream id of more than 62 bits", "RFC 9204 §4.1.1", b"\x7f" + b"\xff" * 10),
        )
    ),
    *(
        breaks(
            f"the end of the QPACK {name} stream",
            "RFC 9204 §4.2",
            Code.H3_CLOSED_CRITICAL_STREAM,
            Say(stream, kind, end=True),
        )
        for name, stream, kind in (("encoder", ENCODER, b"\2"), ("decoder", DECODER, b"\3"))
    ),
    *(
        breaks(
            f"a reset of the QPACK {name} stream",
            "RFC 9204 §4.2",
            Code.H3_CLOSED_CRITICAL_STREAM,
            Say(stream, kind),
            Reset(stream, Code.H3_NO_ERROR),
        )
        for name, stream, kind in (("encoder", ENCODER, b"\2\x20"), ("decoder", DECODER, b"\3\x44"))
    ),
    breaks(
        "a second QPACK encoder stream",
        "RFC 9204 §4.2",
        Code.H3_STREAM_CREATION_ERROR,
        Say(ENCODER, b"\2"),
        Say(OTHER, b"\2"),
    ),
    breaks(
        "a second QPACK decoder stream",
        "RFC 9204 §4.2",
        Code.H3_STREAM_CREATION_ERROR,
        Say(DECODER, b"\3"),
        Say(OTHER, b"\3"),
    ),
)

OTHER_STREAMS = (
    breaks(
        "a push stream", "RFC 9114 §4.6", Code.H3_ID_ERROR, Say(OTHER, b"\1\0" + frame(HEADERS, OK))
    ),
    breaks("a push stream without an id", "RFC 9114 §4.6", Code.H3_ID_ERROR, Say(OTHER, b"\1")),
    replace(
        goes("a stream of an unknown type", "RFC 9114 §6.2", Say(OTHER, b"\x21" + bytes(1000))),
        code=Code.H3_STREAM_CREATION_ERROR,
        seen=Seen.STOP_SENDING,
    ),
    goes(
        "a stream of an unknown type that ends",
        "RFC 9114 §6.2",
        Say(OTHER, b"\x40\x54" + bytes(1000), end=True),
    ),
    goes(
        "a stream of an unknown type that is reset",
        "RFC 9114 §6.2",
        Say(OTHER, b"\x21"),
        Reset(OTHER, Code.H3_NO_ERROR),
    ),
    goes("a stream that ends before its type", "RFC 9114 §6.2", Say(OTHER, b"", end=True)),
    goes("a stream that ends inside its type", "RFC 9114 §6.2", Say(OTHER, b"\x80\0", end=True)),
    goes(
        "a stream that is reset inside its type",
        "RFC 9114 §6.2",
        Say(OTHER, b"\x80\0"),
        Reset(OTHER, Code.H3_NO_ERROR),
    ),
    # We grant none, so that QUIC ends the connection before HTTP/3 sees the stream.
    breaks(
        "a bidirectional stream of the server's",
        "RFC 9000 §4.6",
        STREAM_LIMIT_ERROR,
        Say(BIDIRECTIONAL, frame(HEADERS, OK)),
        expected=CLOSED,
        deviation=LIMIT,
    ),
)

GIVEN_UP = (
    *(
        Case(
            f"a reset with {code.name}",
            "RFC 9114 §4.1.1",
            RESET,
            answer=(Reset(REQUEST, code),),
            code=code,
        )
        for code in Code
        if code is not Code.H3_REQUEST_REJECTED
    ),
    Case(
        "a reset with a code that nobody knows",
        "RFC 9114 §8",
        RESET,
        answer=(Reset(REQUEST, 0x21 + 0x1F * 9),),
        code=0x21 + 0x1F * 9,
    ),
    Case(
        "a reset with H3_REQUEST_REJECTED",
        "RFC 9114 §4.1.1",
        answer=(Reset(REQUEST, Code.H3_REQUEST_REJECTED),),
        once=True,
    ),
    Case(
        "a reset behind the head",
        "RFC 9114 §4.1.1",
        RESET,
        answer=(Say(REQUEST, frame(HEADERS, OK)), Reset(REQUEST, Code.H3_INTERNAL_ERROR)),
        code=Code.H3_INTERNAL_ERROR,
    ),
    Case(
        "a reset with H3_NO_ERROR before all of the content",
        "RFC 9114 §4.1",
        RESET,
        answer=(
            Say(REQUEST, frame(HEADERS, length(12)) + frame(DATA, BODY)),
            Reset(REQUEST, Code.H3_NO_ERROR),
        ),
        code=Code.H3_NO_ERROR,
    ),
    Case(
        "STOP_SENDING and a response",
        "RFC 9114 §4.1",
        answer=(Stop(REQUEST, Code.H3_NO_ERROR), *ANSWER),
    ),
    Case("silence", "RFC 9114 §5.1", replace(SILENT, kept=True), answer=()),
    Case(
        "silence behind the head",
        "RFC 9114 §5.1",
        replace(SILENT, kept=True),
        answer=(Say(REQUEST, frame(HEADERS, OK)),),
    ),
    *(
        Case(
            f"a close with {code.name} instead of a response",
            "RFC 9114 §5.3",
            CLOSED,
            answer=(Close(code),),
            code=code,
        )
        for code in (Code.H3_NO_ERROR, Code.H3_INTERNAL_ERROR, Code.H3_EXCESSIVE_LOAD)
    ),
)

CASES = CONTROL_STREAM + GOING_AWAY + QPACK_STREAMS + OTHER_STREAMS + GIVEN_UP
