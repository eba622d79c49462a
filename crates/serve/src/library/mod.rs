//! The library service of `proto/trilane/library/v1/library.proto`.

mod name;
mod service;
mod store;
mod watch;

pub(crate) use service::Service;
pub(crate) use store::Library;

/// Generated from the definition.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    rustdoc::all
)]
pub(crate) mod proto {
    include!("../../generated/trilane.library.v1.rs");
}

/// The definition with all that it imports: an encoded `google.protobuf.FileDescriptorSet`.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("../../generated/library.fds");
