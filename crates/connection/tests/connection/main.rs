//! A connection over a byte stream, joined without sockets to rustls and to scripts.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod early_data;
mod stream;
mod uploads;
