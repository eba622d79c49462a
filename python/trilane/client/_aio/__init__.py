"""The client for asyncio: thousands of tasks on few connections."""

from .client import AsyncClient
from .response import AsyncResponse
from .uploading import AsyncContent

__all__ = ["AsyncClient", "AsyncContent", "AsyncResponse"]
