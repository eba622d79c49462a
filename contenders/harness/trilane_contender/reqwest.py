"""What the Python libraries over reqwest have in common: its errors, and its love of proxies."""

from __future__ import annotations

import os
import re

from trilane_contender.client import Broken
from trilane_contender.failures import kind_of

_PROXIES = frozenset({"all_proxy", "http_proxy", "https_proxy"})
# As errors are shown to people, and as wreq shows them, which prints what they are made of.
_OS_ERROR = re.compile(r"\(os error (\d+)\)|\bos \{ code: (\d+)")
_WORDS = (
    ("dns error", "dns"),
    ("resolving dns", "dns"),
    ("certificate", "tls"),
    ("handshake failed", "tls"),
    ("alert", "tls"),
    ("ssl routines", "tls"),
    ("timed out", "timeout"),
    ("is_timeout", "timeout"),
    # An error of HTTP/2 that the library found, and not its peer: what came was no HTTP/2.
    (", library)", "protocol"),
    ("goaway", "goaway"),
    ("stream error", "reset"),
    ("reset(streamid", "reset"),
    ("decoding response", "body"),
    ("decompress", "body"),
    ("end of file before message length", "body"),
    ("incompletebody", "body"),
    ("connection closed", "closed"),
    ("closed before message completed", "closed"),
    ("incompletemessage", "closed"),
    ("unexpected eof", "closed"),
    ("(connect)", "connect"),
)


def without_proxies() -> None:
    """Let this process know no proxies: reqwest takes them from the environment, unasked."""
    for name in list(os.environ):
        if name.lower() in _PROXIES:
            del os.environ[name]


def broken(error: Exception) -> Broken:
    """The failure behind an exception, whose chain of causes is in its text."""
    message = str(error)
    text = message.lower()
    if number := _OS_ERROR.search(text):
        kind = kind_of(OSError(int(number[1] or number[2]), message))
    else:
        kind = next((kind for words, kind in _WORDS if words in text), "protocol")
    return Broken(kind, f"{type(error).__name__}: {message}"[:300])
