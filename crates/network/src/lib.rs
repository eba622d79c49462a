//! An emulated network between a client and a server.
//!
//! Its core has neither sockets nor clocks: packets and instants in, packets and instants out. A
//! [`Direction`] carries packets from one end of the network to the other. Each packet passes, in
//! this order:
//!
//! 1. loss: random, in bursts ([Gilbert and Elliott]), or by a pattern;
//! 2. a queue that drops what does not fit, and with CoDel ([RFC 8289]) what has waited for long;
//! 3. the link, which serialises one packet after the other at its rate, or at the opportunities of
//!    a [`Trace`] in the format of Mahimahi;
//! 4. the delay, with jitter that keeps the order of packets unless reordering is asked for;
//! 5. what else may happen to it: it arrives twice, or with a bit flipped.
//!
//! All of this happens at instants that the packets and the [`DirectionSpec`] alone determine: a
//! caller that polls late hands packets on late, and changes nothing else.
//!
//! Random numbers are seeded. Each part draws its own, so that asking for jitter does not change
//! which packets are lost.
//!
//! Around it, two [`End`]s are namespaces of the kernel with one TUN interface each, and programs
//! in them; [`Running`] is the loop that reads the packets of one interface, and writes them to the
//! other when the core says so.
//!
//! [Gilbert and Elliott]: https://doi.org/10.1002/j.1538-7305.1963.tb00955.x
//! [RFC 8289]: https://www.rfc-editor.org/rfc/rfc8289

mod chance;
mod codel;
mod delay;
mod direction;
mod emulator;
mod end;
mod link;
mod loss;
mod netlink;
mod packet;
mod pattern;
mod proof;
mod queue;
mod recording;
mod spec;
mod sys;
mod trace;

pub use direction::{Counted, Counters, Direction, Way};
pub use emulator::{Outcome, Running};
pub use end::{End, INTERFACE, Side, Tcp, Unavailable, prepare, user_namespace};
pub use packet::Packet;
pub use pattern::Pattern;
pub use proof::{Check, Proof, Property, Reached, reach};
pub use spec::{
    Bandwidth, Capacity, DirectionSpec, LossSpec, Profile, ProfileProperty, RANKS, Spec,
};
pub use trace::Trace;

/// Nanoseconds since the network began.
pub type Nanos = u64;

/// Bytes of an IP packet that fills a frame of Ethernet.
pub const MTU: usize = 1500;
