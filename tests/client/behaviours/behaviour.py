"""What a row of the table is made of, and what its callers can be expected to see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pytest

from trilane.client.errors import Error

from .answers import Answer, Script, Scripts
from .faces import Asks, Face, Seen

VERSIONS = ("h1", "h2", "h3")
ByVersion: TypeAlias = Any
"""A value, or a dict that has one for each version."""


@dataclass
class Cell:
    """A behaviour, played by one interface over one version."""

    face: Face
    asks: Asks
    base: str
    """Of the server that plays answers."""
    ours: str
    """Of `trilane serve`, for what is large: it answers by itself."""
    scripts: Scripts
    path: str = field(init=False)
    script: Script = field(init=False)
    """What its server does, and has got."""

    @property
    def version(self) -> str:
        """The one that is spoken."""
        return self.face.version

    def set(self, answers: Sequence[Answer]) -> None:
        """Have requests answered so from now on."""
        self.path, self.script = self.scripts.add(answers)

    def url(self, path: str = "") -> str:
        """Where the answers are played."""
        return f"{self.base}{self.path}{path}"

    def ask(self, **changed: Any) -> Seen:
        """Send the request of the row, but for what is changed, and read its response."""
        asks = replace(self.asks, **changed)
        return self.face.ask(self.url(asks.path), asks)

    def begin(self, **changed: Any) -> Any:
        """Send it, and give the response when its head has come."""
        asks = replace(self.asks, **changed)
        return self.face.begin(self.url(asks.path), asks)


Sees: TypeAlias = Callable[[Cell], None]


@dataclass(frozen=True)
class Behaviour:
    """One row."""

    name: str
    server: str
    """What the server does."""
    caller: str
    """What the caller must see."""
    answers: Sequence[Answer]
    """The same as `server`; none where `trilane serve` is the server."""
    sees: Sees
    """The same as `caller`."""
    asks: Asks = field(default_factory=Asks)
    """What is asked for."""
    ends: tuple[str, ...] = ()
    """Versions whose connection is over with it: the next request goes by a new one."""
    doubted: tuple[str, ...] = ()
    """Versions whose connection is over unless the server has shown since that it is there."""
    is_last: bool = False
    """No request can follow: the client is closed."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Versions and interfaces that cannot have it, and why; `h1 http.client` is a single cell."""

    def why_not(self, version: str, face: str) -> str | None:
        """Why the cell is left out."""
        found = (self.left_out.get(each) for each in (version, face, f"{version} {face}"))
        return next((why for why in found if why), None)


def _of(version: str, value: ByVersion) -> Any:
    return value[version] if isinstance(value, dict) and set(value) == set(VERSIONS) else value


def gets(content: bytes = b"hello world", status: int = 200, **more: ByVersion) -> Sees:
    """A response with that content; `more` are other attributes of it. Of fields, those named."""

    def sees(cell: Cell) -> None:
        seen = cell.ask()
        assert (seen.status, seen.content) == (status, content)
        assert seen.version == cell.version
        for name, expected in more.items():
            wanted, found = _of(cell.version, expected), getattr(seen, name)
            if name == "fields":
                found = {key: found.get(key) for key in wanted}
            assert found == wanted, name

    return sees


def fails(kind: ByVersion, **more: ByVersion) -> Sees:
    """An error of that kind, whose other attributes are these."""

    def sees(cell: Cell) -> None:
        with pytest.raises(_of(cell.version, kind)) as caught:
            cell.ask()
        assert isinstance(caught.value, Error)
        assert str(caught.value)
        for name, expected in more.items():
            assert getattr(caught.value, name, None) == _of(cell.version, expected), name

    return sees
