"""By which congestion control a server sends, as far as that is known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SentBy:
    """The congestion control of one server over TCP, or over QUIC; equal where it is the same."""

    control: str | None
    """Its name; None where it is the server's own affair."""
    default: str | None = None
    """What the kernel gives a socket of TCP of which the server does not say anything else."""
    whose: str = ""
    """Server and transport of which it is not known: it is the same as of itself alone."""

    def __str__(self) -> str:
        if self.control is not None:
            return self.control
        if self.default is None:
            return "unknown (the server's own)"
        return f"{self.default}, the kernel's default, unless the server chose another"
