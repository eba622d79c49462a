"""Header fields as a response shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


class Headers(Mapping[str, str]):
    """Fields by name, in any case. Several fields of one name are joined by `, ` (RFC 9110 §5.3).

    `get_all` keeps them apart, which `set-cookie` needs; `pairs` is all of them as they came.
    """

    __slots__ = ("_index", "pairs")

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = pairs
        self._index: dict[str, list[str]] | None = None

    def _by_name(self) -> dict[str, list[str]]:
        index = self._index
        if index is None:
            index = {}
            for name, value in self.pairs:
                index.setdefault(name.lower(), []).append(value)
            self._index = index
        return index

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._by_name()[name.lower()])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._by_name()

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name())

    def __len__(self) -> int:
        return len(self._by_name())

    def get_all(self, name: str) -> list[str]:
        """Every value of the name, in the order of the response; [] where it has none."""
        return list(self._by_name().get(name.lower(), ()))

    def __repr__(self) -> str:
        return f"Headers({list(self.pairs)!r})"
