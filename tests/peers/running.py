"""The peers that run for the tests, and what becomes of a test whose peer is not there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

import pytest

from repository import native

from . import caddy, embedded, gonet, grpc_python, interop, nghttpd, nginx, shipped
from .process import MissingProgramError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .authority import Authority
    from .peer import Peer

# What `.ci/run` does not install.
NOT_IN_CI = ("dotnet", "CPython", "actionlint")


def absent(reason: object) -> NoReturn:
    """A missing program: a skip with its reason at home, a failure in CI."""
    if os.environ.get("CI") == "true" and not any(name in str(reason) for name in NOT_IN_CI):
        pytest.fail(str(reason))
    pytest.skip(str(reason))


class Peers:
    """The running peers, by name; each is started when a test first asks for it."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self._folder = folder
        self._running: dict[str, Peer] = {}
        leaf = authority.local()
        self._starts: dict[str, Callable[[Path], Peer]] = {
            "nginx": lambda folder: nginx.start(folder, leaf),
            "nghttpd": lambda folder: nghttpd.start(folder, leaf),
            "nghttpd-plain": lambda folder: nghttpd.start(folder, None),
            "nghttpd-narrow": lambda folder: nghttpd.start(folder, leaf, streams=10),
            "caddy": lambda folder: caddy.start(folder, leaf),
            "gonet": lambda folder: gonet.start(folder, leaf),
            "hypercorn": lambda folder: shipped.start("hypercorn", folder, leaf=leaf, echo="/echo"),
            # It stands for servers of any name.
            "embedded": lambda folder: embedded.start(
                native(), folder, flags=("--allow-host", "*")
            ),
            "grpc-go": lambda folder: shipped.start("grpc-go", folder, hello=""),
            "grpc-go-http": lambda folder: shipped.start("grpc-go-http", folder, hello=""),
            "connect-go": lambda folder: shipped.start("connect-go", folder, hello=""),
            "interop": interop.start,
            "gateway": lambda folder: embedded.start(
                native(), folder, gateway_to=[self["grpc-go"].bases["h2c"]]
            ),
            "grpc-python": lambda folder: grpc_python.start(folder, leaf),
        }

    def __getitem__(self, name: str) -> Peer:
        """The peer of that name; what follows a blank makes it another one of the kind."""
        if name not in self._running:
            start = self._starts[name.partition(" ")[0]]
            try:
                self._running[name] = start(self._folder / name.replace(" ", "-"))
            except MissingProgramError as error:
                absent(error)
        return self._running[name]

    def stop(self) -> None:
        """End all of them, at once: some would wait for clients that are still connected."""
        for peer in self._running.values():
            peer.process.kill()
