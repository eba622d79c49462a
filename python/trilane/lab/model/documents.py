"""JSON documents that have no type of their own, and what tells two of them apart."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A JSON object, its members by name."""


def digest(value: Any) -> str:
    """Eight hexadecimal digits (BLAKE2) that two values share where their JSON is the same."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2s(text.encode(), digest_size=4).hexdigest()
