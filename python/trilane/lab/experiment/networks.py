"""Emulated networks as an experiment names them: the SPEC of `trilane network`, empty for none."""

from __future__ import annotations

from trilane import _core


def problem(network: str) -> str | None:
    """What is wrong with a network; None where it can be emulated, and for none."""
    try:
        rtt_s(network)
    except ValueError as error:
        return str(error)
    return None


def rtt_s(network: str) -> float:
    """Round-trip time in seconds, of a profile the median; 0 for none.

    Raises:
        ValueError: this is no network; the message says why.
    """
    return _core.network_rtt(network) if network else 0.0


def with_rtt(network: str, rtt_s: float) -> str:
    """The network with another round-trip time, in seconds."""
    return ",".join(filter(None, (network, f"rtt={1e3 * rtt_s:g}ms")))
