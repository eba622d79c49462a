//! The codecs against the letter of the RFCs, against other implementations, and against any bytes.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod h1;
mod h2;
mod h3;
mod hpack;
mod one_off;
mod qpack;
mod websocket;
