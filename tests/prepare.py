"""Builds what the tests start: contenders and servers of the lab, and the tests' own in Go.

So no test's limit of time has to hold for a compiler or for what a registry sends.
`make test` runs it first, and `make test-all` with `--all`, for every contender and server. What
cannot be built here is named; its tests say what that means.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from others import CONTENDERS, SERVERS
from peers import connect_conformance, gonet, grpcurl, h2specd, interop
from peers.process import MissingProgramError
from repository import ROOT
from trilane.lab.clients import contenders
from trilane.lab.clients.contenders import ContenderFailed
from trilane.lab.programs.builds import BuildFailed
from trilane.lab.programs.environments import EnvironmentFailed
from trilane.lab.targets import running

_NOT_HERE = (BuildFailed, ContenderFailed, EnvironmentFailed, MissingProgramError)


def _wanted(*, everything: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    """Names of what is built, and what builds it."""
    for contender in contenders.discover([ROOT / "contenders"]).values():
        if everything or contender.name in CONTENDERS:
            yield f"contender {contender.name}", contender.command
    for contender in contenders.discover([ROOT / "examples/own_client/contenders"]).values():
        yield f"contender {contender.name} of the examples", contender.command
    for name in running.names():
        if everything or name in SERVERS:
            yield f"server {name}", partial(running.prepare, running.find(name))
    yield "gonet", gonet.program
    yield "grpcurl", grpcurl.program
    yield "h2specd", h2specd.program
    yield "Connect's conformance suite", connect_conformance.find_suite
    yield "interop client", interop.client
    yield "interop server", interop.server


def _build(name: str, build: Callable[[], object]) -> None:
    try:
        build()
    except _NOT_HERE as error:
        sys.stderr.write(f"{name}: not built here: {error}\n")


def main() -> None:
    """Build as many at a time as there are processors: each waits for programs and registries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="what `make test-all` needs besides")
    wanted = _wanted(everything=parser.parse_args().all)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for built in [pool.submit(_build, name, build) for name, build in wanted]:
            built.result()


if __name__ == "__main__":
    main()
