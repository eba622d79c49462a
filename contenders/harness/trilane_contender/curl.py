"""libcurl's error codes (CURLE_…, the same for every binding) as the lab's kinds of failure."""

from __future__ import annotations

from trilane_contender.client import Broken
from trilane_contender.failures import kind_of

_KINDS = {
    6: "dns",  # COULDNT_RESOLVE_HOST
    7: "connect",  # COULDNT_CONNECT
    8: "protocol",  # WEIRD_SERVER_REPLY
    16: "protocol",  # HTTP2
    18: "body",  # PARTIAL_FILE
    28: "timeout",  # OPERATION_TIMEDOUT
    35: "tls",  # SSL_CONNECT_ERROR
    52: "closed",  # GOT_NOTHING
    55: "reset",  # SEND_ERROR
    56: "reset",  # RECV_ERROR
    58: "tls",  # SSL_CERTPROBLEM
    59: "tls",  # SSL_CIPHER
    60: "tls",  # PEER_FAILED_VERIFICATION
    61: "body",  # BAD_CONTENT_ENCODING
    77: "tls",  # SSL_CACERT_BADFILE
    92: "reset",  # HTTP2_STREAM
    95: "protocol",  # HTTP3
    96: "connect",  # QUIC_CONNECT_ERROR
}


def broken(code: int, message: str, os_errno: int = 0) -> Broken:
    """The failure of a transfer. The system's error, if there is one, tells more than libcurl's.

    `os_errno` is what `CURLINFO_OS_ERRNO` gives: 0 for none.
    """
    kind = _KINDS.get(code, "protocol")
    if kind in {"connect", "reset"} and os_errno:
        kind = kind_of(OSError(os_errno, message))
    elif kind == "connect" and "refused" in message:
        kind = "refused"  # of a UDP port, which libcurl tells in words only
    elif kind == "reset" and "Failed to connect" in message:
        kind = "connect"
    return Broken(kind, f"curl error {code}: {message}"[:300])
