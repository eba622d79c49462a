"""JSON documents that have no type of their own."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A JSON object, its members by name."""
