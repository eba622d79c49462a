//! Packets that wait for the link.

use std::collections::VecDeque;

use crate::codel::Codel;
use crate::{Nanos, Packet};

/// Packets in the order in which they came, with the instants at which they did.
#[derive(Clone, Debug)]
pub(crate) struct Waiting<P> {
    packets: VecDeque<(Nanos, P)>,
    bytes: u64,
}

impl<P: Packet> Waiting<P> {
    pub(crate) fn pop(&mut self) -> Option<(Nanos, P)> {
        let first = self.packets.pop_front();
        if let Some((_, packet)) = &first {
            self.bytes -= packet.size() as u64;
        }
        first
    }

    /// Of all that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What a queue holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Bytes(u64),
    Packets(u64),
}

/// A queue that drops what comes when it is full (drop-tail), and with CoDel what waited for long.
#[derive(Clone, Debug)]
pub(crate) struct Queue<P> {
    waiting: Waiting<P>,
    limit: Limit,
    codel: Option<Codel>,
}

impl<P: Packet> Queue<P> {
    pub(crate) fn new(limit: Limit, codel: bool) -> Self {
        Self {
            waiting: Waiting {
                packets: VecDeque::new(),
                bytes: 0,
            },
            limit,
            codel: codel.then(Codel::default),
        }
    }

    /// Takes a packet, or gives it back because it does not fit.
    pub(crate) fn push(&mut self, now: Nanos, packet: P) -> Result<(), P> {
        let waiting = &mut self.waiting;
        let size = packet.size() as u64;
        let fits = match self.limit {
            Limit::Bytes(most) => waiting.bytes + size <= most,
            Limit::Packets(most) => (waiting.packets.len() as u64) < most,
        };
        if !fits {
            return Err(packet);
        }
        waiting.bytes += size;
        waiting.packets.push_back((now, packet));
        Ok(())
    }

    /// The packet that the link takes at `now`; what CoDel drops before it is handed to `drop`.
    pub(crate) fn pop(&mut self, now: Nanos, drop: impl FnMut(P)) -> Option<P> {
        match &mut self.codel {
            Some(codel) => codel.pop(now, &mut self.waiting, drop),
            None => self.waiting.pop().map(|(_, packet)| packet),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codel::INTERVAL;

    fn packet(size: usize) -> Vec<u8> {
        vec![0; size]
    }

    #[test]
    fn a_full_queue_gives_back_what_comes() {
        let mut queue = Queue::new(Limit::Bytes(3000), false);
        assert!(queue.push(0, packet(1500)).is_ok());
        assert!(queue.push(0, packet(1400)).is_ok());
        assert_eq!(queue.push(0, packet(200)), Err(packet(200)));
        assert!(queue.push(0, packet(100)).is_ok());
        assert_eq!(queue.pop(0, |_| ()), Some(packet(1500)));
        assert!(queue.push(0, packet(1500)).is_ok());

        let mut queue = Queue::new(Limit::Packets(2), false);
        assert!(queue.push(0, packet(1500)).is_ok());
        assert!(queue.push(0, packet(1)).is_ok());
        assert!(queue.push(0, packet(1)).is_err());
    }

    /// What CoDel drops of a queue whose packets have all waited for `sojourn` at their turn, one
    /// turn each millisecond: the numbers of the turns, from 0.
    fn dropped(sojourn: Nanos, turns: u64) -> Vec<u64> {
        let (mut waiting, mut codel) = (
            Waiting {
                packets: VecDeque::new(),
                bytes: 0,
            },
            Codel::default(),
        );
        let mut found = Vec::new();
        let begin = 10 * INTERVAL;
        for turn in 0..turns {
            let now = begin + turn * 1_000_000;
            while waiting.packets.len() < 10 {
                waiting.packets.push_back((now, packet(1500)));
                waiting.bytes += 1500;
            }
            for (came, _) in &mut waiting.packets {
                *came = now - sojourn;
            }
            codel.pop(now, &mut waiting, |_| found.push(turn));
        }
        found
    }

    #[test]
    fn codel_leaves_a_short_queue_alone() {
        assert!(dropped(4_999_999, 2000).is_empty());
    }

    #[test]
    fn codel_drops_after_an_interval_and_then_faster_by_the_square_root() {
        // RFC 8289 §3.3: the first after 100 ms, the next ones 100 ms ÷ √n apart.
        let mut expected = vec![100];
        let mut next = 100.0;
        for count in 1..40 {
            next += 100.0 / f64::from(count).sqrt();
            expected.push(next.ceil() as u64);
        }
        let found = dropped(5_000_000, 1400);
        for (found, expected) in found.iter().zip(&expected) {
            assert!(found.abs_diff(*expected) <= 1, "{found}, not {expected}");
        }
        assert!(found.len() >= 40, "{}", found.len());
    }

    #[test]
    fn codel_keeps_the_last_packet() {
        let mut queue = Queue::new(Limit::Packets(10), true);
        for _ in 0..3 {
            assert!(queue.push(0, packet(1500)).is_ok());
        }
        let mut drops = 0;
        // Each waits for ten intervals, but no more than one packet stays behind the second.
        for turn in 0..3 {
            assert!(queue.pop((10 + turn) * INTERVAL, |_| drops += 1).is_some());
        }
        assert_eq!(drops, 0);
    }
}
