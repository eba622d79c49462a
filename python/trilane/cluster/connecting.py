"""The way to a scheduler: its address as typed, TLS, and a sentence where nobody answers."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import dask
from distributed import Client
from distributed.comm.addressing import get_address_host_port
from distributed.comm.core import connect as comm_connect
from distributed.security import Security

from trilane.lab.storage import store

DEFAULT_PORT = 8786
"""Dask's."""
CERTIFICATE, KEY = "cluster.pem", "cluster-key.pem"
"""Files of the state folder by which a user's processes know each other (`Tls.own`)."""

_LOGGERS = ("distributed", "tornado", "asyncio")
_SCHEMES = ("tcp", "tls")
_KNOCK_S = 5.0


class ClusterFailed(Exception):
    """The cluster could not do what was asked; the message is one sentence for the user."""

    def __init__(self, message: str, code: int = 1) -> None:
        """`code` is the exit code of DESIGN §5: 1 could not run, 2 wrong usage."""
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM form for a scheduler at `tls://`.

    Both ends show a certificate, and trust any of the same authority (Dask checks no names).
    """

    ca: Path
    cert: Path
    key: Path

    @classmethod
    def own(cls) -> Tls:
        """This user's, of `trilane cluster start`: the certificate is its own authority."""
        folder = store.state_folder()
        return cls(folder / CERTIFICATE, folder / CERTIFICATE, folder / KEY)

    def security(self) -> Security:
        """As Dask takes it, for each of its parts.

        Raises:
            ClusterFailed: a file cannot be read, or is not what it shall be.
        """
        for file in (self.ca, self.cert, self.key):
            if not file.is_file():
                raise ClusterFailed(f"{file} is no file: it shall be one in PEM form", 2)
        try:
            context = ssl.create_default_context(cafile=str(self.ca))
            context.load_cert_chain(self.cert, self.key)
        except (ssl.SSLError, OSError) as error:
            raise ClusterFailed(
                f"{self.ca}, {self.cert} and {self.key} are not an authority, a certificate and "
                f"its key in PEM form: {error}",
                2,
            ) from error
        parts = {
            f"tls_{part}_{what}": str(file)
            for part in ("client", "worker", "scheduler")
            for what, file in (("cert", self.cert), ("key", self.key))
        }
        return Security(require_encryption=True, tls_ca_file=str(self.ca), **parts)


def parsed(address: str, *, tls: bool) -> str:
    """A scheduler's address as Dask takes it: with its scheme and port.

    Raises:
        ClusterFailed: it is none.
    """
    scheme, mark, rest = address.partition("://")
    if not mark:
        scheme, rest = ("tls" if tls else "tcp"), address
    if scheme not in _SCHEMES or not rest or "/" in rest:
        raise ClusterFailed(
            f"{address!r} is not the address of a scheduler: type one such as tls://host:8786", 2
        )
    if tls and scheme != "tls":
        raise ClusterFailed(
            f"{address} is not tls://: leave out the files for TLS, or type tls://", 2
        )
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ClusterFailed(
            f"{address!r} is not the address of a scheduler: {error}; type one such as "
            "tls://host:8786, or tls://[::1]:8786",
            2,
        ) from error
    if not host:
        raise ClusterFailed(f"{address!r} is not the address of a scheduler: it has no host", 2)
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port or DEFAULT_PORT}"


def knock(address: str, security: Security | None) -> None:
    """See that a scheduler answers at an address with scheme and port.

    First that anything listens: Dask tries again for long where nothing does. What Dask itself
    would connect by leaves things behind when it fails.

    Raises:
        ClusterFailed: none does.
    """
    try:
        socket.create_connection(get_address_host_port(address), _KNOCK_S).close()
    except OSError as error:
        raise ClusterFailed(
            f"no scheduler answers at {address}: {error.strerror or error}; start one by "
            "`trilane cluster start`, or see docs/cluster.md"
        ) from error
    arguments = (security or Security()).get_connection_args("client")

    async def shake_hands() -> None:
        comm = await comm_connect(address, timeout=_KNOCK_S, **arguments)
        await comm.close()

    try:
        # In a thread of its own: that of a notebook has a loop that runs already.
        with quiet(), ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, shake_hands()).result()
    # Of what another protocol says the length of a message is taken.
    except (OSError, ValueError, RuntimeError, MemoryError) as error:
        raise ClusterFailed(
            f"what answers at {address} is no scheduler of Dask, or none that speaks "
            f"{address.partition(':')[0]} and takes this certificate: {_short(error)}"
            if address.startswith("tls:")
            else f"what answers at {address} is no scheduler of Dask, or one that speaks tls: "
            f"{_short(error)}"
        ) from error


def connect(address: str, tls: Tls | None, limit_s: float) -> Client:
    """A client of the scheduler.

    Raises:
        ClusterFailed: there is none at the address.
    """
    known = parsed(address, tls=tls is not None)
    security = security_of(known, tls)
    knock(known, security)
    try:
        with warnings.catch_warnings():
            # Of other versions of packages that no load uses.
            warnings.simplefilter("ignore")
            return Client(known, timeout=limit_s, security=security, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise ClusterFailed(f"the scheduler at {known} cannot be used: {_short(error)}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Dask does not log meanwhile: what goes wrong is said by whoever asked for it."""
    # Dask gives several of its loggers levels and handlers of their own.
    names = [*logging.root.manager.loggerDict, *_LOGGERS]
    quieted = [
        logger
        for logger in map(logging.getLogger, names)
        if logger.name.partition(".")[0] in _LOGGERS and not logger.disabled
    ]
    for logger in quieted:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in quieted:
            logger.disabled = False


def security_of(address: str, tls: Tls | None) -> Security | None:
    """How a scheduler at a parsed address is spoken to.

    At `tls://` that is by this user's own files, unless `tls` or Dask's configuration names others.

    Raises:
        ClusterFailed: there are none.
    """
    if tls is not None:
        return tls.security()
    if not address.startswith("tls:") or dask.config.get("distributed.comm.tls.ca-file"):
        return None
    own = Tls.own()
    if not own.key.is_file():
        raise ClusterFailed(
            f"{address} needs --cluster-tls-ca, --cluster-tls-cert and --cluster-tls-key, Dask's "
            f"configuration of them, or {CERTIFICATE} and {KEY} of the machine of `trilane cluster "
            f"start` in {own.key.parent}",
            2,
        )
    return own.security()


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
