"""What every Python contender shares: the protocol, the strategies and the bookkeeping.

A contender is a script that describes its library with `Library` and ends in `run(library)`.
"""

from trilane_contender.client import Answer, AsyncClient, Broken, Client, Library, StreamClient
from trilane_contender.plan import Plan
from trilane_contender.protocol import run

__all__ = [
    "Answer",
    "AsyncClient",
    "Broken",
    "Client",
    "Library",
    "Plan",
    "StreamClient",
    "run",
]
