//! Sans-IO client state machines for HTTP/1.1, HTTP/2 and HTTP/3.
//!
//! Bytes come in as arguments, bytes go out into a buffer of the caller's, and what happened goes to
//! an [`Events`] sink chosen at compile time. Nothing here owns a socket, a clock, a thread or an
//! async runtime, so that one codec serves the load engine, the blocking client, the fuzzers and the
//! tests.
//!
//! **The invariant**: after every call that takes `out`, write `out` to the transport before waiting
//! for the peer; when `out` has been written and [`h1::Connection::has_output`] is true, call
//! `produce` and write again. A peer's window may depend on it.
//!
//! **Content** of a request is a body that the connection sends as windows open, or is written by the
//! caller ([`Content::Streamed`]): `write` takes what flow control allows now, `finish` ends it, and
//! `upload` says whether the peer still wants it. HTTP/2 and HTTP/3 hold back a response that nobody
//! reads by `pause` and `resume`; with HTTP/1.1 the caller stops reading the transport.
//!
//! **Errors**: `receive` returns a [`ConnectionError`] when the connection is lost. By then every
//! outstanding request has been reported through [`Events::fail`] and the farewell that the protocol
//! asks for is in `out`: write it and close. No input makes this crate panic.

pub mod error;
pub mod events;
pub mod field;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod hpack;
pub mod huffman;
mod output;
mod proxy_protocol;
pub mod qpack;
pub mod request;
mod upload;
pub mod websocket;

pub use error::{ConnectionError, End, ErrorKind, Refused, StreamError, Unprocessed};
pub use events::{Events, Head, StreamId};
pub use field::{FieldList, Fields};
pub use output::Output;
pub use proxy_protocol::ProxyProtocol;
pub use request::{Content, Encoding, OneOff, Request, RequestError, RequestParts, Varying};
pub use upload::{Unfinished, Upload, check_trailers};
