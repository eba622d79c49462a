//! QUIC (RFC 9000) by quinn-proto, datagrams in and datagrams out.
//!
//! [`Connection`] is one client connection on one UDP socket; [`H3Session`] is the same with HTTP/3
//! on it, which is what the engine and the client use. Neither owns a socket or a clock:
//!
//! 1. `connect`, then `transmit` until it returns `None`, sending each batch;
//! 2. wait for the socket or for `timeout`, whichever is first;
//! 3. hand a received batch to `receive`, or call `handle_timeout`;
//! 4. send requests, then `transmit` until `None`, and wait again.
//!
//! **The invariant**: after every call with `&mut self`, `transmit` until it returns `None` before
//! waiting. Retry, version negotiation, loss recovery, key update, path MTU and stateless reset
//! happen inside.

mod buffer;
mod config;
mod connection;
mod crypto;
mod error;
mod info;
mod session;

pub use buffer::ReceiveBuffer;
pub use config::{Config, Congestion, LARGEST_PROBE, Options};
pub use connection::{Connection, Event, Read, Transmit};
pub use error::{Error, ErrorKind};
pub use info::{PeerParameters, Stats};
pub use session::H3Session;
