"""What reqwest, under several Python libraries, writes into its errors, as kinds of failure."""

from __future__ import annotations

import re

from trilane_contender.client import Broken
from trilane_contender.failures import kind_of

_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_WORDS = (
    ("dns error", "dns"),
    ("resolving dns", "dns"),
    ("certificate", "tls"),
    ("handshake failed", "tls"),
    ("alert", "tls"),
    ("timed out", "timeout"),
    ("goaway", "goaway"),
    ("stream error", "reset"),
    ("decoding response", "body"),
    ("decompress", "body"),
    ("end of file before message length", "body"),
    ("connection closed", "closed"),
    ("closed before message completed", "closed"),
    ("unexpected eof", "closed"),
    ("(connect)", "connect"),
)


def broken(error: Exception) -> Broken:
    """The failure behind an exception, whose chain of causes is in its text."""
    message = str(error)
    text = message.lower()
    if number := _OS_ERROR.search(text):
        kind = kind_of(OSError(int(number[1]), message))
    else:
        kind = next((kind for words, kind in _WORDS if words in text), "protocol")
    return Broken(kind, f"{type(error).__name__}: {message}"[:300])
