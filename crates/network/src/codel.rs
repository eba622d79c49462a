//! CoDel, which drops what would keep a queue standing (RFC 8289).

use crate::queue::Waiting;
use crate::{MTU, Nanos, Packet};

/// The time in a queue that is acceptable (RFC 8289 §4.4).
const TARGET: Nanos = 5_000_000;
/// A worst round-trip time: for so long a queue may stand (RFC 8289 §4.3).
pub(crate) const INTERVAL: Nanos = 100_000_000;

/// What CoDel knows of a queue. The names are those of RFC 8289 §5.
#[derive(Clone, Debug, Default)]
pub(crate) struct Codel {
    /// From when packets will have waited for too long; 0 while they do not.
    first_above_time: Nanos,
    drop_next: Nanos,
    count: u64,
    last_count: u64,
    dropping: bool,
}

impl Codel {
    /// The packet that leaves the queue at `now`; those before it are handed to `drop` (`deque`).
    pub(crate) fn pop<P: Packet>(
        &mut self,
        now: Nanos,
        waiting: &mut Waiting<P>,
        mut drop: impl FnMut(P),
    ) -> Option<P> {
        let (mut packet, mut ok_to_drop) = self.take(now, waiting);
        if self.dropping {
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next {
                if let Some(packet) = packet {
                    drop(packet);
                }
                self.count += 1;
                (packet, ok_to_drop) = self.take(now, waiting);
                self.dropping = ok_to_drop;
                if ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next);
                }
            }
        } else if ok_to_drop {
            if let Some(packet) = packet {
                drop(packet);
            }
            (packet, _) = self.take(now, waiting);
            self.dropping = true;
            // Where it dropped a moment ago it goes on as fast as it did.
            let delta = self.count - self.last_count;
            let lately = now.saturating_sub(self.drop_next) < 16 * INTERVAL;
            self.count = if delta > 1 && lately { delta } else { 1 };
            self.drop_next = self.control_law(now);
            self.last_count = self.count;
        }
        packet
    }

    /// The next packet, and whether it may be dropped (`dodequeue`).
    fn take<P: Packet>(&mut self, now: Nanos, waiting: &mut Waiting<P>) -> (Option<P>, bool) {
        let Some((came, packet)) = waiting.pop() else {
            self.first_above_time = 0;
            return (None, false);
        };
        if now.saturating_sub(came) < TARGET || waiting.bytes() <= MTU as u64 {
            self.first_above_time = 0;
        } else if self.first_above_time == 0 {
            self.first_above_time = now + INTERVAL;
        } else {
            return (Some(packet), now >= self.first_above_time);
        }
        (Some(packet), false)
    }

    fn control_law(&self, from: Nanos) -> Nanos {
        from + (INTERVAL as f64 / (self.count as f64).sqrt()) as Nanos
    }
}
