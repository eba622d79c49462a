"""The cases that h2specd has for HTTP/2 clients, in its order: a section, and what it does.

h2specd cites RFC 7540, whose sections have the same numbers.
"""

from __future__ import annotations

_SECTIONS: dict[str, tuple[str, ...]] = {
    "1": ("Sends a server connection preface",),
    "4.1": (
        "Sends a frame with unknown type",
        "Sends a frame with undefined flag",
        "Sends a frame with reserved field bit",
    ),
    "4.2": (
        "Sends a DATA frame with 2^14 octets in length",
        "Sends a large size DATA frame that exceeds the SETTINGS_MAX_FRAME_SIZE",
        "Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE",
    ),
    "4.3": ("Sends invalid header block fragment",),
    "5.1": (
        "idle: Sends a DATA frame",
        "idle: Sends a RST_STREAM frame",
        "idle: Sends a WINDOW_UPDATE frame",
        "idle: Sends a CONTINUATION frame",
        "closed: Sends a DATA frame after sending RST_STREAM frame",
        "closed: Sends a HEADERS frame after sending RST_STREAM frame",
        "closed: Sends a CONTINUATION frame after sending RST_STREAM frame",
        "closed: Sends a DATA frame",
        "closed: Sends a HEADERS frame",
        "closed: Sends a CONTINUATION frame",
    ),
    "5.1.1": ("Sends an unexpected stream identifier",),
    "5.4.1": (
        "Sends an invalid PING frame for connection close",
        "Sends an invalid PING frame to receive GOAWAY frame",
    ),
    "5.5": ("Sends an unknown extension frame",),
    "6.1": (
        "Sends a DATA frame with 0x0 stream identifier",
        'Sends a DATA frame on the stream that is not in "open" or "half-closed (local)" state',
        "Sends a DATA frame with invalid pad length",
    ),
    "6.2": (
        "Sends a HEADERS frame without the END_HEADERS flag, and a PRIORITY frame",
        "Sends a HEADERS frame with 0x0 stream identifier",
        "Sends a HEADERS frame with invalid pad length",
    ),
    "6.3": (
        "Sends a PRIORITY frame with 0x0 stream identifier",
        "Sends a PRIORITY frame with a length other than 5 octets",
    ),
    "6.4": (
        "Sends a RST_STREAM frame with 0x0 stream identifier",
        "Sends a RST_STREAM frame on a idle stream",
        "Sends a RST_STREAM frame with a length other than 4 octets",
    ),
    "6.5": (
        "Sends a SETTINGS frame with ACK flag and payload",
        "Sends a SETTINGS frame with a stream identifier other than 0x0",
        "Sends a SETTINGS frame with a length other than a multiple of 6 octets",
    ),
    "6.5.2": (
        (
            "SETTINGS_INITIAL_WINDOW_SIZE (0x4): "
            "Sends the value above the maximum flow control window size"
        ),
        "SETTINGS_MAX_FRAME_SIZE (0x5): Sends the value below the initial value",
        "SETTINGS_MAX_FRAME_SIZE (0x5): Sends the value above the maximum allowed frame size",
        "Sends a SETTINGS frame with unknown identifier",
    ),
    "6.5.3": ("Sends a SETTINGS frame without ACK flag",),
    "6.7": (
        "Sends a PING frame",
        "Sends a PING frame with ACK",
        "Sends a PING frame with a stream identifier field value other than 0x0",
        "Sends a PING frame with a length field value other than 8",
    ),
    "6.8": ("Sends a GOAWAY frame with a stream identifier other than 0x0",),
    "6.9": (
        "Sends a WINDOW_UPDATE frame with a flow control window increment of 0",
        "Sends a WINDOW_UPDATE frame with a flow control window increment of 0 on a stream",
        "Sends a WINDOW_UPDATE frame with a length other than 4 octets",
    ),
    "6.9.1": (
        "Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1",
        (
            "Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1"
            " on a stream"
        ),
    ),
    "6.10": (
        "Sends multiple CONTINUATION frames preceded by a HEADERS frame",
        "Sends a CONTINUATION frame followed by any frame other than CONTINUATION",
        "Sends a CONTINUATION frame with 0x0 stream identifier",
        "Sends a CONTINUATION frame preceded by a HEADERS frame with END_HEADERS flag",
        "Sends a CONTINUATION frame preceded by a CONTINUATION frame with END_HEADERS flag",
        "Sends a CONTINUATION frame preceded by a DATA frame",
    ),
}
CASES = [(section, does) for section, cases in _SECTIONS.items() for does in cases]
