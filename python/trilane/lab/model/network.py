"""What is known of the emulated network of a run."""

from __future__ import annotations

from typing import Literal

from trilane.lab.model.record import Amount, Count, Record, Verdict

_IN_ORDER = "mean delay in order"


class Packets(Record, frozen=True):
    """Packets, and the bytes of them with their IP headers."""

    packets: Count
    """How many."""
    bytes: Count
    """Of all of them."""


class Way(Record, frozen=True):
    """What became of the packets of one direction."""

    received: Packets
    """All that were sent."""
    lost: Packets
    """Lost as it was asked."""
    dropped: Packets
    """Dropped by the queue."""
    forwarded: Packets
    """All that arrived."""
    duplicated: Count
    """Arrived twice."""
    corrupted: Count
    """Arrived with a bit flipped."""
    reordered: Count
    """Arrived behind one that was sent later."""


class Lateness(Record, frozen=True):
    """Time by which packets arrived later than they should have."""

    p50: Amount
    """Median, seconds."""
    p99: Amount
    """99th percentile, seconds."""
    max: Amount
    """Seconds."""
    histogram: list[tuple[Amount, Count]]
    """Upper ends of intervals in seconds, and the packets in each; empty ones are left out."""


class Property(Record, frozen=True):
    """One property of the network, as it was measured in one direction."""

    way: Literal["client to server", "server to client"]
    """The direction."""
    property: str
    """Its name, with its unit."""
    asked: float
    """What it should be."""
    seen: float
    """What it was."""
    tolerance: Amount
    """What clock and chance explain."""
    holds: bool
    """Whether the difference is within the tolerance."""
    text: str
    """All of this in one sentence."""


class Check(Record, frozen=True):
    """What the network found when it measured itself, before its first run in the block."""

    verdict: Verdict
    """`invalid` where a property is not as it was asked, `suspect` where packets were late."""
    properties: list[Property]
    """Of both directions."""
    lateness_s: Lateness
    """Of the packets of the measurement."""

    @property
    def jittered_s(self) -> float | None:
        """Mean delay there and back where packets with jitter kept their order, seconds.

        It is more than was asked, as packets wait for those before them; None without such packets.
        """
        seen = {(each.way, each.property): each.seen for each in self.properties}
        if not any(name == _IN_ORDER for _, name in seen):
            return None
        # A direction without jitter has the delay that all of its packets have.
        return sum(
            seen.get((way, _IN_ORDER), seen.get((way, "delay"), 0.0))
            for way in {way for way, _ in seen}
        )

    @property
    def broken(self) -> list[str]:
        """What is not as it was asked."""
        return [each.text for each in self.properties if not each.holds]


class Did(Record, frozen=True):
    """What became of the packets of a run."""

    up: Way
    """From the client to the server."""
    down: Way
    """From the server to the client."""
    cpu_s: Amount
    """CPU time of the emulator, seconds."""
    waited_s: Amount
    """What of it passed while nothing was to be done, but soon, seconds."""
    lateness_s: Lateness
    """How late it was."""


class OnNetwork(Did, frozen=True):
    """The emulated network that a run was made on."""

    network: str
    """Its settings, with all that was drawn for this block; `docs/network.md` explains them."""
    rtt_s: Amount
    """Its delay there and back without jitter, seconds."""
    congestion_control: str
    """How TCP sends at both ends."""
    check: Check
    """What it found when it measured itself."""
