//! The way of packets from one end of the network to the other.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;

use crate::chance::{Chance, Part};
use crate::delay::Delay;
use crate::link::Link;
use crate::loss::Loss;
use crate::queue::Queue;
use crate::{Nanos, Packet, Spec};

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Up => "client to server",
            Self::Down => "server to client",
        })
    }
}

/// Packets that something happened to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// How many.
    pub packets: u64,
    /// Their bytes, IP headers among them.
    pub bytes: u64,
}

impl Counted {
    fn add(&mut self, size: usize) {
        self.packets += 1;
        self.bytes += size as u64;
    }
}

/// What became of the packets of one direction.
///
/// What came and what was duplicated is what was forwarded, lost or dropped, and what is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Came in.
    pub received: Counted,
    /// Were lost, before the queue.
    pub lost: Counted,
    /// Were dropped by the queue, because it was full or by CoDel.
    pub dropped: Counted,
    /// Went out at the other end.
    pub forwarded: Counted,
    /// Went out a second time.
    pub duplicated: u64,
    /// Went out with a bit flipped.
    pub corrupted: u64,
    /// Went out behind a packet that came after them.
    pub reordered: u64,
}

/// One direction of a network.
#[derive(Clone, Debug)]
pub struct Direction<P> {
    loss: Loss,
    /// None where every packet passes at once.
    link: Option<(Queue<P>, Link)>,
    /// The packet that the link serialises, and when it has left.
    leaving: Option<(Nanos, P)>,
    delay: Delay,
    duplicate: (f64, Chance),
    corrupt: (f64, Chance),
    travelling: BinaryHeap<Travelling<P>>,
    /// Packets that have left the link, their second copies among them.
    left: u64,
    /// Number of the latest packet among those that went out.
    latest: u64,
    counters: Counters,
}

/// A packet between the link and the other end.
#[derive(Clone, Debug)]
struct Travelling<P> {
    arrives: Nanos,
    /// In the order in which they left the link, from 1.
    number: u64,
    packet: P,
}

impl<P> Travelling<P> {
    fn key(&self) -> (Nanos, u64) {
        (self.arrives, self.number)
    }
}

impl<P> PartialEq for Travelling<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for Travelling<P> {}

impl<P> PartialOrd for Travelling<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Travelling<P> {
    /// The one that arrives first is the greatest, which a `BinaryHeap` gives first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<P: Packet> Direction<P> {
    /// One way of a network, on which no packet is yet.
    pub fn new(spec: &Spec, way: Way) -> Self {
        let own = spec.of(way);
        let chance = |part| Chance::new(spec.seed, way as u8, part);
        Self {
            loss: Loss::new(&own.loss, spec.seed, way as u8),
            link: spec
                .link(way)
                .map(|(link, limit)| (Queue::new(limit, own.codel), link)),
            leaving: None,
            delay: spec.delay(way),
            duplicate: (own.duplicate, chance(Part::Duplication)),
            corrupt: (own.corrupt, chance(Part::Corruption)),
            travelling: BinaryHeap::new(),
            left: 0,
            latest: 0,
            counters: Counters::default(),
        }
    }

    /// A packet comes in. Instants of calls never go back.
    pub fn receive(&mut self, now: Nanos, packet: P) {
        self.advance(now);
        let size = packet.size();
        self.counters.received.add(size);
        if self.loss.lost() {
            self.counters.lost.add(size);
            return;
        }
        match &mut self.link {
            None => self.travel(now, packet),
            Some((queue, _)) => {
                if queue.push(now, packet).is_err() {
                    self.counters.dropped.add(size);
                } else if self.leaving.is_none() {
                    self.serialise(now);
                }
            }
        }
    }

    /// The next packet that is at the other end at `now` or before, and when it arrived there.
    pub fn poll(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        self.advance(now);
        if self.travelling.peek()?.arrives > now {
            return None;
        }
        let Travelling {
            arrives,
            number,
            packet,
        } = self.travelling.pop()?;
        if number < self.latest {
            self.counters.reordered += 1;
        }
        self.latest = self.latest.max(number);
        self.counters.forwarded.add(packet.size());
        Some((arrives, packet))
    }

    /// When to poll next: no packet arrives before. None while no packet is under way.
    pub fn due(&self) -> Option<Nanos> {
        let first = self.travelling.peek().map(|travelling| travelling.arrives);
        let leaving = self.leaving.as_ref().map(|(at, _)| at + self.delay.least());
        first.into_iter().chain(leaving).min()
    }

    /// What became of the packets so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Lets pass what the link has serialised by `now`, each packet at its own instant.
    fn advance(&mut self, now: Nanos) {
        while let Some((left, packet)) = self.leaving.take_if(|(left, _)| *left <= now) {
            self.travel(left, packet);
            self.serialise(left);
        }
    }

    /// The link is free: it takes the next packet that waits.
    fn serialise(&mut self, now: Nanos) {
        let Some((queue, link)) = &mut self.link else {
            return;
        };
        let dropped = &mut self.counters.dropped;
        if let Some(packet) = queue.pop(now, |packet| dropped.add(packet.size())) {
            self.leaving = Some((link.pass(now, packet.size() as u64), packet));
        }
    }

    /// A packet has left the link.
    fn travel(&mut self, from: Nanos, packet: P) {
        let (share, chance) = &mut self.duplicate;
        if chance.happens(*share) {
            self.counters.duplicated += 1;
            self.set_out(from, packet.clone());
        }
        self.set_out(from, packet);
    }

    fn set_out(&mut self, from: Nanos, mut packet: P) {
        let (share, chance) = &mut self.corrupt;
        if chance.happens(*share) && packet.size() > 0 {
            self.counters.corrupted += 1;
            let bytes = packet.bytes();
            let bit = chance.below(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        self.left += 1;
        self.travelling.push(Travelling {
            arrives: self.delay.arrives(from),
            number: self.left,
            packet,
        });
    }
}

#[cfg(test)]
mod tests;
