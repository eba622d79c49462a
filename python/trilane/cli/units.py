"""Numbers as people type them: 10k, 500ms, 5%."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta

from trilane import quantity

# A run's length without a unit is in seconds, as that of wrk and h2load.
_TIMES = {**quantity.SECONDS, "": 1.0}
_LONGEST_S = 24 * 3600.0
# Of what is removed: `m` could be read as minutes or as months.
_AGES_H = {"h": 1.0, "d": 24.0, "w": 7 * 24.0}
_OLDEST_H = 100 * 365 * 24.0


class Usage(Exception):
    """The command was used wrongly; the message says what to type."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        """`hint` is the command that helps on; None for the help of this one."""
        self.hint = hint
        super().__init__(message)


def listed(texts: Iterable[str] | None) -> list[str]:
    """Each part of an option that may have several, such as `p99>1.1, rate<0.9`, as typed.

    An empty one stays, for whoever reads the parts to refuse: a gate must not vanish.
    """
    return [part.strip() for text in texts or () for part in text.split(",")]


def duration(flag: str, text: str, *, zero: bool = False) -> float:
    """Seconds of `500us`, `20ms`, `2s`, `1.5m` or `1h`; a bare number means seconds.

    So wrk and h2load take their durations, and curl its limits.

    Raises:
        Usage: the text is not a time, or it is longer than a day, or 0 and may not be `zero`.
    """
    value = _parse(text, _TIMES)
    if value is None or value > _LONGEST_S or (value == 0 and not zero):
        raise Usage(f"{flag} takes a time such as 500ms, 2s or 1m, not {text!r}")
    return value


def age(flag: str, text: str) -> timedelta:
    """An age such as `12h`, `30d` or `8w`.

    Raises:
        Usage: the text is not one, or it is 0.
    """
    hours = _parse(text, _AGES_H)
    if not hours or hours > _OLDEST_H:
        raise Usage(f"{flag} takes an age such as 12h, 30d or 8w, not {text!r}")
    return timedelta(hours=hours)


def size(flag: str, text: str) -> int:
    """Bytes of `500k`, `100m` or `2g` (powers of 1024), at least 1.

    Raises:
        Usage: the text is not a size, or it is 0.
    """
    value = _parse(text, quantity.SIZES)
    if value is None or not 1 <= value <= quantity.SIZES["t"] * 1024:
        raise Usage(f"{flag} takes a size such as 500k, 100m or 2g, not {text!r}")
    return int(value)


def count(flag: str, text: str) -> int:
    """A whole number of at least 1, such as `64` or `10k`."""
    value = _parse(text, quantity.THOUSANDS)
    if value is None or value < 1 or value != int(value) or value > 1_000_000:
        raise Usage(f"{flag} takes a whole number from 1 to 1m, not {text!r}")
    return int(value)


def rate(flag: str, text: str) -> float:
    """Requests per second, such as `50`, `2.5k` or `1m`."""
    value = quantity.per_second(text.strip())
    if value is None:
        raise Usage(f"{flag} takes requests per second such as 50, 2.5k or 1m, not {text!r}")
    return value


def seed(flag: str, text: str) -> int:
    """A whole number from 0 on."""
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII):
        raise Usage(f"{flag} takes a whole number, not {text!r}")
    return int(text)


def share(flag: str, text: str) -> float:
    """A share above 0 and below 1: `5%` or `0.05`."""
    value = _parse(text, quantity.SHARES)
    if value is None or not 0 < value < 1:
        raise Usage(f"{flag} takes a share such as 5%, not {text!r}")
    return value


def _parse(text: str, units: Mapping[str, float]) -> float | None:
    """As `quantity.number`; on a command line `.5` and `2S` are understood, too."""
    typed = text.strip().lower()
    return quantity.number(f"0{typed}" if typed.startswith(".") else typed, units)
