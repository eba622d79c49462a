//! HPACK: the examples of RFC 7541, other implementations, any bytes.

#![allow(clippy::unwrap_used, reason = "a test may end so")]

mod generate;
mod properties;
mod python;
mod rfc;
