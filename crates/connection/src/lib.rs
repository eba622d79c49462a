//! One HTTP connection without sockets, for the load engine and for the client.
//!
//! A [`Stream`] is a connection over a byte stream (TCP, a Unix socket, memory): a proxy's tunnel
//! where there is one, in TLS of its own where the proxy wants that, TLS where there is one, then HTTP/1.1 or HTTP/2. A [`Quic`] is a connection
//! over datagrams, speaking HTTP/3. Both own what they have to send; neither owns a socket, a clock
//! or a thread. Instants and bytes come in as arguments, responses go to an
//! [`Events`](trilane_wire::Events) sink chosen at compile time, and the end of a connection comes
//! back as [`Over`].
//!
//! The turn of a byte stream, with any socket:
//!
//! ```no_run
//! # use std::io::{Read, Write}; use std::time::Instant;
//! # use trilane_connection::{HEADROOM, Over, Stream}; use trilane_wire::{End, Events, Request};
//! # fn turns(mut socket: std::net::TcpStream, mut stream: Stream, request: &Request, sink: &mut impl Events) -> Result<Over, Over> {
//! let mut buffer = vec![0; HEADROOM + 64 * 1024];
//! stream.connected(Instant::now())?;
//! loop {
//!     if stream.capacity() > 0 && stream.send(request, 0).is_err() { break Ok(stream.eof(false, sink)) }
//!     while let bytes @ [_, ..] = stream.transmit()? {
//!         let sent = socket.write(bytes).unwrap_or(0);
//!         stream.sent(sent);
//!     }
//!     match socket.read(&mut buffer[HEADROOM..]) {
//!         Ok(0) => return Ok(stream.eof(false, sink)),
//!         Ok(length) => {
//!             let begin = stream.restore(&mut buffer, HEADROOM);
//!             stream.receive(Instant::now(), &mut buffer[begin..HEADROOM + length], sink)?
//!         }
//!         Err(_) => return Ok(stream.eof(true, sink)),
//!     };
//! }
//! # }
//! ```
//!
//! **The invariant**: after every call with `&mut self`, call `transmit` until nothing is left, or
//! until the socket takes no more, before waiting. The peer may wait for what is in there.
//!
//! **The end**: when a call returns [`Over`], one last round of `transmit` sends what the protocol
//! asks for (an alert, GOAWAY, close_notify); then close the socket.

mod codec;
mod phase;
mod queue;
mod quic;
mod socks;
mod stream;
mod tunnel;
mod unsent;

pub use phase::{Over, Phase, Progress, StreamConfig, TlsConfig};
pub use quic::{Batch, Quic, QuicConfig, Taken};
pub use stream::{HEADROOM, Stream};
pub use tunnel::Tunnel;

/// A version of HTTP, as spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
    /// HTTP/3.
    H3,
}

impl Version {
    /// `h1`, `h2`, `h3`.
    pub fn name(self) -> &'static str {
        match self {
            Version::H1 => "h1",
            Version::H2 => "h2",
            Version::H3 => "h3",
        }
    }
}
