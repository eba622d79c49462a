//! `trilane_client` for Python.
//!
//! Two rules keep threads from waiting for one another. The interpreter lock is released around
//! everything that can wait or take a lock of the client; and it is never acquired while a lock of the
//! client is held, which is why [`waiting::Interrupt`] is only asked between waits.

mod buffer;
pub(crate) mod connect;
pub(crate) mod connecting;
pub(crate) mod connection;
pub(crate) mod decoder;
mod errors;
pub(crate) mod exchange;
pub(crate) mod facts;
mod fields;
mod released;
pub(crate) mod sections;
pub(crate) mod tls;
mod waiting;
