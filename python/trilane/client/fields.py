"""Header fields as a response shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence


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


class MutableHeaders(MutableMapping[str, str]):
    """Fields that can be changed, by name in any case. To set a name replaces all that it has."""

    __slots__ = ("_changed", "pairs")

    def __init__(
        self,
        pairs: Iterable[tuple[str | bytes, str | bytes]] = (),
        changed: Callable[[], object] | None = None,
    ) -> None:
        """`changed` is called after each change."""
        self.pairs = [(_text(name), _text(value)) for name, value in pairs]
        """All of them, in their order."""
        self._changed = changed

    def __getitem__(self, name: str) -> str:
        values = self.get_all(name)
        if not values:
            raise KeyError(name)
        return ", ".join(values)

    def __setitem__(self, name: str, value: str) -> None:
        if not isinstance(value, str | bytes):
            raise TypeError(f"the field {name!r} is {value!r}: give text")
        wanted = name.lower()
        at = [number for number, (key, _) in enumerate(self.pairs) if key.lower() == wanted]
        kept = [pair for pair in self.pairs if pair[0].lower() != wanted]
        kept.insert(at[0] if at else len(kept), (_text(name), _text(value)))
        self.pairs = kept
        self._told()

    def __delitem__(self, name: str) -> None:
        wanted = name.lower()
        kept = [pair for pair in self.pairs if pair[0].lower() != wanted]
        if len(kept) == len(self.pairs):
            raise KeyError(name)
        self.pairs = kept
        self._told()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.get_all(name))

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name.lower() for name, _ in self.pairs))

    def __len__(self) -> int:
        return len({name.lower() for name, _ in self.pairs})

    def get_all(self, name: str) -> list[str]:
        """Every value of the name, in their order; [] where it has none."""
        wanted = name.lower()
        return [value for key, value in self.pairs if key.lower() == wanted]

    def __repr__(self) -> str:
        return f"MutableHeaders({self.pairs!r})"

    def _told(self) -> None:
        if self._changed is not None:
            self._changed()


def _text(given: str | bytes) -> str:
    return given.decode("latin-1") if isinstance(given, bytes) else given
