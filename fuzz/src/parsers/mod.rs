//! Bytes of a peer, at one parser each.

pub(crate) mod grpc_frame;
pub(crate) mod grpc_reflection;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod h3;
pub(crate) mod hpack;
pub(crate) mod qpack;
pub(crate) mod transcode;
pub(crate) mod websocket;
