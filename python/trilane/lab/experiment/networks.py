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


def of_rtt(rtt_s: float) -> str:
    """The network that is a round-trip time, in seconds."""
    return f"rtt={1e3 * rtt_s:g}ms"


def joined(network: str, more: str) -> str:
    """The settings of both, either of which may have none."""
    return ",".join(filter(None, (network, more)))
