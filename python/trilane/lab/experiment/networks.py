"""Emulated networks as an experiment names them: the SPEC of `trilane network`, empty for none."""

from __future__ import annotations

import math

from trilane import _core, quantity

_BITS = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_PACKET_BITS = 8 * 1500


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


def bits_per_s(network: str, connections: int) -> float:
    """What so many connections get to the client, as far as the settings say; else infinity.

    That is the rate of the link, or what senders get that take each loss for congestion: Mathis et
    al., The macroscopic behavior of the TCP congestion avoidance algorithm (CCR 1997).
    """
    settings = dict(setting.partition("=")[::2] for setting in network.split(","))

    def down(name: str) -> str:
        return settings.get(f"down.{name}", settings.get(name, ""))

    link = quantity.number(down("rate"), _BITS) or math.inf
    loss, trip_s = quantity.number(down("loss"), quantity.SHARES), rtt_s(network)
    if not loss or not trip_s:
        return link
    return min(link, connections * _PACKET_BITS / trip_s * math.sqrt(1.5 / loss))


def of_rtt(rtt_s: float) -> str:
    """The network that is a round-trip time, in seconds."""
    return f"rtt={1e3 * rtt_s:g}ms"


def joined(network: str, more: str) -> str:
    """The settings of both, either of which may have none."""
    return ",".join(filter(None, (network, more)))
