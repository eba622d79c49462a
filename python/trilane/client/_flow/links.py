"""The field `link` (RFC 8288)."""

from __future__ import annotations

import re
from typing import Final

_LINK: Final = re.compile(r"<([^<>]*)>((?:\s*;\s*[^\s=;,]+(?:\s*=\s*(?:\"[^\"]*\"|[^\s;,\"]*))?)*)")
_PARAMETER: Final = re.compile(r"([^\s=;,]+)(?:\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]*)))?")
_LONGEST: Final = 64 * 1024
"""Characters that are read; what follows is passed over."""


def links(value: str) -> dict[str, dict[str, str]]:
    """The links by their relation, or their URL without one, as Requests and HTTPX have them."""
    found: dict[str, dict[str, str]] = {}
    for url, rest in _LINK.findall(value[:_LONGEST]):
        link = {"url": url}
        for name, quoted, token in _PARAMETER.findall(rest):
            link.setdefault(name.lower(), quoted or token)
        found[link.get("rel") or url] = link
    return found
