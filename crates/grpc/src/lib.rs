//! What a gRPC call means, without I/O.
//!
//! A [`Schema`] comes from `.proto` files, a descriptor set or server reflection ([`reflection`]) and
//! gives each [`Method`], which turns JSON into request messages and bytes into responses. [`frame`]
//! is the length-prefixed message of the wire, [`status`] and [`timeout`] are its header fields,
//! [`gzip`] its one compression. Nothing here owns a socket or a clock, and everything that a peer
//! can send is bounded.
//!
//! The protocol is [gRPC over HTTP/2](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md);
//! over HTTP/3 it is the same.

mod editions;
pub mod frame;
pub mod gzip;
pub mod json;
mod known;
mod method;
pub mod near;
pub mod reflection;
mod schema;
mod sound;
pub mod status;
pub mod timeout;
mod zero;

pub use json::JsonError;
pub use method::{DecodeError, Method, RpcKind};
pub use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
pub use schema::{LeftOut, Schema, SchemaError, known_files};
pub use zero::encode;
