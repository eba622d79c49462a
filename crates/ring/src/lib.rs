//! io_uring for one thread, as far as a client's sockets need it: waiting for readiness, receiving into
//! buffers that the kernel picks, sending, and one system call for all of it. Linux 6.1 or later.
//!
//! Nothing here is unsafe for the caller: what the kernel reads from or writes to belongs to the [`Ring`]
//! until the kernel has done with it.

mod ring;
mod sys;
#[cfg(test)]
mod tests;

pub use ring::{Event, Filled, Interest, Received, Ring, Token};
