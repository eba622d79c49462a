//! What a network is, in words.

mod profile;
mod read;
mod write;

use std::time::Duration;

pub use profile::{Profile, Property as ProfileProperty, RANKS};

use crate::delay::Delay;
use crate::direction::Way;
use crate::link::{Link, Steady};
use crate::queue::Limit;
use crate::trace::Opportunities;
use crate::{MTU, Nanos, Pattern, Trace};

/// Packets that a queue of so many bandwidth-delay products holds at least: a link with next to no
/// delay has a buffer, too.
const LEAST_QUEUE: usize = 10;

/// A network between a client and a server, such as
/// `rtt=40ms,rate=20mbit,loss=1%,burst=3,queue=1bdp,jitter=5ms,seed=7`.
///
/// Settings are divided by commas. Behind `up.` (from the client to the server) or `down.` one
/// holds for that direction alone, in place of what is said for both.
///
/// | setting | meaning |
/// | --- | --- |
/// | `rtt=40ms` | delay there and back, half of it in each direction |
/// | `up.delay=5ms` | delay in one direction |
/// | `jitter=5ms` | a packet takes up to so much more or less, each as likely; in order, so the mean is more |
/// | `reorder` | a packet may overtake another, which jitter alone does not let it |
/// | `rate=20mbit` | bits of IP packets per second |
/// | `trace=FILE` | instead: opportunities to send, in the format of Mahimahi |
/// | `queue=1bdp` | what waits at most: bandwidth-delay products, packets (`100p`) or bytes (`64k`) |
/// | `codel` | the queue drops what has waited for long (RFC 8289) |
/// | `loss=1%` | packets lost |
/// | `burst=3` | in bursts of so many in the mean |
/// | `pattern=99/1` | instead: counts of packets that pass and that are lost, in turns ([`Pattern`]) |
/// | `duplicate=1%` | packets that arrive twice |
/// | `corrupt=1%` | packets that arrive with a bit flipped |
/// | `seed=7` | of all that is drawn |
///
/// Before them may stand the name of a [`Profile`], such as `4g`, of which the seed draws a network,
/// or `4g@median`, the network in the middle. Settings take the place of what it has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    /// From the client to the server.
    pub up: DirectionSpec,
    /// From the server to the client.
    pub down: DirectionSpec,
    /// Of all that is drawn.
    pub seed: u64,
}

/// One direction of a [`Spec`]. By default packets pass at once, all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionSpec {
    /// From the link's end to the other end.
    pub delay: Duration,
    /// A packet takes up to so much more or less, each as likely; at most the delay.
    pub jitter: Duration,
    /// Whether a packet may overtake another.
    pub reorder: bool,
    /// What the link carries.
    pub bandwidth: Bandwidth,
    /// What waits for the link at most; for one without limit nothing does.
    pub queue: Capacity,
    /// Whether the queue drops what has waited for long (RFC 8289).
    pub codel: bool,
    /// Which packets are lost.
    pub loss: LossSpec,
    /// Share of packets that arrive twice, 0 to 1.
    pub duplicate: f64,
    /// Share of packets that arrive with a bit flipped, 0 to 1.
    pub corrupt: f64,
}

/// What a link carries.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Bandwidth {
    /// Every packet at once.
    #[default]
    Unlimited,
    /// Bits per second, above 0.
    Rate(u64),
    /// What a trace says.
    Trace {
        /// The file that it was read from.
        name: String,
        /// Its opportunities.
        trace: Trace,
    },
}

impl Bandwidth {
    /// Bits per second in the mean, where there is a limit.
    pub fn rate(&self) -> Option<f64> {
        match self {
            Self::Unlimited => None,
            Self::Rate(rate) => Some(*rate as f64),
            Self::Trace { trace, .. } => Some(trace.rate()),
        }
    }
}

/// What a queue holds at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    /// Bandwidth-delay products: what is under way in a round-trip time at the link's rate. It is
    /// never less than ten full packets.
    Bdp(f64),
    /// Packets.
    Packets(u64),
    /// Bytes, at least those of a full packet.
    Bytes(u64),
}

impl Default for Capacity {
    fn default() -> Self {
        Self::Bdp(1.0)
    }
}

/// Which packets are lost.
#[derive(Clone, Debug, PartialEq)]
pub enum LossSpec {
    /// Any of them.
    Random {
        /// Of all packets, 0 to 1.
        share: f64,
        /// Packets that are lost one behind the other, in the mean, at least 1; None: each is lost
        /// by itself. At most `burst` ÷ (1 + `burst`) of all can be.
        burst: Option<f64>,
    },
    /// Those that are said.
    Pattern(Pattern),
}

impl Default for LossSpec {
    fn default() -> Self {
        Self::Random {
            share: 0.0,
            burst: None,
        }
    }
}

impl Spec {
    /// Of one way.
    pub(crate) fn of(&self, way: Way) -> &DirectionSpec {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }

    /// Delay there and back, without jitter.
    pub fn rtt(&self) -> Duration {
        self.up.delay + self.down.delay
    }

    /// The delay of one way.
    pub(crate) fn delay(&self, way: Way) -> Delay {
        let spec = self.of(way);
        let nanos = |time: Duration| time.as_nanos() as Nanos;
        Delay::new(
            nanos(spec.delay),
            nanos(spec.jitter),
            spec.reorder,
            self.seed,
            way as u8,
        )
    }

    /// How long what waits in a full queue of one way takes to leave it, in seconds.
    pub(crate) fn backlog(&self, way: Way) -> f64 {
        let rate = self.of(way).bandwidth.rate();
        let (Some(rate), Some((_, limit))) = (rate, self.link(way)) else {
            return 0.0;
        };
        let bytes = match limit {
            Limit::Bytes(bytes) => bytes,
            Limit::Packets(packets) => packets * MTU as u64,
        };
        bytes as f64 * 8.0 / rate
    }

    /// The link of one way, and what waits for it at most; None where every packet passes at once.
    pub(crate) fn link(&self, way: Way) -> Option<(Link, Limit)> {
        let spec = self.of(way);
        let link = match &spec.bandwidth {
            Bandwidth::Unlimited => return None,
            Bandwidth::Rate(rate) => Link::Rate(Steady::new(*rate)),
            Bandwidth::Trace { trace, .. } => Link::Trace(Opportunities::new(trace.clone())),
        };
        let limit = match spec.queue {
            Capacity::Packets(packets) => Limit::Packets(packets),
            Capacity::Bytes(bytes) => Limit::Bytes(bytes),
            Capacity::Bdp(products) => {
                let rate = spec.bandwidth.rate().unwrap_or_default();
                let product = rate / 8.0 * self.rtt().as_secs_f64();
                Limit::Bytes((products * product).max((LEAST_QUEUE * MTU) as f64) as u64)
            }
        };
        Some((link, limit))
    }
}

#[cfg(test)]
mod tests;
