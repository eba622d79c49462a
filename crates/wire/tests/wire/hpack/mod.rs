//! HPACK: the examples of RFC 7541, other implementations, any bytes.

mod generate;
mod properties;
mod python;
mod rfc;
