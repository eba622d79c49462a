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


def machine_id(facts: Json) -> str:
    """Eight hexadecimal digits that stay the same while a machine does.

    A BLAKE2 hash of the CPU model, the number of CPUs that the run could use, and the kernel's name
    and major version. Host names are left out: containers change theirs, and nobody wants theirs in
    a report.
    """
    system, _, release = str(facts.get("kernel") or "").partition(" ")
    parts = [facts.get("cpu"), facts.get("cpus_usable"), system, release.partition(".")[0]]
    return digest(parts)
