"""A cache for the clients, as RFC 9111 has it: what is fresh is not asked for again.

    client = Client(cache=True)                     # in memory, for as long as the client lives
    client = Client(cache="responses.sqlite")       # in a file, for the next program as well
    client = Client(cache=Cache(allow_stale=True))  # with settings, for any number of clients

What may be stored, what is fresh and how it is validated is decided by hishel, whose storages keep
it; `trilane[cache]` installs it.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

try:
    from hishel import AsyncBaseStorage, BaseStorage, CacheOptions, SqliteStorage
except ImportError as error:
    raise ImportError(
        "a cache needs the library hishel, 2.0 or newer: install trilane[cache]"
    ) from error

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["Cache", "CacheGiven"]

Storage: TypeAlias = BaseStorage | AsyncBaseStorage
CacheGiven: TypeAlias = "Cache | Storage | str | PathLike[str] | bool | None"
"""What a client takes: True for one in memory, the path of a file, a storage of hishel's, or a
`Cache`."""

IN_MEMORY: Final = 128 * 1024 * 1024
"""Bytes that a cache in memory may have, unless `max_size` says otherwise."""
IN_FILE: Final = 1024 * 1024 * 1024
"""Bytes that a file may have; hishel's own default."""
_MODE: Final = 0o600
"""Of the file: responses may be for one user alone."""


class Cache:
    """A cache of responses. Any number of clients may have the same one, of either kind."""

    def __init__(
        self,
        storage: Storage | str | PathLike[str] | None = None,
        *,
        shared: bool = False,
        allow_stale: bool = False,
        max_size: int | None = None,
    ) -> None:
        """Without a `storage` responses are kept in memory.

        storage: the path of a file of SQLite, which only its user may read, or a storage of
            hishel's; one of its asynchronous ones serves `AsyncClient` alone.
        shared: whether it serves several users: then it keeps neither what is `private` nor, but
            where the response allows it, what was asked for with `authorization`.
        allow_stale: whether a response is used after its time, unless it forbids that.
        max_size: bytes that memory or file may have: 128 MiB, or 1 GiB in a file. What would be
            more is not stored; what was not used for three minutes makes room.

        Raises:
            OSError: the file cannot be opened.
            ValueError: `max_size` is below 1, or the storage has its own.
        """
        if max_size is not None and max_size < 1:
            raise ValueError(f"max_size={max_size}: give bytes from 1 on")
        self.options = CacheOptions(shared=shared, allow_stale=allow_stale)
        self._closes: weakref.finalize[..., Any] | None = None
        self.storage: Storage
        """Where the responses are."""
        if isinstance(storage, BaseStorage | AsyncBaseStorage):
            if max_size is not None:
                raise ValueError(
                    f"max_size={max_size} is a setting of the storage: give it to that"
                )
            self.storage = storage
            return
        connection = _opened(storage)
        default = IN_MEMORY if storage is None else IN_FILE
        self.storage = SqliteStorage(connection=connection, max_size=max_size or default)
        # Nobody else closes it, and clients may share the cache.
        self._closes = weakref.finalize(self, connection.close)

    @classmethod
    def of(cls, given: CacheGiven) -> Cache | None:
        """The cache that a client was given.

        Raises:
            TypeError: it is none.
            OSError: as `Cache`.
        """
        if given is None or given is False:
            return None
        if isinstance(given, cls):
            return given
        if given is True:
            return cls()
        if isinstance(given, str | os.PathLike | BaseStorage | AsyncBaseStorage):
            return cls(given)
        raise TypeError(
            f"cache={given!r:.60} is of type {type(given).__name__}: give True, the path of a file,"
            " a storage of hishel's or a trilane.client.cached.Cache"
        )

    @property
    def is_asynchronous(self) -> bool:
        """Whether only `AsyncClient` can use it."""
        return isinstance(self.storage, AsyncBaseStorage)

    def close(self) -> None:
        """Close the file, or forget what is in memory. A storage of your own is left alone."""
        if self._closes is not None:
            self._closes()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(path: str | PathLike[str] | None) -> sqlite3.Connection:
    if path is None:
        where = ":memory:"
    else:
        # SQLite itself makes files that everybody may read, and says of none why it cannot open it.
        where = os.fspath(path)
        os.close(os.open(where, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE))
    connection = sqlite3.connect(where, check_same_thread=False, isolation_level=None)
    try:
        with closing(connection.execute("PRAGMA user_version")) as cursor:
            cursor.fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        raise ValueError(f"cache={where!r} is no file of SQLite ({error}): give another") from error
    return connection
