//! HPACK (RFC 7541): the field sections of HTTP/2.
//!
//! Each direction of a connection has one [`Encoder`] at one end and one [`Decoder`] at the other,
//! whose tables change in step. So a decoder that has failed must not be used again, and a block
//! must be decoded to its end whether or not its fields are wanted.

mod decoder;
mod encoder;
mod integer;
mod role;
mod static_table;
mod table;

pub use decoder::{Decoder, Error};
pub use encoder::Encoder;
pub(crate) use encoder::{begin_without_table, encode_without_table, string};
pub use role::Role;

/// SETTINGS_HEADER_TABLE_SIZE before anybody has announced another (RFC 9113 §6.5.2), in bytes.
pub const DEFAULT_TABLE_SIZE: u32 = 4096;

/// What an entry costs in a table, and a field in a list, beside its name and value (RFC 7541 §4.1,
/// RFC 9113 §6.5.2), in bytes.
pub const ENTRY_OVERHEAD: usize = 32;
