//! One caller, one origin: connections that are driven by whoever waits.
//!
//! A [`Connection`] is one HTTP connection over TCP, TLS or QUIC and may be used by any number of
//! threads. The first thread that waits for a response leads, which is to poll the socket, feed the
//! codec and wake the others whose responses have come; when it has what it waits for, the next one
//! leads. An event loop takes the same place by [`Connection::drive`]. Where nobody waits, the
//! `keeper`'s thread looks after the connection.
//!
//! No lock is held while waiting.

mod coding;
#[cfg(test)]
mod conformance;
mod connect;
mod connection;
mod error;
mod exchange;
mod facts;
mod held;
mod keeper;
mod link;
mod options;
mod shared;
mod slots;
mod state;
mod tls;
mod wait;

pub use coding::Decoder;
pub use connect::Connecting;
pub use connection::{Connection, Flush, Submission};
pub use error::{Error, Kind};
pub use exchange::{Exchange, Sections};
pub use facts::{Facts, Setup};
pub use options::{ConnectOptions, Proxy, ProxyProtocol};
pub use slots::{Interest, Times};
pub use tls::{File, Pin, Tls, TlsInfo, TlsOptions, Words};
pub use wait::Patience;

/// A version of HTTP, as spoken on a connection.
pub use trilane_connection::Version;
/// The fields of a head or of trailers: names and values as they came, names of HTTP/1.1 in the case
/// of the sender.
pub use trilane_wire::{FieldList, Unprocessed};
