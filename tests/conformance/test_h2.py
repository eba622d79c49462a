"""HTTP/2 servers that break rules: every case of h2specd, over the engine and over the client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from e2e.loading import Running
from others import others
from peers import chaos
from peers.h2specd import H2Specd, Verdict
from peers.process import MissingProgramError
from peers.running import absent
from trilane.client import Error, HTTPConnection

from .h2_cases import OF_H2SPECD

# None of h2specd's cases answers two: so the second waits, and reads what follows the answer.
_REQUESTS = 2
# Each verdict once: by a PING, by RST_STREAM, and by GOAWAY or the end of the connection.
_KEPT = frozenset(
    {
        "Sends a frame with unknown type",
        "Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE",
        "Sends invalid header block fragment",
        "idle: Sends a DATA frame",
        "closed: Sends a DATA frame after sending RST_STREAM frame",
        "Sends a SETTINGS frame without ACK flag",
        "Sends a WINDOW_UPDATE frame with a flow control window increment of 0 on a stream",
        "Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1",
        "Sends multiple CONTINUATION frames preceded by a HEADERS frame",
    }
)
each = pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            number,
            id=f"{case.section} {case.name}",
            marks=() if case.name in _KEPT else others,
        )
        for number, case in enumerate(OF_H2SPECD)
    ],
)


class Relay:
    """Between a client and h2specd, which takes a close by RST for none.

    Go wraps ECONNRESET, and h2specd looks for it unwrapped. Whoever closes a connection on which
    something is still unread resets it (RFC 1122 §4.2.2.13), and may: a FIN is handed on instead.
    A case is for one connection: on another, which follows where h2specd has closed the first, it
    would begin anew, and its verdict would be about an end of ours. Such a one is closed at once.
    """

    def __init__(self, specd: H2Specd, case: int) -> None:
        self._host, self._port = specd.host, specd.port(case)
        self._taken = False

    async def script(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        if self._taken:
            return
        self._taken = True
        there, back = await asyncio.open_connection(self._host, self._port)
        try:
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        finally:
            back.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes, and its end; what nobody takes is read all the same."""
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65536):
            if not writer.is_closing():
                writer.write(piece)
    with contextlib.suppress(OSError):
        writer.write_eof()


@pytest.fixture(scope="module", params=["engine", "client"])
def specd(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, H2Specd]]:
    """h2specd remembers one verdict of each case: engine and client have one each."""
    try:
        specd = H2Specd(tmp_path_factory.mktemp("h2specd"), int(request.param == "client"))
    except MissingProgramError as error:
        absent(error)
    try:
        yield request.param, specd
    finally:
        specd.process.stop()


@each
def test_h2specd(specd: tuple[str, H2Specd], case: int) -> None:
    """The connection stays open until the verdict is there: none is passed by an end of ours."""
    who, judge = specd
    with chaos.serve(Relay(judge, case).script) as listening:
        if who == "engine":
            verdict = _of_engine(judge, case, listening.base)
        else:
            verdict = _of_client(judge, case, listening.base)
    assert verdict.description == OF_H2SPECD[case].name
    assert verdict.mark == "✔", verdict.details


def _of_engine(judge: H2Specd, case: int, base: str) -> Verdict:
    running = Running("--h2c", "-c", "1", "-n", str(_REQUESTS), "--timeout", "60s", f"{base}/")
    try:
        return judge.verdict(case)
    finally:
        running.interrupt()
        running.wait()


def _of_client(judge: H2Specd, case: int, base: str) -> Verdict:
    host, _, port = base.removeprefix("http://").partition(":")
    connection = HTTPConnection(host, int(port), versions=("h2",), timeout=60.0)
    try:
        for _ in range(_REQUESTS):
            with contextlib.suppress(Error):
                connection.request("GET", "/")
                connection.getresponse().read()
        return judge.verdict(case)
    finally:
        connection.close()


def test_every_case_is_here(specd: tuple[str, H2Specd]) -> None:
    assert [each.description for each in specd[1].verdicts()] == [case.name for case in OF_H2SPECD]
