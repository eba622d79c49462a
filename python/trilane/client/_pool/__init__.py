"""The client for threads: connections kept and shared."""

from .client import Client
from .response import Response

__all__ = ["Client", "Response"]
