"""Each row of the table, over each version, by each interface of the client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client.face import LoopThread
from client.waits import PATIENCE_S
from peers.authority import Leaf
from peers.peer import Peer

from .answers import Scripts, answered
from .behaviour import VERSIONS, Behaviour, Cell
from .faces import FACES, make
from .servers import serving
from .table import TABLE

CELLS = [
    pytest.param(row, version, face, id=f"{row.name}, {version}, {face}")
    for row in TABLE
    for version in VERSIONS
    for face in FACES
    if row.why_not(version, face) is None
]


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    return Scripts()


@pytest.fixture(scope="module")
def bases(scripts: Scripts, leaf: Leaf) -> Iterator[dict[str, str]]:
    with serving(scripts, leaf) as made:
        yield made


@pytest.fixture(scope="module")
def authorities(leaf: Leaf, server: Peer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Whom to trust: the servers of the table, and `trilane serve`."""
    both = tmp_path_factory.mktemp("trust") / "both.pem"
    assert server.ca is not None
    both.write_bytes(leaf.ca.read_bytes() + server.ca.read_bytes())
    return str(both)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Content waits for the server's consent, however busy the machine is."""
    monkeypatch.setattr("trilane.client._flow.uploading.CONTINUE_S", PATIENCE_S)


@pytest.mark.parametrize(("row", "version", "face"), CELLS)
def test_behaviour(
    row: Behaviour,
    version: str,
    face: str,
    scripts: Scripts,
    bases: dict[str, str],
    server: Peer,
    authorities: str,
    loop_thread: LoopThread,
) -> None:
    ours = server.bases[version]
    made = make(face, version, bases if row.answers else {version: ours}, authorities, loop_thread)
    cell = Cell(made, row.asks, bases[version], ours, scripts)
    cell.set(row.answers)
    try:
        row.sees(cell)
        if row.answers and not row.is_last:
            _goes_on(cell, row)
    finally:
        made.close()
    assert loop_thread.unexpected == []


def _goes_on(cell: Cell, row: Behaviour) -> None:
    """Another request is answered: by the same connection, unless that was over."""
    before = [got.connection for got in cell.script.got]
    cell.set([answered()])
    seen = cell.ask(method="POST", path="", content=b"on", fields=(), expects=False, read_s=60.0)
    assert seen.content == b"hello world"
    (after,) = [got.connection for got in cell.script.got]
    if before and cell.version not in row.doubted:
        assert (after is not before[-1]) == (cell.version in row.ends)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_what_is_left_out_is_a_cell(row: Behaviour) -> None:
    cells = {*VERSIONS, *FACES, *(f"{version} {face}" for version in VERSIONS for face in FACES)}
    assert row.left_out.keys() <= cells
    assert all(row.left_out.values())
    assert {*row.ends, *row.doubted} <= {*VERSIONS}
